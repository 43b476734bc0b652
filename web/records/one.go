package records

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"

	"github.com/skerrydb/skerry/record"
	"github.com/skerrydb/skerry/web"
)

// name returns the collection of the request's path.
func name(c *web.Context) string { return c.Request.PathValue("collection") }

// id returns the id of the request's path.
func id(c *web.Context) string { return c.Request.PathValue("id") }

// answer is a record for the response.
type answer struct {
	id   string
	rev  uint64
	body []byte
}

// set sets the answer to a record, which is valid only within its transaction.
func (a *answer) set(r *record.Record, err error) error {
	if err != nil {
		return err
	}
	a.id, a.rev, a.body = r.ID, r.Rev, r.AppendJSON(a.body[:0])
	return nil
}

// send responds with the record.
func (a *answer) send(c *web.Context, status int) error {
	c.Header()["Etag"] = []string{strconv.Quote(strconv.FormatUint(a.rev, 10))}
	return respond(c, status, a.body)
}

func (f *Face) get(c *web.Context) error {
	var a answer
	err := f.view(c, func(tx *record.Tx) error { return a.set(tx.Get(name(c), id(c))) })
	if err != nil {
		return err
	}
	return a.send(c, http.StatusOK)
}

func (f *Face) create(c *web.Context) error {
	var in struct {
		ID   string          `json:"id,omitempty"`
		Data json.RawMessage `json:"data"`
	}
	if err := c.Bind(&in); err != nil {
		return err
	}
	var a answer
	err := f.update(c, func(tx *record.Tx) error { return a.set(tx.Create(name(c), in.ID, in.Data)) })
	if err != nil {
		return err
	}
	c.Header()["Location"] = []string{f.o.Prefix + "/" + name(c) + "/" + url.PathEscape(a.id)}
	return a.send(c, http.StatusCreated)
}

func (f *Face) patch(c *web.Context) error {
	var in struct {
		Rev  uint64          `json:"rev,omitempty"`
		Data json.RawMessage `json:"data"`
	}
	if err := c.Bind(&in); err != nil {
		return err
	}
	var a answer
	err := f.update(c, func(tx *record.Tx) error { return a.set(tx.Update(name(c), id(c), in.Data, in.Rev)) })
	if err != nil {
		return err
	}
	return a.send(c, http.StatusOK)
}

func (f *Face) remove(c *web.Context) error {
	purge := c.Query("purge").Given()
	err := f.update(c, func(tx *record.Tx) error {
		if purge {
			return tx.Purge(name(c), id(c), 0)
		}
		_, err := tx.Delete(name(c), id(c), 0)
		return err
	})
	if err != nil {
		return err
	}
	return c.NoContent()
}

func (f *Face) restore(c *web.Context) error {
	var a answer
	err := f.update(c, func(tx *record.Tx) error { return a.set(tx.Restore(name(c), id(c), 0)) })
	if err != nil {
		return err
	}
	return a.send(c, http.StatusOK)
}

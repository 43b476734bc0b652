package records

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strconv"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/record"
	"github.com/skerrydb/skerry/record/keys"
	"github.com/skerrydb/skerry/record/query"
	"github.com/skerrydb/skerry/web"
)

// MaxBulk is how many records one request can change by a filter. Beyond it, the error is engine.CodeLimit.
const MaxBulk = 10_000

func (f *Face) patchAll(c *web.Context) error {
	var in struct {
		Data json.RawMessage `json:"data"`
	}
	if err := f.mayChange(c, record.Update); err != nil {
		return err
	}
	if err := c.Bind(&in); err != nil {
		return err
	}
	return f.bulk(c, record.Op{Kind: keys.Update, Data: in.Data})
}

func (f *Face) removeAll(c *web.Context) error {
	if err := f.mayChange(c, record.Delete); err != nil {
		return err
	}
	return f.bulk(c, record.Op{Kind: keys.Delete})
}

// bulk carries out op on all records that match the filter of the request. The first request returns their number and a
// token. A second request with the token changes them if their number is still the same.
func (f *Face) bulk(c *web.Context, op record.Op) error {
	params, err := parameters(c, "filter", "token")
	if err != nil {
		return err
	}
	filter, ok := params["filter"]
	if !ok {
		return web.WrongParameter("filter", "is missing; an empty filter selects all records")
	}
	end, err := f.begin(c, f.turns.writing)
	if err != nil {
		return err
	}
	defer end()
	token, given := params["token"]
	op.Collection = name(c)
	if !given {
		return f.preview(c, op, filter)
	}
	return f.write(c, func(tx *record.Tx, a *answer) error {
		ids, err := matching(tx, op.Collection, filter)
		if err != nil {
			return err
		}
		if token != tokenOf(op, filter, len(ids)) {
			return engine.Errorf(engine.CodePreconditionFailed, "the filter now matches %d records, or the token belongs to another request; nothing was written", len(ids))
		}
		for _, id := range ids {
			op.ID = id
			if _, err := tx.Do(op); err != nil {
				if e, ok := errors.AsType[*record.OpError](err); ok {
					err = e.Err
				}
				return err
			}
		}
		*a = answer{Status: http.StatusOK, Body: append(strconv.AppendInt([]byte(`{"count":`), int64(len(ids)), 10), '}')}
		return nil
	}, op.Data)
}

// preview responds with the number of records that would change and the token for doing it.
func (f *Face) preview(c *web.Context, op record.Op, filter string) error {
	var n int
	err := f.view(c, func(tx *record.Tx) error {
		ids, err := matching(tx, op.Collection, filter)
		n = len(ids)
		return err
	})
	if err != nil {
		return err
	}
	body := strconv.AppendInt([]byte(`{"count":`), int64(n), 10)
	body = strconv.AppendQuote(append(body, `,"token":`...), tokenOf(op, filter, n))
	return respond(c, http.StatusOK, append(body, '}'))
}

// matching returns the ids of all records that match a filter.
func matching(tx *record.Tx, collection, filter string) (ids []string, err error) {
	q, err := tx.ParseQuery(collection, url.Values{"filter": {filter}})
	if err != nil {
		return nil, err
	}
	q.Limit = query.MaxLimit
	for {
		page, err := tx.Find(collection, q)
		if err != nil {
			return nil, err
		}
		for _, r := range page.Items {
			ids = append(ids, r.ID)
		}
		if len(ids) > MaxBulk {
			return nil, engine.Errorf(engine.CodeLimit, "the filter matches more than %d records; change them in several steps", MaxBulk)
		}
		if page.Next == "" {
			return ids, nil
		}
		q.After = q.Orders.Key(page.Items[len(page.Items)-1])
	}
}

// tokenOf returns a string that identifies a change and the number of its records. It is not a secret.
func tokenOf(op record.Op, filter string, n int) string {
	sum := digest([]byte(op.Kind.String()), []byte(op.Collection), []byte(filter), op.Data, strconv.AppendInt(nil, int64(n), 10))
	return base64.RawURLEncoding.EncodeToString(sum[:12])
}

package records

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/record"
	"github.com/skerrydb/skerry/record/keys"
	"github.com/skerrydb/skerry/web"
	"github.com/skerrydb/skerry/web/conditions"
)

// name returns the collection in the path of the request.
func name(c *web.Context) string { return c.Request.PathValue("collection") }

// id returns the id in the path of the request.
func id(c *web.Context) string { return c.Request.PathValue("id") }

func (f *Face) get(c *web.Context) error {
	if isWith(c) {
		return f.getWith(c)
	}
	cond, err := conditions.Of(c.Request.Header)
	if err != nil {
		return err
	}
	at, err := moment(c)
	if err != nil {
		return err
	}
	var a answer
	var unchanged bool
	err = f.view(c, func(tx *record.Tx) error {
		var r *record.Record
		var err error
		if at == nil {
			r, err = tx.Get(name(c), id(c))
		} else {
			r, err = tx.GetAsOf(name(c), id(c), *at)
		}
		if err != nil {
			return err
		}
		if unchanged, err = cond.AllowRead("record", r.Rev); err != nil {
			return err
		}
		a.set(http.StatusOK, r)
		return nil
	})
	if err != nil {
		return err
	}
	if unchanged {
		c.Header()["Etag"] = []string{etag(a.Rev)}
		c.Writer.WriteHeader(http.StatusNotModified)
		return nil
	}
	return a.send(c)
}

// create creates a record, or imports a file.
func (f *Face) create(c *web.Context) error {
	if media := fileType(c.Request.Header.Get("Content-Type")); media != "" {
		return f.load(c, media)
	}
	var in struct {
		ID   string          `json:"id,omitempty"`
		Data json.RawMessage `json:"data"`
	}
	if err := f.mayChange(c, record.Create); err != nil {
		return err
	}
	if err := c.Bind(&in); err != nil {
		return err
	}
	return f.writeOne(c, http.StatusCreated, record.Op{Kind: keys.Create, ID: in.ID, Data: in.Data}, []byte(in.ID), in.Data)
}

func (f *Face) patch(c *web.Context) error {
	var in struct {
		Rev  uint64          `json:"rev,omitempty"`
		Data json.RawMessage `json:"data"`
	}
	if err := f.mayUpdate(c); err != nil {
		return err
	}
	if err := c.Bind(&in); err != nil {
		return err
	}
	return f.writeOne(c, http.StatusOK, record.Op{Kind: keys.Update, ID: id(c), Rev: in.Rev, Data: in.Data}, strconv.AppendUint(nil, in.Rev, 10), in.Data)
}

func (f *Face) remove(c *web.Context) error {
	op := record.Op{Kind: keys.Delete, ID: id(c)}
	if purge := c.Query("purge"); purge.Given() {
		yes := true
		if purge.String() != "" {
			var err error
			if yes, err = purge.Bool(); err != nil {
				return err
			}
		}
		if yes {
			op.Kind = keys.Purge
		}
	}
	return f.writeOne(c, http.StatusNoContent, op)
}

func (f *Face) restore(c *web.Context) error {
	return f.writeOne(c, http.StatusOK, record.Op{Kind: keys.Restore, ID: id(c)})
}

// operation is an operation of a transaction.
type operation struct {
	Op         string          `json:"op"`
	Collection string          `json:"collection"`
	ID         string          `json:"id,omitempty"`
	Rev        uint64          `json:"rev,omitempty"`
	Data       json.RawMessage `json:"data,omitempty"`
}

// kinds are the operations by their names.
var kinds = map[string]keys.Op{"create": keys.Create, "update": keys.Update, "delete": keys.Delete, "restore": keys.Restore, "purge": keys.Purge}

// op returns the operation for a record.Tx.
func (o *operation) op() (record.Op, error) {
	op := record.Op{Kind: kinds[o.Op], Collection: o.Collection, ID: o.ID, Rev: o.Rev, Data: o.Data}
	switch needs := op.Kind == keys.Create || op.Kind == keys.Update; {
	case op.Kind == 0:
		return op, web.Wrong("/op", "%.40q is not one of create, update, delete, restore, purge", o.Op)
	case needs && o.Data == nil:
		return op, web.Wrong("/data", "is missing")
	case !needs && o.Data != nil:
		return op, web.Wrong("/data", "%s takes no data", o.Op)
	case op.Kind != keys.Create && o.ID == "":
		return op, web.Wrong("/id", "is missing")
	}
	return op, nil
}

// transact carries out several operations in one transaction.
func (f *Face) transact(c *web.Context) error {
	var in struct {
		Ops []operation `json:"ops"`
	}
	if err := f.may(c, (*record.Tx).MayWrite); err != nil {
		return err
	}
	if err := c.Bind(&in); err != nil {
		return err
	}
	if len(in.Ops) > record.MaxOps {
		return engine.Errorf(engine.CodeLimit, "the transaction has %d operations; the limit is %d", len(in.Ops), record.MaxOps)
	}
	var all []record.Op
	for i := range in.Ops {
		op, err := in.Ops[i].op()
		if err != nil {
			return explainOp(err, i)
		}
		if err := within(c, op.Collection, record.Update); err != nil {
			return err
		}
		all = append(all, op)
	}
	whole, err := json.Marshal(in)
	if err != nil {
		return engine.Errorf(engine.CodeInternal, "encode operations: %w", err)
	}
	return f.write(c, func(tx *record.Tx, a *answer) error {
		done, err := tx.Do(all...)
		if e, ok := errors.AsType[*record.OpError](err); ok {
			return explainOp(e.Err, e.Index)
		} else if err != nil {
			return err
		}
		return a.results(all, done)
	}, whole)
}

// results sets the answer to the results of all operations: the status, and the record after it.
func (a *answer) results(ops []record.Op, done []*record.Record) error {
	body, short := []byte(`{"results":[`), []byte(`{"results":[`)
	for i, r := range done {
		if i > 0 {
			body, short = append(body, ','), append(short, ',')
		}
		status := http.StatusOK
		switch ops[i].Kind {
		case keys.Create:
			status = http.StatusCreated
		case keys.Delete, keys.Purge:
			status = http.StatusNoContent
		}
		head := strconv.AppendInt([]byte(`{"status":`), int64(status), 10)
		body, short = append(body, head...), append(short, head...)
		if r != nil && status != http.StatusNoContent {
			body = r.AppendJSON(append(body, `,"record":`...))
			short = append(strconv.AppendQuote(append(short, `,"record":{"id":`...), r.ID), '}')
		}
		if body, short = append(body, '}'), append(short, '}'); len(body) > MaxResultBytes {
			return engine.Errorf(engine.CodeLimit, "the results have more than %d bytes of records; change fewer of them at once", MaxResultBytes)
		}
	}
	*a = answer{Status: http.StatusOK, Body: append(body, ']', '}'), Short: append(short, ']', '}')}
	return nil
}

package admin

import (
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/skerrydb/skerry/record"
	"github.com/skerrydb/skerry/record/schema"
	"github.com/skerrydb/skerry/web"
)

// cellAnswer tells the module of the grid what became of a cell.
type cellAnswer struct {
	Rev    uint64 `json:"rev,omitempty"`
	Text   string `json:"text"` // what the record has now
	Null   bool   `json:"null"`
	List   string `json:"list,omitempty"` // of a select of several: its value as JSON
	Cut    bool   `json:"cut,omitempty"`
	Detail string `json:"detail,omitempty"` // why it was not saved
	By     string `json:"by,omitempty"`     // who has saved the record last
}

// cellAnswerOf returns a value of a record for the module.
func cellAnswerOf(r *record.Record, field string) cellAnswer {
	v := r.Value(field)
	text := v.String()
	if i, ok := r.Collection().Index(field); ok {
		text = printedValue(&r.Collection().Fields[i], v)
		if r.Collection().Fields[i].Many {
			return cellAnswer{Rev: r.Rev, Text: strings.Join(selectedOptions(v), ", "), List: text, Null: v.IsNull(), By: recordSavedBy(r)}
		}
	}
	return cellAnswer{Rev: r.Rev, Text: shorten(text, gridText), Null: v.IsNull(), Cut: len(text) > gridText, By: recordSavedBy(r)}
}

// saveCell changes one field of a record at a revision. It answers with JSON; people without scripts use the form.
func (a *Admin) saveCell(c *web.Context) error {
	collection, id := c.Path("collection").String(), c.Path("id").String()
	in, err := recordFormOf(c)
	if err != nil {
		return err
	}
	field := in.Get("field")
	rev, err := strconv.ParseUint(in.Get("rev"), 10, 64)
	if err != nil || rev == 0 {
		return web.Wrong("/rev", "must be the revision of the record in the grid")
	}
	form := url.Values{"f." + field: in["value"], "m." + field: {"1"}}
	if in.Has("null") {
		form.Set("n."+field, "1")
	}
	var saved *record.Record
	err = a.act(c, "record.update", collection+"/"+id, a.text("field %s, revision %d", field, rev), func() error {
		_, err := a.o.Records.Update(c, recordsActor(c), func(tx *record.Tx) error {
			r, err := tx.Get(collection, id)
			if err != nil {
				return err
			}
			if i, ok := r.Collection().Index(field); !ok || r.Collection().Fields[i].Type == schema.Password {
				return web.Wrong("/field", "names no field of %s that a grid can change", collection)
			}
			var patch []byte
			if r.Rev == rev { // otherwise Update says so
				if patch, err = patchOf(r.Collection(), form, r); err != nil {
					return err
				}
			}
			saved, err = tx.Update(collection, id, patch, rev)
			return err
		})
		return err
	})
	if err == nil {
		return c.JSON(http.StatusOK, cellAnswerOf(saved, field))
	}
	if !errors.Is(err, record.ErrRevision) && !errors.Is(err, record.ErrInvalid) && !errors.Is(err, record.ErrExists) {
		return err
	}
	var now cellAnswer
	if viewErr := a.viewRecords(c, func(tx *record.Tx) error {
		r, err := getAnyRecord(tx, collection, id)
		if err == nil {
			now = cellAnswerOf(r, field)
		}
		return err
	}); viewErr != nil {
		return errors.Join(err, viewErr)
	}
	now.Detail = c.Detail(err)
	if problems, ok := errors.AsType[schema.Problems](err); ok && len(problems) > 0 {
		now.Detail = problems[0].Detail
	}
	return c.JSON(recordStatus(err), now)
}

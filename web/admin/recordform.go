package admin

import (
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/record"
	"github.com/skerrydb/skerry/record/schema"
	"github.com/skerrydb/skerry/record/value"
	"github.com/skerrydb/skerry/web"
)

const pickLimit = 50 // records that a reference offers

// recordForm is what the page of a record shows.
type recordForm struct {
	k         *schema.Compiled
	r         *record.Record // nil: a new one
	base      *record.Record // what the form was made of, if somebody else has saved meanwhile and the history has it
	fields    []recordInput
	pick      map[string][]recordPick // by collection
	conflict  bool
	conflicts int // fields that both have changed
	rest      []string
	extra     string // members that are no fields
	id        string // that a new record is to get
}

// recordPick is a record that a reference can refer to.
type recordPick struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

func (a *Admin) newRecordPage(c *web.Context) error {
	form, err := a.loadForm(c, "", nil)
	if err != nil {
		return err
	}
	return a.showForm(c, http.StatusOK, form, "")
}

func (a *Admin) recordFormPage(c *web.Context) error {
	form, err := a.loadForm(c, c.Path("id").String(), nil)
	if err != nil {
		return err
	}
	return a.showForm(c, http.StatusOK, form, "")
}

// loadForm reads what a form needs. in is what a person has sent, or nil.
func (a *Admin) loadForm(c *web.Context, id string, in url.Values) (*recordForm, error) {
	name := c.Path("collection").String()
	f := &recordForm{}
	err := a.viewRecords(c, func(tx *record.Tx) (err error) {
		*f = recordForm{pick: map[string][]recordPick{}, id: in.Get("id")}
		if f.k, err = tx.Collection(name); err != nil {
			return err
		}
		if id != "" {
			if f.r, err = getAnyRecord(tx, name, id); err != nil {
				return err
			}
		}
		if in != nil && f.r != nil {
			f.meet(tx, in)
		}
		f.fields = fieldsOf(f.k, f.r, in)
		if f.r != nil {
			f.extra = extraOf(f.r)
		}
		if in.Has(recordExtraPart) {
			f.extra = in.Get(recordExtraPart)
		}
		for _, x := range f.fields {
			if x.Kind == "reference" && f.pick[x.Collection] == nil {
				f.pick[x.Collection] = recordPicks(tx, x.Collection, "")
			}
		}
		return nil
	})
	return f, err
}

// meet makes one form of what a person has sent for an older revision and what somebody else has saved meanwhile: what the person
// has left alone becomes theirs. It needs the history; without it, all that the person sent is kept.
func (f *recordForm) meet(tx *record.Tx, in url.Values) {
	rev, _ := strconv.ParseUint(in.Get("rev"), 10, 64)
	if rev == 0 || rev == f.r.Rev {
		return
	}
	f.conflict = true
	base, err := tx.GetAsOf(f.k.Name, f.r.ID, record.Moment{Rev: rev})
	if err != nil {
		return
	}
	f.base = base
	if plainText(in.Get(recordExtraPart)) == extraOf(base) {
		in.Del(recordExtraPart)
	}
	for i := range f.k.Fields {
		field := &f.k.Fields[i]
		if !sentField(in, field.Name) {
			continue
		}
		if _, changed, err := fieldPatch(field, base.Field(i), in); !changed && err == nil {
			for _, part := range []string{"f.", "n.", "m."} {
				in.Del(part + field.Name)
			}
		}
	}
}

// compare says beside each field what somebody else has saved there.
func (f *recordForm) compare(in url.Values) {
	for i := range f.fields {
		x := &f.fields[i]
		old := f.r.Field(i)
		if x.Kind == "password" || !sentField(in, x.Name) {
			continue
		}
		if raw, changed, err := fieldPatch(&f.k.Fields[i], old, in); err == nil && (!changed || string(compactJSON(raw)) == string(old.AppendJSON(nil))) {
			continue
		}
		x.Theirs, x.Differs = shorten(old.String(), 4<<10), f.base == nil || f.base.Field(i) != old
		if x.Differs {
			f.conflicts++
		}
	}
}

// recordPicks returns some records of a collection, those that a text is about or the first ones.
func recordPicks(tx *record.Tx, collection, text string) []recordPick {
	params := url.Values{"limit": {strconv.Itoa(pickLimit)}}
	if quoted, err := value.OfText(text); err == nil && text != "" {
		q := string(quoted.AppendJSON(nil))
		terms := []string{"id = " + q}
		if k, err := tx.Collection(collection); err == nil {
			for _, f := range k.Fields {
				if (f.Type == schema.Text || f.Type == schema.Email) && len(terms) < 3 {
					terms = append(terms, f.Name+" ~ "+q)
				}
			}
		}
		params.Set("filter", strings.Join(terms, " || "))
	}
	page, err := findRecords(tx, collection, params)
	if err != nil {
		return nil // it is only an offer
	}
	all := make([]recordPick, 0, len(page.Items))
	for _, r := range page.Items {
		all = append(all, recordPick{r.ID, shorten(recordName(r), 100)})
	}
	return all
}

// referenceOptions returns records that a text is about, for the module.
func (a *Admin) referenceOptions(c *web.Context) error {
	name := c.Path("collection").String()
	var all []recordPick
	err := a.viewRecords(c, func(tx *record.Tx) error {
		_, err := tx.Collection(name)
		all = recordPicks(tx, name, c.Query("q").String())
		return err
	})
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, map[string]any{"options": all})
}

// recordMark is when something happened to a record, and by whom.
type recordMark struct {
	What string
	At   time.Time
	By   string
}

// showForm shows the page of a record.
func (a *Admin) showForm(c *web.Context, status int, f *recordForm, problem string) error {
	path := Prefix + collectionPath(f.k.Name)
	locals := web.Locals{
		"title": a.text("New record of %s", collectionTitle(f.k)), "name": f.k.Name, "path": path, "fields": f.fields, "picks": f.pick, "problem": problem, "rest": f.rest,
		"id": "", "rev": uint64(0), "marks": []recordMark(nil), "saved_by": "", "deleted": false, "conflict": f.conflict, "conflicts": f.conflicts, "merged": f.base != nil, "self": path + "/new", "extra": f.k.Extra, "extra_text": f.extra, "below": path,
		"given_id": f.id,
	}
	if r := f.r; r != nil {
		self := Prefix + recordPath(f.k.Name, r.ID)
		locals["title"], locals["id"], locals["rev"], locals["deleted"], locals["self"] = shorten(recordName(r), 80), r.ID, r.Rev, r.Deleted, self
		locals["below"] = path + "/" + url.PathEscape(r.ID)
		locals["saved_by"] = recordSavedBy(r)
		var marks []recordMark
		for i, what := range []string{a.text("Created"), a.text("Updated"), a.text("Deleted"), a.text("Restored")} {
			if m := r.Marks[i]; !m.At.IsZero() {
				marks = append(marks, recordMark{what, m.At, m.By})
			}
		}
		locals["marks"] = marks
	}
	return a.show(c, status, "recordform", locals)
}

// recordStatus returns the status of a page that shows why something was refused.
func recordStatus(err error) int {
	switch engine.CodeOf(err) {
	case record.CodeRevision, record.CodeExists, record.CodeReferenced, record.CodeNotFound:
		return http.StatusConflict
	case engine.CodeUnavailable:
		return http.StatusServiceUnavailable
	}
	return http.StatusUnprocessableEntity
}

func (a *Admin) createRecord(c *web.Context) error {
	collection := c.Path("collection").String()
	in, err := recordFormOf(c)
	if err != nil {
		return err
	}
	form, err := a.loadForm(c, "", in)
	if err != nil {
		return err
	}
	id := strings.TrimSpace(in.Get("id"))
	patch, err := patchOf(form.k, in, nil)
	var made *record.Record
	if err == nil {
		err = a.act(c, "record.create", collection+"/"+id, "", func() error {
			_, err := a.o.Records.Update(c, recordsActor(c), func(tx *record.Tx) (err error) {
				made, err = tx.Create(collection, id, patch)
				return err
			})
			return err
		})
	}
	if err != nil {
		form.rest = blameFields(form.fields, err)
		return a.showForm(c, recordStatus(err), form, c.Detail(err))
	}
	return a.done(c, recordPath(collection, made.ID), "created")
}

func (a *Admin) saveRecord(c *web.Context) error {
	collection, id := c.Path("collection").String(), c.Path("id").String()
	in, err := recordFormOf(c)
	if err != nil {
		return err
	}
	rev, err := strconv.ParseUint(in.Get("rev"), 10, 64)
	if err != nil || rev == 0 {
		return web.Wrong("/rev", "must be the revision that the form was made of")
	}
	err = a.act(c, "record.update", collection+"/"+id, a.text("revision %d", rev), func() error {
		_, err := a.o.Records.Update(c, recordsActor(c), func(tx *record.Tx) error {
			r, err := tx.Get(collection, id)
			if err != nil {
				return err
			}
			var patch []byte
			if r.Rev == rev { // otherwise Update says so
				if patch, err = patchOf(r.Collection(), in, r); err != nil {
					return err
				}
			}
			_, err = tx.Update(collection, id, patch, rev)
			return err
		})
		return err
	})
	if err == nil {
		return a.done(c, recordPath(collection, id), "saved")
	}
	form, loadErr := a.loadForm(c, id, in)
	if loadErr != nil {
		return errors.Join(err, loadErr)
	}
	if form.conflict {
		form.compare(in)
	}
	form.rest = blameFields(form.fields, err)
	return a.showForm(c, recordStatus(err), form, c.Detail(err))
}

// changeRecord does something with a record at the revision of a form, and goes to a page.
func (a *Admin) changeRecord(c *web.Context, action, notice, then string, fn func(tx *record.Tx, collection, id string, rev uint64) error) error {
	collection, id := c.Path("collection").String(), c.Path("id").String()
	rev, err := c.Form("rev").Int64In(1, 1<<62)
	if err != nil {
		return err
	}
	err = a.act(c, action, collection+"/"+id, a.text("revision %d", rev), func() error {
		_, err := a.o.Records.Update(c, recordsActor(c), func(tx *record.Tx) error { return fn(tx, collection, id, uint64(rev)) })
		return err
	})
	if err == nil {
		return a.done(c, then, notice)
	}
	form, loadErr := a.loadForm(c, id, nil)
	if loadErr != nil {
		return errors.Join(err, loadErr)
	}
	return a.showForm(c, recordStatus(err), form, c.Detail(err))
}

func (a *Admin) deleteRecord(c *web.Context) error {
	path := recordPath(c.Path("collection").String(), c.Path("id").String())
	return a.changeRecord(c, "record.delete", "deleted", path, func(tx *record.Tx, collection, id string, rev uint64) error {
		_, err := tx.Delete(collection, id, rev)
		return err
	})
}

func (a *Admin) restoreRecord(c *web.Context) error {
	path := recordPath(c.Path("collection").String(), c.Path("id").String())
	return a.changeRecord(c, "record.restore", "restored", path, func(tx *record.Tx, collection, id string, rev uint64) error {
		_, err := tx.Restore(collection, id, rev)
		return err
	})
}

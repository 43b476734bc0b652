package admin

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/record"
	"github.com/skerrydb/skerry/record/query"
	"github.com/skerrydb/skerry/record/schema"
	"github.com/skerrydb/skerry/web"
)

const (
	maxBulk    = 10_000 // records that one bulk action changes
	bulkSample = 10     // of these the dry run shows and tries
)

// bulkAction is an action on many records.
type bulkAction struct {
	Collection string
	Op         string // delete or set
	Field      string
	Value      string
	Null       bool
	Every      bool // all that the filter finds, instead of those of IDs
	IDs        []string
	State      gridState
	Known      string // the prints of what the dry run has found; "" before it
}

// bulkTarget is a record that a bulk action changes, at the revision at which it was found.
type bulkTarget struct {
	id  string
	rev uint64
}

const printBytes = 8 // of a record: 10,000 make a form of 107 KB

// printOf returns what differs if a record or its revision does. On the wire between two pages.
func (t bulkTarget) printOf() string {
	sum := sha256.Sum256(binary.BigEndian.AppendUint64([]byte(t.id), t.rev))
	return string(sum[:printBytes])
}

// printsOf returns the prints of records for the form of a dry run.
func printsOf(targets []bulkTarget) string {
	var all []byte
	for _, t := range targets {
		all = append(all, t.printOf()...)
	}
	return base64.RawURLEncoding.EncodeToString(all)
}

// changedSince returns how many records differ at least from those of which known has the prints.
func changedSince(known string, targets []bulkTarget) int {
	seen := map[string]bool{}
	all, err := base64.RawURLEncoding.DecodeString(known)
	if err != nil || len(all)%printBytes != 0 {
		return max(1, len(targets)) // nothing is known of them
	}
	for part := range slices.Chunk(all, printBytes) {
		seen[string(part)] = true
	}
	added, kept := 0, 0
	for _, t := range targets {
		if seen[t.printOf()] {
			kept++
		} else {
			added++
		}
	}
	return max(added, len(seen)-kept) // one that was changed is in both
}

// bulkResult says what a bulk action has done.
type bulkResult struct{ Done, Left int }

// errBulkTried ends the transaction of a dry run, which must not commit.
var errBulkTried = errors.New("this was only a dry run")

// readBulk reads the form of a bulk action.
func readBulk(c *web.Context) (b bulkAction, err error) {
	form, err := recordFormOf(c)
	if err != nil {
		return b, err
	}
	b = bulkAction{Collection: c.Path("collection").String(), Op: form.Get("op"), Field: form.Get("field"), Value: form.Get("value"), Null: form.Has("null"), Every: form.Get("on") == "all", IDs: form["id"], State: readGrid(form), Known: form.Get("known")}
	if len(b.IDs) > maxBulk {
		return b, engine.Errorf(engine.CodeLimit, "%d records are chosen, the limit is %d", len(b.IDs), maxBulk)
	}
	return b, nil
}

// optionsIn returns the options in a text that has commas between them.
func optionsIn(text string) (all []string) {
	for one := range strings.SplitSeq(text, ",") {
		if one = strings.TrimSpace(one); one != "" {
			all = append(all, one)
		}
	}
	return all
}

// patch returns the merge patch of an action.
func (b *bulkAction) patch(k *schema.Compiled, r *record.Record) ([]byte, error) {
	form := url.Values{"f." + b.Field: {b.Value}, "m." + b.Field: {"1"}}
	if i, ok := k.Index(b.Field); ok && k.Fields[i].Many {
		form["f."+b.Field] = optionsIn(b.Value)
	}
	if b.Null {
		form.Set("f."+b.Field, "")
		form.Set("n."+b.Field, "1")
	}
	return patchOf(k, form, r)
}

// check reports what an action lacks.
func (b *bulkAction) check(a *Admin, k *schema.Compiled) string {
	i, ok := k.Index(b.Field)
	switch {
	case b.Op != "delete" && b.Op != "set":
		return a.text("Choose what to do with the records.")
	case b.Op == "set" && (!ok || k.Fields[i].Type == schema.Password):
		return a.text("Choose the field to set.")
	case !b.Every && len(b.IDs) == 0:
		return a.text("Choose records, or everything that the filter finds.")
	case b.State.At != "":
		return a.text("The past cannot be changed. Leave the field “As it was at” empty.")
	}
	return ""
}

// targets returns the records of an action that are not deleted. more reports that the filter finds more than maxBulk.
func (b *bulkAction) targets(tx *record.Tx) (all []bulkTarget, more bool, err error) {
	if !b.Every {
		for _, id := range b.IDs {
			r, err := tx.Get(b.Collection, id)
			if errors.Is(err, record.ErrNotFound) {
				continue
			}
			if err != nil {
				return nil, false, err
			}
			all = append(all, bulkTarget{r.ID, r.Rev})
		}
		return all, false, nil
	}
	q, err := tx.ParseQuery(b.Collection, url.Values{"filter": {b.State.Filter}, "deleted": {"live"}})
	if err != nil {
		return nil, false, err
	}
	q.Limit = query.MaxLimit
	for {
		page, err := tx.Find(b.Collection, q)
		if err != nil {
			return nil, false, err
		}
		for _, r := range page.Items {
			if len(all) == maxBulk {
				return all, true, nil
			}
			all = append(all, bulkTarget{r.ID, r.Rev})
		}
		if page.Next == "" {
			return all, false, nil
		}
		q.After = q.Orders.Key(page.Items[len(page.Items)-1])
	}
}

// apply does the action with some records, unless they have changed since they were found.
func (b *bulkAction) apply(tx *record.Tx, targets []bulkTarget) (n bulkResult, err error) {
	for _, t := range targets {
		r, err := tx.Get(b.Collection, t.id)
		if errors.Is(err, record.ErrNotFound) || err == nil && r.Rev != t.rev {
			n.Left++
			continue
		}
		if err != nil {
			return n, err
		}
		if b.Op == "delete" {
			_, err = tx.Delete(b.Collection, t.id, t.rev)
		} else {
			var patch []byte
			if patch, err = b.patch(r.Collection(), r); err == nil {
				_, err = tx.Update(b.Collection, t.id, patch, t.rev)
			}
		}
		if err != nil {
			return n, engine.Errorf(engine.CodeOf(err), "record %s: %w", t.id, err)
		}
		n.Done++
	}
	return n, nil
}

// bulkPage is the dry run: it says how many records the action would change, shows some, and tries it with these.
func (a *Admin) bulkPage(c *web.Context) error {
	b, err := readBulk(c)
	if err != nil {
		return err
	}
	return a.dryRun(c, http.StatusOK, b, "")
}

func (a *Admin) dryRun(c *web.Context, status int, b bulkAction, problem string) error {
	var k *schema.Compiled
	var targets []bulkTarget
	var sample []*record.Record
	more, lacks := false, ""
	err := a.viewRecords(c, func(tx *record.Tx) (err error) {
		if k, err = tx.Collection(b.Collection); err != nil {
			return err
		}
		if lacks = b.check(a, k); lacks != "" {
			return nil
		}
		if targets, more, err = b.targets(tx); err != nil {
			return err
		}
		sample = nil
		for _, t := range targets[:min(len(targets), bulkSample)] {
			r, err := tx.Get(b.Collection, t.id)
			if err != nil {
				return err
			}
			sample = append(sample, r)
		}
		return nil
	})
	switch {
	case err != nil && refusedRecordQuery(err):
		return a.showGrid(c, http.StatusUnprocessableEntity, b.State, c.Detail(err))
	case err != nil:
		return err
	case lacks != "":
		return a.showGrid(c, http.StatusUnprocessableEntity, b.State, lacks)
	}
	ready := len(targets) > 0 && !more
	if problem == "" && ready {
		if err := a.try(c, &b, targets[:len(sample)]); err != nil {
			status, ready, problem = recordStatus(err), false, a.text("A trial with the first records failed: %s", c.Detail(err))
		}
	}
	shown := gridState{Columns: b.State.Columns}
	if b.Op == "set" && !slices.Contains(shown.Columns, b.Field) && len(shown.Columns) > 0 {
		shown.Columns = append([]string{b.Field}, shown.Columns...)
	}
	columns := columnsOf(k, shown)
	return a.show(c, status, "recordbulk", web.Locals{
		"title": collectionTitle(k), "name": k.Name, "path": Prefix + collectionPath(k.Name), "back": Prefix + collectionPath(k.Name) + b.State.link(), "b": b, "count": len(targets), "more": more, "problem": problem,
		"columns": columns, "rows": rowsOf(k, columns, sample, true), "steps": (len(targets) + record.MaxOps - 1) / record.MaxOps, "per_step": record.MaxOps, "limit": maxBulk, "ready": ready, "known": printsOf(targets), "value": shorten(b.Value, gridText),
	})
}

// try does the action with some records in a transaction that does not commit.
func (a *Admin) try(c *web.Context, b *bulkAction, targets []bulkTarget) error {
	_, err := a.o.Records.Update(c, recordsActor(c), func(tx *record.Tx) error {
		if _, err := b.apply(tx, targets); err != nil {
			return err
		}
		return errBulkTried
	})
	if errors.Is(err, errBulkTried) {
		return nil
	}
	return err
}

// bulkDo does the action, in transactions of at most record.MaxOps records.
func (a *Admin) bulkDo(c *web.Context) error {
	b, err := readBulk(c)
	if err != nil {
		return err
	}
	var targets []bulkTarget
	lacks, more := "", false
	err = a.viewRecords(c, func(tx *record.Tx) error {
		k, err := tx.Collection(b.Collection)
		if err != nil {
			return err
		}
		if lacks = b.check(a, k); lacks == "" {
			targets, more, err = b.targets(tx)
		}
		return err
	})
	switch {
	case err != nil && !refusedRecordQuery(err):
		return err
	case err != nil || lacks != "" || more:
		return a.dryRun(c, http.StatusUnprocessableEntity, b, "")
	}
	if n := changedSince(b.Known, targets); n > 0 {
		return a.dryRun(c, http.StatusConflict, b, a.text("Since the preview, at least %d of the records were changed, added or deleted. Nothing was done: look at this one.", n))
	}
	var n bulkResult
	var stopped error
	err = a.act(c, "records."+b.Op, b.Collection, b.describe(len(targets)), func() error {
		for part := range slices.Chunk(targets, record.MaxOps) {
			var one bulkResult
			_, err := a.o.Records.Update(c, recordsActor(c), func(tx *record.Tx) (err error) {
				one, err = b.apply(tx, part)
				return err
			})
			if err != nil {
				stopped = err
				return fmt.Errorf("after %d records: %w", n.Done, err)
			}
			n.Done, n.Left = n.Done+one.Done, n.Left+one.Left
		}
		return nil
	})
	switch {
	case stopped != nil:
		return a.dryRun(c, recordStatus(stopped), b, a.text("%d records were changed, then it stopped: %s", n.Done, c.Detail(stopped)))
	case err != nil:
		return err
	}
	if n.Left > 0 {
		return a.showGrid(c, http.StatusOK, b.State, a.text("Changed %d records. Skipped %d that were changed or deleted in the meantime.", n.Done, n.Left))
	}
	return a.done(c, collectionPath(b.Collection)+b.State.link(), "done")
}

// describe returns the action for the log.
func (b *bulkAction) describe(n int) string {
	what := strconv.Itoa(n) + " records"
	if b.Every {
		what += ", filter " + strconv.Quote(b.State.Filter)
	}
	if b.Op == "set" {
		what += ", field " + b.Field
	}
	return what
}

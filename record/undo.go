package record

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/record/keys"
)

// MaxUndo is how many changes Undo reads, including those of other users.
const MaxUndo = 10_000

// undoRounds is how often Undo retries records that other records prevented from being undone.
const undoRounds = 16

// Undone reports what Undo did to one record.
type Undone struct {
	Collection string   `json:"collection"`
	ID         string   `json:"id"`
	Op         string   `json:"op,omitempty"` // update, delete or restore; "": nothing is left to do
	Members    []string `json:"members,omitempty"`

	// Conflict explains why the record was left unchanged.
	Conflict string `json:"conflict,omitempty"`
}

// String describes what was done.
func (u *Undone) String() string {
	text := u.Collection + " " + u.ID + ": "
	switch {
	case u.Conflict != "":
		return text + "not undone: " + u.Conflict
	case u.Op == "":
		return text + "nothing to undo"
	}
	text += u.Op
	if len(u.Members) > 0 {
		text += " " + strings.Join(u.Members, ", ")
	}
	return text
}

// undo is the work on one record.
type undo struct {
	Undone
	c       *collection
	changes []*keys.Change // since then, the newest first
	after   *keys.Doc      // what is to be stored
	op      keys.Op
}

// Undo undoes all changes that user by made since a time, in all collections, and returns what it did to each record. A
// record is left unchanged, with a Conflict, if another user has since changed the same members, if other records
// prevent it, or if the history was purged or redacted. Passwords are not undone. If dry is set, nothing is written.
// Only system actors may undo.
func (db *DB) Undo(ctx context.Context, a Actor, by string, since time.Time, dry bool) (all []*Undone, err error) {
	_, err = db.Update(ctx, a, func(tx *Tx) error {
		if all, err = tx.Undo(by, since); err == nil && dry {
			err = errDry
		}
		return err
	})
	if errors.Is(err, errDry) {
		err = nil
	}
	return all, err
}

var errDry = errors.New("a dry run writes nothing")

// Undo is DB.Undo in a transaction.
func (t *Tx) Undo(by string, since time.Time) ([]*Undone, error) {
	if !t.actor.System {
		return nil, engine.Errorf(CodeRefused, "only the program and superadmins may undo the changes of a user")
	}
	var todo []*undo
	read := 0
	for _, k := range t.catalog.all {
		some, err := t.changesSince(t.catalog.byName[k.Name], since, &read)
		if err != nil {
			return nil, err
		}
		for _, u := range some {
			if slices.ContainsFunc(u.changes, func(ch *keys.Change) bool { return ch.By == by }) {
				todo = append(todo, u)
			}
		}
	}
	return t.undo(todo, func(ch *keys.Change) bool { return ch.By == by })
}

// changesSince collects the changes of a collection since a time, by record.
func (t *Tx) changesSince(c *collection, since time.Time, read *int) (all []*undo, err error) {
	n, err := keys.ReadCounters(t.tx, c.Collection)
	if err != nil {
		return nil, err
	}
	if n.Anchor > 0 && !n.AnchorAt.Before(since) {
		return nil, engine.Errorf(CodeHistoryGone, "the history of %s does not reach back to %s", c.Name, since.UTC().Format(time.RFC3339))
	}
	byID := map[string]*undo{}
	for ch, err := range keys.Changes(t.tx, c.Collection, 0) {
		if err != nil {
			return nil, err
		}
		if ch.At.Before(since) {
			break
		}
		if *read++; *read > MaxUndo {
			return nil, engine.Errorf(engine.CodeLimit, "there are more than %d changes since %s; choose a later time", MaxUndo, since.UTC().Format(time.RFC3339))
		}
		u := byID[ch.ID]
		if u == nil {
			u = &undo{Undone: Undone{Collection: c.Name, ID: ch.ID}, c: c}
			byID[ch.ID] = u
			all = append(all, u)
		}
		u.changes = append(u.changes, ch)
	}
	return all, nil
}

// UndoChange undoes one change of a record, unless a later change has changed the same members. It needs the history
// rule, and the update rule or, for a creation, deletion or restoration, the delete rule.
func (t *Tx) UndoChange(collection, id string, rev uint64) (*Undone, error) {
	c, d, err := t.historic(collection, id)
	if err != nil {
		return nil, err
	}
	if d == nil || rev == 0 || rev > d.Rev {
		return nil, notFound(c, id)
	}
	if d.Rev-rev >= MaxUndo {
		return nil, engine.Errorf(engine.CodeLimit, "there are more than %d changes since revision %d", MaxUndo, rev)
	}
	u := &undo{Undone: Undone{Collection: c.Name, ID: id}, c: c}
	if u.changes, err = keys.History(t.tx, c.Collection, id, 0, int(d.Rev-rev)+1); err != nil {
		return nil, err
	}
	last := u.changes[len(u.changes)-1]
	if last.Rev != rev {
		return nil, engine.Errorf(CodeHistoryGone, "revision %d of record %s is no longer in the history", rev, id)
	}
	op := Update
	if last.Op != keys.Update {
		op = Delete
	}
	if ok, err := t.allows(c, op, d, d); err != nil || !ok {
		return nil, orRefused(err, c, op)
	}
	all, err := t.undo([]*undo{u}, func(ch *keys.Change) bool { return ch.Rev == rev })
	if err != nil {
		return nil, err
	}
	return all[0], nil
}

func orRefused(err error, c *collection, op Operation) error {
	if err != nil {
		return err
	}
	return engine.Errorf(CodeRefused, "the %v rule of %s does not allow this", op, c.Name)
}

// undo undoes the changes of records for which mine returns true.
func (t *Tx) undo(todo []*undo, mine func(*keys.Change) bool) (all []*Undone, err error) {
	for _, u := range todo {
		all = append(all, &u.Undone)
	}
	for range undoRounds {
		left, err := t.undoOnce(todo, mine)
		if err != nil {
			return nil, err
		}
		if len(left) == len(todo) {
			break
		}
		todo = left
	}
	return all, nil
}

// undoOnce undoes what it can and returns the records that other records prevented from being undone.
func (t *Tx) undoOnce(todo []*undo, mine func(*keys.Change) bool) (left []*undo, err error) {
	for _, u := range todo {
		if err := t.planUndo(u, mine); err != nil {
			return nil, err
		}
		if u.Conflict != "" || u.Op == "" {
			continue
		}
		switch err := t.applyUndo(u); {
		case errors.Is(err, ErrReferenced) || errors.Is(err, ErrExists) || errors.Is(err, ErrInvalid) || errors.Is(err, ErrRefused):
			u.Conflict = err.Error()
			left = append(left, u)
		case err != nil:
			return nil, err
		}
	}
	return left, nil
}

// planUndo determines the state of a record before the changes.
func (t *Tx) planUndo(u *undo, mine func(*keys.Change) bool) error {
	u.Op, u.Members, u.Conflict = "", nil, ""
	before, err := keys.Get(t.tx, u.c.Collection, u.ID)
	if err != nil {
		return err
	}
	if before == nil {
		u.Conflict = "the record was purged"
		return nil
	}
	lines, trash := map[string]*line{}, &line{}
	for _, ch := range u.changes {
		if ch.Redacted() && mine(ch) {
			u.Conflict = fmt.Sprintf("revision %d was redacted", ch.Rev)
			return nil
		}
		edits, err := keys.EditsToday(u.c.Collection, ch)
		if err != nil {
			return engine.Errorf(engine.CodeCorrupt, "change %d of %s: %w", ch.Seq, u.c.Name, err)
		}
		switch ch.Op {
		case keys.Create:
			trash.back(mine(ch), []byte("trash"))
			if mine(ch) {
				continue // its data may stay in the trash
			}
		case keys.Delete:
			trash.back(mine(ch), []byte("live"))
		case keys.Restore:
			trash.back(mine(ch), []byte("trash"))
		}
		for _, e := range edits {
			if lines[e.Name] == nil {
				lines[e.Name] = &line{}
			}
			lines[e.Name].back(mine(ch), e.Old)
		}
	}
	return t.settleUndo(u, before, lines, trash)
}

// line is one member through the changes, from the newest back.
type line struct {
	to     []byte // what it was before the latest changes of mine, nil: not there
	oldest []byte // what it was before the oldest of mine
	mine   bool   // there is a change of mine
	frozen bool   // another user has changed it since
	over   bool   // the oldest change of another user before those of mine was reached
}

func (l *line) back(mine bool, old []byte) {
	switch {
	case !mine && !l.mine:
		l.frozen = true
	case !mine:
		l.over = true
	default:
		l.mine, l.oldest = true, old
		if !l.over {
			l.to = old
		}
	}
}

// settleUndo decides what to do, or sets the conflict.
func (t *Tx) settleUndo(u *undo, before *keys.Doc, lines map[string]*line, trash *line) error {
	set := map[string][]byte{}
	var frozen []string
	for name, l := range lines {
		now := keys.Member(u.c.Collection, before, name)
		switch {
		case !l.mine:
		case l.frozen && !bytes.Equal(now, l.oldest):
			frozen = append(frozen, name)
		case !l.frozen && !bytes.Equal(now, l.to):
			set[name] = l.to
		}
	}
	gone := before.Deleted
	if trash.mine {
		gone = string(trash.to) == "trash"
		if trash.frozen && gone != before.Deleted {
			frozen = append(frozen, "whether it is in the trash")
		}
		for name, l := range lines {
			if gone && l.frozen {
				frozen = append(frozen, name)
			}
		}
	}
	if len(frozen) > 0 {
		slices.Sort(frozen)
		u.Conflict = "someone else has since changed " + strings.Join(slices.Compact(frozen), ", ")
		return nil
	}
	after := *before
	after.Deleted = gone
	var err error
	if after.Data, err = keys.WithMembers(u.c.Collection, before, set); err != nil {
		return engine.Errorf(engine.CodeCorrupt, "record %s of %s: %w", u.ID, u.c.Name, err)
	}
	if !gone {
		for name, raw := range set {
			if raw != nil && keys.Member(u.c.Collection, &after, name) == nil {
				u.Conflict = name + " cannot have the value that it had"
				return nil
			}
		}
	}
	changed := !bytes.Equal(u.c.Append(nil, before.Data), u.c.Append(nil, after.Data))
	switch {
	case gone && !before.Deleted:
		u.op = keys.Delete
	case gone: // data in the trash stay as they are
		return nil
	case before.Deleted:
		u.op = keys.Restore
	case changed:
		u.op = keys.Update
	default:
		return nil
	}
	u.Op, u.after = u.op.String(), &after
	if changed && u.op != keys.Delete {
		for name := range set {
			u.Members = append(u.Members, name)
		}
		slices.Sort(u.Members)
	}
	return nil
}

// applyUndo stores the result of planUndo.
func (t *Tx) applyUndo(u *undo) error {
	before, err := keys.Get(t.tx, u.c.Collection, u.ID)
	if err != nil {
		return err
	}
	if u.op == keys.Delete {
		_, err := t.delete(u.c, before)
		return err
	}
	same := func(i int) bool { return u.op == keys.Update && before.Data.Get(i) == u.after.Data.Get(i) }
	if err := u.c.Check(u.after.Data, func(int) bool { return true }); err != nil {
		return invalid(u.c, err)
	}
	if err := t.checkReferences(u.c, u.after, same); err != nil {
		return err
	}
	stamp := keys.Updated
	if u.op == keys.Restore {
		stamp = keys.Restored
	}
	if err := t.runBefore(u.c, u.op, before, u.after); err != nil {
		return err
	}
	u.after.Rev++
	t.stamp(u.after, stamp)
	_, err = t.put(u.c, before, u.after, u.op)
	return err
}

package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"html/template"
	"strings"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/keyspace"
	"github.com/skerrydb/skerry/kv"
	"github.com/skerrydb/skerry/record"
)

const (
	maxEffects   = 50              // keys and records of one transaction that are shown
	maxEffect    = 2000            // bytes of a value
	effectsLimit = 5 * time.Second // until the change of a transaction has arrived
)

// roundTook is how exact times are that people read.
const roundTook = 10 * time.Microsecond

// txEffect is what a transaction did to one key or record.
type txEffect struct {
	What          string       // for people
	Kind          string       // key or record
	Link          template.URL // its page
	Before, After string
	Had, Has      bool // a value before, and after
}

// Lines returns the difference of the values.
func (f txEffect) Lines() []effectLine {
	var old, now []string
	if f.Had {
		old = strings.Split(f.Before, "\n")
	}
	if f.Has {
		now = strings.Split(f.After, "\n")
	}
	return effectLines(old, now)
}

// Verb says what was done.
func (f txEffect) Verb() string {
	switch {
	case f.Has && !f.Had:
		return "created"
	case !f.Has:
		return "deleted"
	case f.Before == f.After:
		return "written again"
	}
	return "changed"
}

// effectLine is one line of a difference.
type effectLine struct {
	Sign string // "+", "-" or " "
	Text string
}

// effectLines returns the shortest difference of two texts. Effects have few lines: see maxEffect.
func effectLines(old, now []string) []effectLine {
	signs := map[string]string{"same": " ", "del": "-", "ins": "+"}
	var all []effectLine
	align(old, now, func(kind, text string) { all = append(all, effectLine{signs[kind], text}) })
	return all
}

// txEffects is what a transaction did.
type txEffects struct {
	All    []txEffect
	Others int    // writes that are not named: those of Skerry's own keys, and those beyond maxEffects
	Schema bool   // the description of a collection has changed, so that records are not named
	Fault  string // why they are not known
}

// withEffects runs fn in a transaction and returns what that did. The values before are those of a snapshot that is taken just
// before the transaction.
func (a *Admin) withEffects(ctx context.Context, fn func(engine.Tx) error, took *time.Duration) (*txEffects, error) {
	var at time.Time
	var pos engine.Position
	run := func() (err error) {
		begun := a.o.Now()
		pos, err = a.o.Engine.Update(ctx, func(tx engine.Tx) error {
			at = tx.Now()
			return fn(tx)
		})
		*took = a.o.Now().Sub(begun).Round(roundTook)
		return err
	}
	promises := a.o.Engine.Promises()
	if promises.Meets("changes", engine.Promises{Feed: true}) != nil {
		return &txEffects{Fault: a.text("This engine does not report its changes.")}, run()
	}
	var out *txEffects
	var ran bool
	var failed error
	_, err := a.o.Engine.View(ctx, engine.Read{}, func(before engine.Tx) error {
		if ran { // the snapshot is of after the transaction now
			out = &txEffects{Fault: a.text("The state before was lost.")}
			return nil
		}
		ran = true
		if failed = run(); failed != nil {
			return nil //nolint:nilerr // the caller has it
		}
		change, err := a.changeAt(ctx, pos, at)
		if err != nil {
			out = &txEffects{Fault: err.Error()}
			return nil //nolint:nilerr // the call itself succeeded
		}
		out = a.compare(ctx, before, change)
		return nil
	})
	switch {
	case failed != nil:
		return nil, failed
	case err != nil && !ran:
		return nil, err
	case err != nil || out == nil:
		out = &txEffects{Fault: a.text("The changes could not be read: %s", err)}
	}
	return out, nil
}

// changeAt returns the change of the transaction at a position and time; one without writes if that wrote nothing.
func (a *Admin) changeAt(ctx context.Context, pos engine.Position, at time.Time) (engine.Change, error) {
	none := engine.Change{Pos: pos, Time: at}
	if pos == 0 {
		return none, nil
	}
	ctx, cancel := context.WithTimeout(ctx, effectsLimit)
	defer cancel()
	for c, err := range a.o.Engine.Changes(ctx, pos-1) {
		switch {
		case err != nil:
			return none, fmt.Errorf("read change %d: %w", pos, err)
		case c.Pos == pos && c.Time.Equal(at):
			return c, nil
		case c.Pos >= pos:
			return none, nil
		}
	}
	return none, ctx.Err()
}

// compare names what a change wrote, with the values before.
func (a *Admin) compare(ctx context.Context, before engine.Tx, c engine.Change) *txEffects {
	out := &txEffects{}
	for _, w := range c.Writes {
		e, ok := kv.Decode(w)
		switch {
		case !ok:
			continue // an index, or part of a record
		case e.Space > keyspace.LastApplication || len(out.All) == maxEffects:
			out.Others++
			continue
		}
		out.All = append(out.All, keyEffect(before, e))
	}
	if a.o.Records == nil {
		return out
	}
	out.Schema = a.o.Records.Touched(c, func(collection, id string) {
		if len(out.All) == maxEffects {
			out.Others++
			return
		}
		out.All = append(out.All, a.recordEffect(ctx, before, collection, id))
	})
	return out
}

func keyEffect(before engine.Tx, e kv.Event) txEffect {
	text, _ := keyText(e.Key)
	f := txEffect{What: shorten(text, maxKeyShown), Kind: "key", Link: "/keys/one?" + keyAddress(e.Space, "key", e.Key), Has: !e.Deleted}
	old, had, err := kv.In(before, e.Space).Get(e.Key)
	if err == nil && had {
		f.Had, f.Before = true, valuePreview(old.Val, maxEffect)+expiresText(old)
	}
	if f.Has {
		f.After = valuePreview(e.Val, maxEffect) + expiresText(e.Entry)
	}
	return f
}

// expiresText says when an entry expires, "" if never.
func expiresText(e kv.Entry) string {
	if e.Expires.IsZero() {
		return ""
	}
	return "  (expires " + when(e.Expires) + ")"
}

func (a *Admin) recordEffect(ctx context.Context, before engine.Tx, collection, id string) txEffect {
	f := txEffect{What: collection + "/" + id, Kind: "record", Link: template.URL(recordPath(collection, id))}
	if tx, err := a.o.Records.In(before, record.Program()); err == nil {
		f.Before, f.Had = recordText(tx, collection, id)
	}
	_, err := a.o.Records.View(ctx, engine.Read{}, record.Program(), func(tx *record.Tx) error {
		f.After, f.Has = recordText(tx, collection, id)
		return nil
	})
	if err != nil {
		f.After = err.Error()
	}
	return f
}

// recordText returns a record as indented JSON, and whether there is one.
func recordText(tx *record.Tx, collection, id string) (string, bool) {
	r, err := tx.Get(collection, id)
	if err != nil {
		return "", false
	}
	var b bytes.Buffer
	if err := json.Indent(&b, r.AppendJSON(nil), "", "  "); err != nil {
		return "", false
	}
	return shorten(b.String(), maxEffect), true
}

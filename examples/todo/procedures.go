package todo

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/kv"
	"github.com/skerrydb/skerry/proc"
)

// Space is where the keys are: the first that is an application's own. Those of the
// user anna are
//
//	anna/list                     the number of her last item, how many there are, and her last change, as JSON
//	anna/item/0000000000000000001 her first item, as JSON
const Space = 16

// Codes of refusals, besides those of the engine.
const (
	CodeListFull      engine.Code = "list_full"
	CodeNothingToUndo engine.Code = "nothing_to_undo"
)

// Limits of a list.
const (
	// MaxUser is how many bytes the id of a user has at most.
	MaxUser = 64
	// MaxText is how many characters what is to be done has at most.
	MaxText = 200
	// MaxItems is how many items a list has. For a further one the oldest that is
	// done makes room; if all are still to be done, it is CodeListFull.
	MaxItems = 1000
)

var (
	// Add puts something on a list.
	Add = proc.Define("add", add).Describe("puts something on a user's list; returns the item")

	// Done says that something is done. To say it again changes nothing.
	Done = proc.Define("done", done).Describe("says that an item of a user's list is done; returns the item")

	// Reopen says that something is not done after all.
	Reopen = proc.Define("reopen", reopen).Describe("says that an item of a user's list is not done after all; returns the item")

	// Remove takes something off a list, which Undo puts back.
	Remove = proc.Define("remove", remove).Describe("takes an item off a user's list; returns the item")

	// Undo takes back the last change of a list, or refuses with CodeNothingToUndo.
	Undo = proc.Define("undo", undo).Describe("takes back the last change of a user's list; returns that change")

	// Items reads a list.
	Items = proc.DefineRead("list", items).Describe("a user's list, the oldest item first, and what undo would take back")
)

// Procedures returns all procedures of the program.
func Procedures() []proc.Procedure { return []proc.Procedure{Add, Done, Reopen, Remove, Undo, Items} }

// Item is one thing to do.
type Item struct {
	ID    int64     `json:"id"`
	Text  string    `json:"text"`
	Added time.Time `json:"added"`
	Done  time.Time `json:"done,omitzero"` // zero: it is still to be done
}

// Open reports whether it is still to be done.
func (it Item) Open() bool { return it.Done.IsZero() }

// Change is what Undo takes back: the item was added, or removed, or done.
type Change struct {
	Added   bool  `json:"added"`
	ID      int64 `json:"id"`
	Removed *Item `json:"removed,omitempty"`
}

// List is all that a user has to do, and has done.
type List struct {
	Items []Item  `json:"items"`
	Last  *Change `json:"last"` // nil: there is nothing to undo
}

// AddIn is what a user wants to do.
type AddIn struct {
	User string `json:"user"`
	Text string `json:"text"`
}

// ItemIn names an item of a user.
type ItemIn struct {
	User string `json:"user"`
	ID   int64  `json:"id"`
}

// UserIn names a user.
type UserIn struct {
	User string `json:"user"`
}

func add(tx *proc.Tx, in AddIn) (Item, error) {
	it := Item{Text: strings.Join(strings.Fields(in.Text), " "), Added: tx.Now()}
	if n := utf8.RuneCountInString(it.Text); n == 0 || n > MaxText || !utf8.ValidString(it.Text) {
		return it, engine.Errorf(engine.CodeInvalid, "what is to be done has 1 to %d characters", MaxText)
	}
	l, err := open(tx, in.User)
	if err != nil {
		return it, err
	}
	if l.Count >= MaxItems {
		if err := l.makeRoom(); err != nil {
			return it, err
		}
	}
	l.LastID++
	l.Count++
	it.ID = l.LastID
	if err := l.put(it); err != nil {
		return it, err
	}
	return it, l.save(&Change{Added: true, ID: it.ID})
}

func done(tx *proc.Tx, in ItemIn) (Item, error) {
	l, err := open(tx, in.User)
	if err != nil {
		return Item{}, err
	}
	it, err := l.item(in.ID)
	if err != nil || !it.Open() {
		return it, err
	}
	it.Done = tx.Now()
	if err := l.put(it); err != nil {
		return it, err
	}
	return it, l.save(&Change{ID: it.ID})
}

func reopen(tx *proc.Tx, in ItemIn) (Item, error) {
	l, err := open(tx, in.User)
	if err != nil {
		return Item{}, err
	}
	it, err := l.item(in.ID)
	if err != nil || it.Open() {
		return it, err
	}
	it.Done = time.Time{}
	if err := l.put(it); err != nil {
		return it, err
	}
	return it, l.save(nil)
}

func remove(tx *proc.Tx, in ItemIn) (Item, error) {
	l, err := open(tx, in.User)
	if err != nil {
		return Item{}, err
	}
	it, err := l.item(in.ID)
	if err != nil {
		return it, err
	}
	l.Count--
	if _, err := tx.KV(Space).Delete(itemKey(l.user, it.ID)); err != nil {
		return it, err
	}
	return it, l.save(&Change{ID: it.ID, Removed: &it})
}

func undo(tx *proc.Tx, in UserIn) (Change, error) {
	l, err := open(tx, in.User)
	if err != nil {
		return Change{}, err
	}
	if l.Last == nil {
		return Change{}, engine.Errorf(CodeNothingToUndo, "there is nothing to undo")
	}
	last := *l.Last
	if last.Added {
		l.Count--
		if _, err := tx.KV(Space).Delete(itemKey(l.user, last.ID)); err != nil {
			return last, err
		}
		return last, l.save(nil)
	}
	if last.Removed != nil {
		l.Count++
		if err := l.put(*last.Removed); err != nil {
			return last, err
		}
		return last, l.save(nil)
	}
	it, err := l.item(last.ID)
	if err != nil {
		return last, err
	}
	it.Done = time.Time{}
	if err := l.put(it); err != nil {
		return last, err
	}
	return last, l.save(nil)
}

func items(tx *proc.Tx, in UserIn) (List, error) {
	l, err := open(tx, in.User)
	if err != nil {
		return List{}, err
	}
	all := List{Items: []Item{}, Last: l.Last}
	for e, err := range tx.KV(Space).ScanPrefix(itemPrefix(l.user)) {
		if err != nil {
			return List{}, err
		}
		var it Item
		if err := json.Unmarshal(e.Val, &it); err != nil {
			return List{}, fmt.Errorf("read an item of %s: %w", l.user, err)
		}
		all.Items = append(all.Items, it)
	}
	return all, nil
}

// list is the list of a user in a transaction; what is exported is stored.
type list struct {
	tx   *proc.Tx
	user string

	LastID int64   `json:"last_id"`
	Count  int     `json:"count"`
	Last   *Change `json:"last"`
}

// open reads a user's list; that of a new one is empty.
func open(tx *proc.Tx, user string) (*list, error) {
	if len(user) == 0 || len(user) > MaxUser || strings.ContainsFunc(user, func(r rune) bool { return r == '/' || r < ' ' || r > '~' }) {
		return nil, engine.Errorf(engine.CodeInvalid, "the id of a user has 1 to %d letters and digits", MaxUser)
	}
	l := &list{tx: tx, user: user}
	e, ok, err := tx.KV(Space).Get(listKey(user))
	if err != nil || !ok {
		return l, err
	}
	if err := json.Unmarshal(e.Val, l); err != nil {
		return nil, fmt.Errorf("read the list of %s: %w", user, err)
	}
	return l, nil
}

// save writes the list, with what undo takes back. Every change of a list does: who
// watches this key sees all of them.
func (l *list) save(last *Change) error {
	l.Last = last
	return write(l.tx, listKey(l.user), l)
}

func (l *list) put(it Item) error { return write(l.tx, itemKey(l.user, it.ID), it) }

func (l *list) item(id int64) (it Item, err error) {
	e, ok, err := l.tx.KV(Space).Get(itemKey(l.user, id))
	switch {
	case err != nil:
		return it, err
	case !ok:
		return it, engine.Errorf(engine.CodeNotFound, "there is no item %d", id)
	}
	if err := json.Unmarshal(e.Val, &it); err != nil {
		return it, fmt.Errorf("read item %d of %s: %w", id, l.user, err)
	}
	return it, nil
}

// makeRoom removes the oldest item that is done.
func (l *list) makeRoom() error {
	all, err := items(l.tx, UserIn{l.user})
	if err != nil {
		return err
	}
	for _, it := range all.Items {
		if !it.Open() {
			l.Count--
			_, err := l.tx.KV(Space).Delete(itemKey(l.user, it.ID))
			return err
		}
	}
	return engine.Errorf(CodeListFull, "the list has %d things to do, which is all that it can have: do one of them first", MaxItems)
}

func write(tx *proc.Tx, key []byte, v any) error {
	val, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = tx.KV(Space).Set(key, val, kv.SetOptions{})
	return err
}

func listKey(user string) []byte    { return []byte(user + "/list") }
func itemPrefix(user string) []byte { return []byte(user + "/item/") }

func itemKey(user string, id int64) []byte {
	return fmt.Appendf(nil, "%s/item/%019d", user, id)
}

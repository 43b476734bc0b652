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
	// MaxUser is the longest id of a user, in bytes.
	MaxUser = 64
	// MaxText is the longest text of an item, in characters.
	MaxText = 200
	// MaxItems is the maximum number of items on a list. A further one replaces the
	// oldest that is done; if none is done, adding it fails with CodeListFull.
	MaxItems = 1000
)

var (
	// Add adds an item to a list.
	Add = proc.Define("add", add).Describe("adds an item to a user's list; returns the item")

	// Done marks an item as done. Doing so again changes nothing.
	Done = proc.Define("done", done).Describe("marks an item as done; returns the item")

	// Reopen marks an item as not done.
	Reopen = proc.Define("reopen", reopen).Describe("marks an item as not done; returns the item")

	// Remove removes an item from a list; Undo restores it.
	Remove = proc.Define("remove", remove).Describe("removes an item from a user's list; returns the item")

	// Undo undoes the last change to a list, or fails with CodeNothingToUndo.
	Undo = proc.Define("undo", undo).Describe("undoes the last change to a user's list; returns that change")

	// Items reads a list.
	Items = proc.DefineRead("list", items).Describe("returns a user's list, the oldest item first, and the change that undo would revert")
)

// Procedures returns all procedures of the program.
func Procedures() []proc.Procedure { return []proc.Procedure{Add, Done, Reopen, Remove, Undo, Items} }

// Item is one thing to do.
type Item struct {
	ID    int64     `json:"id"`
	Text  string    `json:"text"`
	Added time.Time `json:"added"`
	Done  time.Time `json:"done,omitzero"` // zero: not done yet
}

// Open reports whether the item is not done yet.
func (it Item) Open() bool { return it.Done.IsZero() }

// Change is what Undo reverts: an item was added, removed or done.
type Change struct {
	Added   bool  `json:"added"`
	ID      int64 `json:"id"`
	Removed *Item `json:"removed,omitempty"`
}

// List is a user's list.
type List struct {
	Items []Item  `json:"items"`
	Last  *Change `json:"last"` // nil: there is nothing to undo
}

// AddIn is a new item.
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
		return it, engine.Errorf(engine.CodeInvalid, "an item must have 1 to %d characters", MaxText)
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
		return nil, engine.Errorf(engine.CodeInvalid, "a user id must have 1 to %d letters and digits", MaxUser)
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

// save writes the list, with the change that undo reverts. Every change to a list does,
// so watching this key shows all of them.
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
	return engine.Errorf(CodeListFull, "the list is full: it has %d open items; complete one of them first", MaxItems)
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

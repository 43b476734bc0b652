package todo_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/skerrydb/skerry/ci/seed"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/examples/exampletest"
	"github.com/skerrydb/skerry/examples/todo"
	"github.com/skerrydb/skerry/proc"
)

// call calls a procedure that must fail with code, or succeed if that is "".
func call[In, Out any](t *testing.T, set *proc.Set, f *proc.Func[In, Out], in In, code engine.Code) Out {
	t.Helper()
	out, _, err := f.Call(t.Context(), set, in)
	if engine.CodeOf(err) != code {
		t.Fatalf("%s %+v: %+v, %v, want %q", f.Schema().Name, in, out, err, code)
	}
	return out
}

// show returns a list as text: 1 buy milk, 2 sleep (done), and the change that undo reverts.
func show(t *testing.T, set *proc.Set, user string) string {
	t.Helper()
	l := call(t, set, todo.Items, todo.UserIn{User: user}, "")
	var texts []string
	for _, it := range l.Items {
		text := fmt.Sprint(it.ID, " ", it.Text)
		if !it.Open() {
			text += " (done)"
		}
		texts = append(texts, text)
	}
	if l.Last != nil {
		texts = append(texts, fmt.Sprintf("undo %d added %v", l.Last.ID, l.Last.Added))
	}
	return strings.Join(texts, ", ")
}

// TestRules checks the list after each change.
func TestRules(t *testing.T) {
	t.Parallel()
	set := exampletest.Set(t, todo.Procedures()...)
	anna := todo.UserIn{User: "anna"}
	want := func(list string) {
		t.Helper()
		if got := show(t, set, "anna"); got != list {
			t.Errorf("got %q, want %q", got, list)
		}
	}
	call(t, set, todo.Undo, anna, todo.CodeNothingToUndo)
	want("")
	call(t, set, todo.Add, todo.AddIn{User: "anna", Text: " buy\tmilk "}, "")
	call(t, set, todo.Add, todo.AddIn{User: "anna", Text: "sleep"}, "")
	want("1 buy milk, 2 sleep, undo 2 added true")
	call(t, set, todo.Done, todo.ItemIn{User: "anna", ID: 1}, "")
	want("1 buy milk (done), 2 sleep, undo 1 added false")
	first := call(t, set, todo.Items, anna, "").Items[0]
	if again := call(t, set, todo.Done, todo.ItemIn{User: "anna", ID: 1}, ""); !again.Done.Equal(first.Done) {
		t.Errorf("done at %v, and again at %v", first.Done, again.Done)
	}
	call(t, set, todo.Undo, anna, "")
	want("1 buy milk, 2 sleep")
	call(t, set, todo.Undo, anna, todo.CodeNothingToUndo) // only the last change
	call(t, set, todo.Add, todo.AddIn{User: "anna", Text: "mistake"}, "")
	call(t, set, todo.Undo, anna, "")
	call(t, set, todo.Add, todo.AddIn{User: "anna", Text: "again"}, "")
	want("1 buy milk, 2 sleep, 4 again, undo 4 added true") // a number is never another item's
	call(t, set, todo.Done, todo.ItemIn{User: "anna", ID: 3}, engine.CodeNotFound)

	call(t, set, todo.Done, todo.ItemIn{User: "anna", ID: 1}, "")
	call(t, set, todo.Remove, todo.ItemIn{User: "anna", ID: 1}, "")
	want("2 sleep, 4 again, undo 1 added false")
	call(t, set, todo.Remove, todo.ItemIn{User: "anna", ID: 1}, engine.CodeNotFound)
	call(t, set, todo.Undo, anna, "")
	want("1 buy milk (done), 2 sleep, 4 again")
	call(t, set, todo.Reopen, todo.ItemIn{User: "anna", ID: 1}, "")
	call(t, set, todo.Reopen, todo.ItemIn{User: "anna", ID: 1}, "") // again: no other change
	call(t, set, todo.Reopen, todo.ItemIn{User: "anna", ID: 3}, engine.CodeNotFound)
	call(t, set, todo.Undo, anna, todo.CodeNothingToUndo)
	want("1 buy milk, 2 sleep, 4 again")

	for _, user := range []string{"", "a/b", "anna/item", "ä", "a b\n", strings.Repeat("a", todo.MaxUser+1)} {
		call(t, set, todo.Items, todo.UserIn{User: user}, engine.CodeInvalid)
		call(t, set, todo.Add, todo.AddIn{User: user, Text: "x"}, engine.CodeInvalid)
	}
	call(t, set, todo.Done, todo.ItemIn{User: "ann", ID: 1}, engine.CodeNotFound)
	if got := show(t, set, "ann"); got != "" {
		t.Errorf("the list of ann: %s", got)
	}
}

// TestFullList: a new item replaces the oldest one that is done, but none that is open.
func TestFullList(t *testing.T) {
	t.Parallel()
	set := exampletest.Set(t, todo.Procedures()...)
	add := func(code engine.Code) {
		t.Helper()
		call(t, set, todo.Add, todo.AddIn{User: "anna", Text: "x"}, code)
	}
	for range todo.MaxItems {
		add("")
	}
	add(todo.CodeListFull)
	call(t, set, todo.Undo, todo.UserIn{User: "anna"}, "") // that of the last that was added
	add("")
	add(todo.CodeListFull)
	for _, id := range []int64{500, 7} {
		call(t, set, todo.Done, todo.ItemIn{User: "anna", ID: id}, "")
	}
	add("")
	add("")
	add(todo.CodeListFull)
	l := call(t, set, todo.Items, todo.UserIn{User: "anna"}, "")
	ids := map[int64]bool{}
	for _, it := range l.Items {
		ids[it.ID] = true
	}
	if len(ids) != todo.MaxItems || ids[7] || ids[500] {
		t.Errorf("%d items; 7 %v, 500 %v", len(ids), ids[7], ids[500])
	}
	call(t, set, todo.Undo, todo.UserIn{User: "anna"}, "")
	add("")
	add(todo.CodeListFull)
}

// TestAtOnce: many callers change the lists of three users at random. Each list is the
// result of the acknowledged changes.
func TestAtOnce(t *testing.T) {
	t.Parallel()
	from := seed.Of(t)
	set := exampletest.Set(t, todo.Procedures()...)
	users := []string{"anna", "ben", "carl"}
	var mu sync.Mutex // guards added and undone
	added, undone := map[string]map[int64]bool{}, map[string]map[int64]bool{}
	for _, u := range users {
		added[u], undone[u] = map[int64]bool{}, map[int64]bool{}
	}
	var wg sync.WaitGroup
	for c := range 6 {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(from, uint64(c)))
			for range 100 {
				user := users[rnd.IntN(len(users))]
				switch rnd.IntN(3) {
				case 0:
					it, _, err := todo.Add.Call(t.Context(), set, todo.AddIn{User: user, Text: user})
					mu.Lock()
					if err != nil || added[user][it.ID] {
						t.Errorf("add: %+v, %v", it, err)
					}
					added[user][it.ID] = true
					mu.Unlock()
				case 1:
					_, _, err := todo.Done.Call(t.Context(), set, todo.ItemIn{User: user, ID: 1 + rnd.Int64N(30)})
					if code := engine.CodeOf(err); code != "" && code != engine.CodeNotFound {
						t.Errorf("done: %v", err)
					}
				case 2:
					ch, _, err := todo.Undo.Call(t.Context(), set, todo.UserIn{User: user})
					if code := engine.CodeOf(err); code != "" && code != todo.CodeNothingToUndo {
						t.Errorf("undo: %v", err)
					}
					mu.Lock()
					if err == nil && ch.Added {
						undone[user][ch.ID] = true
					}
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	for _, user := range users {
		l := call(t, set, todo.Items, todo.UserIn{User: user}, "")
		if len(l.Items) != len(added[user])-len(undone[user]) {
			t.Errorf("%s has %d items, %d were added and %d undone", user, len(l.Items), len(added[user]), len(undone[user]))
		}
		for _, it := range l.Items {
			if !added[user][it.ID] || undone[user][it.ID] || it.Text != user {
				t.Errorf("%s has %+v", user, it)
			}
		}
	}
}

package traversal_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/testengine"
	"github.com/skerrydb/skerry/graph"
	"github.com/skerrydb/skerry/graph/gremlin"
	"github.com/skerrydb/skerry/graph/traversal"
	"github.com/skerrydb/skerry/graph/value"
)

var rewrite = flag.Bool("rewrite", false, "write the answers of testdata anew")

// small is the graph of the tests: cities with roads, and people.
const small = `g
.addV('city').property(T.id,'oslo').property('name','Oslo','since',1048).property('people',709000).property('country','no').property(list,'nick','Christiania').property(list,'nick','Kristiania').as('o')
.addV('city').property(T.id,'bergen').property('name','Bergen').property('people',291000).property('country','no').as('b')
.addV('city').property(T.id,'tromso').property('name','Tromsø').property('people',77000).property('country','no').as('t')
.addV('city').property(T.id,'narvik').property('name','Narvik').property('people',21000).property('country','no').as('n')
.addV('city').property(T.id,'kiruna').property('name','Kiruna').property('people',22000).property('country','se').as('k')
.addV('person').property(T.id,'ann').property('name','Ann').as('ann')
.addV('person').property(T.id,'bob').property('name','Bob').as('bob')
.addV('person').property(T.id,'eva').property('name','Eva').as('eva')
.addE('road').from('o').to('b').property('km',463)
.addE('road').from('o').to('n').property('km',1395)
.addE('road').from('b').to('n').property('km',1400)
.addE('road').from('n').to('t').property('km',232)
.addE('road').from('n').to('k').property('km',181)
.addE('lives').from('ann').to('o')
.addE('lives').from('bob').to('o')
.addE('lives').from('eva').to('k')
.addE('knows').from('ann').to('eva')`

// open returns the small graph.
func open(tb testing.TB) *graph.DB {
	tb.Helper()
	db, err := graph.New(testengine.Open(tb, testengine.Options{}))
	if err != nil {
		tb.Fatal(err)
	}
	if _, err := run(tb.Context(), db, small, traversal.Options{}); err != nil {
		tb.Fatal(err)
	}
	return db
}

var errUndo = errors.New("undo")

// run returns what a text yields, as text.
func run(ctx context.Context, db *graph.DB, text string, o traversal.Options) (out []string, err error) {
	q, err := gremlin.Parse(text, nil)
	if err != nil {
		return nil, err
	}
	plan, err := traversal.Compile(q.Traversal)
	if err != nil {
		return nil, err
	}
	carry := func(tx *graph.Tx) error {
		out = nil
		return plan.Run(ctx, tx, o, func(v any, bulk int64) error {
			d, err := traversal.Detach(tx, v, true)
			for range bulk {
				out = append(out, value.Text(d))
			}
			return err
		})
	}
	if plan.Writes() {
		_, err = db.Update(ctx, graph.Default, carry)
	} else {
		_, err = db.View(ctx, engine.Read{}, graph.Default, carry)
	}
	return out, err
}

// TestSteps: traversals yield what testdata/steps.txt says.
func TestSteps(t *testing.T) {
	const file = "testdata/steps.txt"
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	db := open(t)
	for _, line := range strings.SplitAfter(string(raw), "\n") {
		if strings.HasPrefix(line, "\t") {
			continue
		}
		b.WriteString(line)
		if text := strings.TrimSpace(line); strings.HasPrefix(text, "g.") {
			for _, l := range answer(t, &db, text) {
				fmt.Fprintf(&b, "\t%s\n", l)
			}
		}
	}
	if *rewrite {
		if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, got := strings.Split(string(raw), "\n"), strings.Split(b.String(), "\n")
	text := ""
	for i := range max(len(want), len(got)) {
		if i >= len(want) || i >= len(got) || want[i] != got[i] {
			t.Fatalf("line %d, after %s:\ngot  %q\nwant %q", i+1, text, at(got, i), at(want, i))
		}
		if strings.HasPrefix(want[i], "g.") {
			text = want[i]
		}
	}
}

func at(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return ""
}

// answer returns what a text yields. After one that may write, the graph is a new
// one.
func answer(t *testing.T, db **graph.DB, text string) []string {
	t.Helper()
	out, err := run(t.Context(), *db, text, traversal.Options{MaxHeld: 5000})
	if strings.Contains(text, "add") || strings.Contains(text, "merge") || strings.Contains(text, "drop()") || strings.Contains(text, "property(") {
		*db = open(t)
	}
	if err != nil {
		return []string{"error: " + err.Error()}
	}
	if !strings.Contains(text, "order(") && !strings.Contains(text, "tail(") {
		slices.Sort(out)
	}
	return out
}

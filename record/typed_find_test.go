package record_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/skerrydb/skerry/record"
)

// titles returns the titles that Find yields.
func titles(t testing.TB, r record.Runner, q record.Query, args ...any) (all []string) {
	t.Helper()
	for a, err := range articles.Find(r, q, args...) {
		must(t, err)
		all = append(all, a.Title)
	}
	return all
}

// TestSetFind: what Find, List, First and Count return, by rule, filter, order and limit, in transactions and without.
func TestSetFind(t *testing.T) {
	db := openArticles(t)
	const n = 450 // more than two batches
	must(t, update(t, db, record.Actor{ID: "ann"}, func(tx *record.Tx) error {
		for i := range n {
			a := article{Slug: fmt.Sprintf("a-%d", i), Title: fmt.Sprintf("T%03d", i), Words: int32(i % 7)}
			if i%2 == 0 {
				a.State = "public"
			}
			if err := articles.Create(tx, &a); err != nil {
				return err
			}
		}
		return articles.Create(tx, &article{Slug: "odd", Title: `"; || true ?`})
	}))
	ann, bob := db.As(t.Context(), record.Actor{ID: "ann"}), db.As(t.Context(), record.Actor{ID: "bob"})
	if all := titles(t, ann, record.Query{Filter: `title != ?`, Sort: "-title"}, `"; || true ?`); len(all) != n || all[0] != "T449" || all[n-1] != "T000" || !slices.IsSortedFunc(all, func(a, b string) int { return strings.Compare(b, a) }) {
		t.Errorf("%d titles: %q", len(all), all)
	}
	if all := titles(t, bob, record.Query{Sort: "title"}); len(all) != n/2 || all[1] != "T002" {
		t.Errorf("bob: %d titles: %q", len(all), all)
	}
	if all := titles(t, ann, record.Query{Filter: "title = ?"}, `"; || true ?`); len(all) != 1 {
		t.Errorf("found %q", all)
	}
	for _, limit := range []int{1, 200, 201, 400} {
		if all := titles(t, ann, record.Query{Limit: limit}); len(all) != limit {
			t.Errorf("limit %d: %d", limit, len(all))
		}
	}
	for _, err := range articles.Find(ann, record.Query{}) {
		must(t, err)
		break // an iterator may be left
	}
	must(t, update(t, db, record.Actor{ID: "ann"}, func(tx *record.Tx) error {
		if all := titles(t, tx, record.Query{Filter: "words in ?"}, []int32{1, 2}); len(all) != 129 {
			t.Errorf("in a transaction: %d", len(all))
		}
		return articles.Create(tx, &article{Slug: "more", Title: "more", Words: 100})
	}))

	page, next, err := articles.List(ann, record.Query{Filter: "words < ?", Sort: "-words,title", Limit: 70}, 100)
	if err != nil || len(page) != 70 || page[0].Words != 6 || next == "" {
		t.Fatalf("%d, %q, %v", len(page), next, err)
	}
	second, _, err := articles.List(ann, record.Query{Filter: "words < ?", Sort: "-words,title", Limit: 70, After: next}, 100)
	if err != nil || second[0].Title <= page[69].Title && second[0].Words == page[69].Words {
		t.Errorf("%+v after %+v, %v", second[0], page[69], err)
	}
	if a, err := articles.First(bob, record.Query{Filter: "slug = ?"}, "a-4"); err != nil || a.Title != "T004" {
		t.Errorf("%+v, %v", a, err)
	}
	if _, err := articles.First(bob, record.Query{Filter: "slug = ?"}, "a-5"); !errors.Is(err, record.ErrNotFound) {
		t.Errorf("what bob may not see: %v", err)
	}
	for who, want := range map[*record.Direct]int{ann: n + 2, bob: n / 2} {
		if got, err := articles.Count(who, record.Query{}); err != nil || got != want {
			t.Errorf("%d, want %d, %v", got, want, err)
		}
	}
	must(t, articles.Delete(ann, page[0].ID, 0))
	if all := titles(t, ann, record.Query{Trash: true}); len(all) != 1 || all[0] != page[0].Title {
		t.Errorf("trash: %q", all)
	}
}

// TestSetFindErrors: errors of queries have their place, and end the iteration.
func TestSetFindErrors(t *testing.T) {
	db := openArticles(t)
	ann := db.As(t.Context(), record.Actor{ID: "ann"})
	for _, c := range []struct {
		q    record.Query
		args []any
		want string
	}{
		{record.Query{Filter: "title = "}, nil, "filter: found the end"},
		{record.Query{Filter: "titel = 1"}, nil, "title"},
		{record.Query{Filter: "title = ?"}, nil, "placeholders"},
		{record.Query{Filter: "title = ?"}, []any{struct{}{}}, "the Go type struct {} has no literal at character 9"},
		{record.Query{Sort: "-nothing"}, nil, "sort: "},
		{record.Query{After: "x"}, nil, "after: "},
	} {
		n := 0
		for a, err := range articles.Find(ann, c.q, c.args...) {
			n++
			if a != nil || !errors.Is(err, record.ErrQuery) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%+v: %v, %v", c.q, a, err)
			}
		}
		if n != 1 {
			t.Errorf("%+v: %d pairs", c.q, n)
		}
	}
	for _, err := range articles.Find(ann, record.Query{Limit: -1}) {
		if !errors.Is(err, record.ErrQuery) {
			t.Errorf("%v", err)
		}
	}
}

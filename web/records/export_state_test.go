package records_test

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/skerrydb/skerry/record"
)

// during is a writer that calls do once, with the first byte of a response.
type during struct {
	httptest.ResponseRecorder
	do func()
}

func (w *during) Write(p []byte) (int, error) {
	if do := w.do; do != nil {
		w.do = nil
		do()
	}
	return w.ResponseRecorder.Write(p)
}

// exportDuring returns an export during which do runs.
func (s *site) exportDuring(path string, do func()) string {
	s.t.Helper()
	w := &during{*httptest.NewRecorder(), do}
	r := httptest.NewRequest("GET", "http://localhost"+path, nil)
	r.Header.Set("User", "root")
	s.h.ServeHTTP(w, r)
	if w.do != nil || w.Code != 200 {
		s.t.Fatalf("%s: %d %s", path, w.Code, w.Body)
	}
	return w.Body.String()
}

// TestExportOneState: what is written during an export is not in it, and references between its collections lead somewhere.
func TestExportOneState(t *testing.T) {
	s := open(t)
	const n = 1001
	_, err := s.db.Update(t.Context(), record.Program(), func(tx *record.Tx) error {
		for i := range n {
			if _, err := tx.Create("users", fmt.Sprintf("u%04d", i), []byte(`{"name":"before"}`)); err != nil {
				return err
			}
			if _, err := tx.Create("posts", fmt.Sprintf("p%04d", i), fmt.Appendf(nil, `{"title":"before","owner":"u%04d"}`, i)); err != nil {
				return err
			}
		}
		return nil
	})
	must(t, err)
	generation := 0
	change := func() {
		generation++
		_, err := s.db.Update(t.Context(), record.Program(), func(tx *record.Tx) error {
			user := fmt.Sprintf("z%d", generation)
			if _, err := tx.Create("users", user, []byte(`{"name":"after"}`)); err != nil {
				return err
			}
			for i := generation; i < n; i += 100 {
				if _, err := tx.Update("posts", fmt.Sprintf("p%04d", i), []byte(`{"title":"after","owner":"`+user+`"}`), 0); err != nil {
					return err
				}
				if _, err := tx.Delete("users", fmt.Sprintf("u%04d", i), 0); err != nil {
					return err
				}
			}
			return nil
		})
		must(t, err)
	}
	rows, err := csv.NewReader(strings.NewReader(s.exportDuring("/api/posts?format=csv&sort=-id", change))).ReadAll()
	must(t, err)
	after := 0
	for _, row := range rows {
		if row[1] == "after" {
			after++
		}
	}
	if len(rows) != n+1 || after != 0 {
		t.Errorf("an export has %d lines, and %d changes that are newer than its beginning", len(rows), after)
	}

	users, refers, after := map[string]bool{}, 0, 0
	for line := range strings.Lines(s.exportDuring("/api/tx?collection=users&collection=posts", change)) {
		var r struct {
			Collection, ID string
			Data           struct{ Name, Title, Owner string }
		}
		must(t, json.Unmarshal([]byte(line), &r))
		if r.Data.Title == "after" {
			after++
		}
		switch {
		case r.Collection == "users":
			users[r.ID] = true
		case r.Collection != "posts" || !users[r.Data.Owner]:
			t.Fatalf("no record has what this one refers to: %s", line)
		default:
			refers++
		}
	}
	if want := (n - 1 + 99) / 100; refers != n || after != want {
		t.Errorf("%d posts, %d of them changed before; want %d and %d", refers, after, n, want)
	}
}

// TestExportSeveral: an export of several collections is under the rules of each.
func TestExportSeveral(t *testing.T) {
	s := open(t)
	s.ask("ann", "POST", "/api/posts", `{"id":"one","data":{"title":"x"}}`).is(201)
	got := s.ask("root", "GET", "/api/tx?collection=posts&collection=users", "").is(200, `{"collection":"posts","id":"one","rev":1,`, `"data":{"title":"x",`)
	if lines := strings.Split(got.Body.String(), "\n"); len(lines) != 4 || !strings.HasPrefix(lines[1], `{"collection":"users","id":"ann",`) {
		t.Errorf("%q", lines)
	}
	if h := got.Header(); h.Get("Content-Type") != "application/jsonl; charset=utf-8" || !strings.Contains(h.Get("Content-Disposition"), "records.jsonl") {
		t.Errorf("%v", h)
	}
	if head := s.ask("root", "HEAD", "/api/tx?collection=posts", "").is(200); head.Body.Len() > 0 {
		t.Errorf("HEAD has %s", head.Body)
	}
	s.ask("bob", "GET", "/api/tx?collection=posts", "").is(200)
	s.ask("ann", "GET", "/api/tx?collection=posts&collection=users", "").is(403, "record_refused")
	s.ask("root", "GET", "/api/tx?collection=posts&collection=nothing", "").is(404, "unknown_collection")
	s.ask("root", "GET", "/api/tx?collection=posts&collection=posts", "").is(400, `"parameter":"collection"`)
	s.ask("root", "GET", "/api/tx", "").is(400, `"parameter":"collection"`)
	s.ask("root", "GET", "/api/tx?collection=posts&filter=x", "").is(400, `"parameter":"filter"`)
	s.ask("root", "GET", "/api/tx?collection=a"+strings.Repeat("&collection=a", 100), "").is(400, `"code":"limit"`)
}

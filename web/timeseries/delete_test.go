package timeseries_test

import (
	"testing"
	"time"

	"github.com/skerrydb/skerry/series"
	"github.com/skerrydb/skerry/web"
	"github.com/skerrydb/skerry/web/timeseries"
)

// TestDelete: series that are deleted are gone, and a client that goes on writing them does not notice.
func TestDelete(t *testing.T) {
	s := open(t, series.Options{}, timeseries.Options{Allow: everyone, AllowDelete: func(*web.Context, string) error { return nil }}, series.Collection{Name: "c"})
	const lines = "m,h=a f=1,g=2 1700000000000000000\nm,h=b f=3 1700000000000000000"
	const a, b = `{"__name__":"m_f","h":"a"} [1700000000000] [1]`, `{"__name__":"m_f","h":"b"} [1700000000000] [3]`
	s.write(lines).is(204)
	r := s.ask("DELETE", `/series/c?match=m_f{h="a"}`, "").is(200, `{"deleted":1}`)
	if r.Header().Get("X-Skerry-Position") == "" {
		t.Error("there is no position")
	}
	s.has("m_f", b)
	s.ask("DELETE", `/series/c?match=m_f{h="a"}`, "").is(200, `{"deleted":0}`)
	s.write("m,h=a g=5,f=4 1700000001000000000").is(204)
	s.has(`m_f{h="a"}`, `{"__name__":"m_f","h":"a"} [1700000001000] [4]`)
	s.ask("DELETE", `/series/c?match={h=~"a|b"}`, "").is(200, `{"deleted":3}`)
	s.has("m_f", "")
	s.write(lines).is(204)
	s.has(`m_f{h="a"}`, a)
	s.has(`m_f{h="b"}`, b)

	s.ask("DELETE", "/series/c", "").is(400, "series_matcher")
	s.ask("DELETE", "/series/c?match=}", "").is(400, "series_matcher")
	s.ask("DELETE", "/series/x?match=m", "").is(404, "series_no_collection")
	s.ask("DELETE", "/series/c/latest?match=m", "").is(405)
	s.has(`m_f{h="a"}`, a)
	s.has(`m_f{h="b"}`, b)
}

// TestWhoDeletes: only superadmins may delete, unless the application allows it to others, and keys need a scope.
func TestWhoDeletes(t *testing.T) {
	for _, o := range []timeseries.Options{{}, {Allow: everyone}} {
		s := open(t, series.Options{}, o, series.Collection{Name: "c"})
		s.write("m f=1 1700000000000000000", "User", "root").is(204)
		s.ask("DELETE", "/series/c?match=m_f", "").is(401)
		s.ask("DELETE", "/series/c?match=m_f", "", "User", "ann").is(403)
		for _, scopes := range []string{"series:c:write series:c:read", "series:c:delete"} {
			s.ask("DELETE", "/series/c?match=m_f", "", "User", "root", "Scopes", scopes).is(403)
		}
		s.ask("DELETE", "/series/c?match=m_f", "", "User", "root").is(200, `{"deleted":1}`)
	}
	s := open(t, series.Options{}, timeseries.Options{AllowDelete: func(*web.Context, string) error { return nil }}, series.Collection{Name: "c"})
	s.ask("DELETE", "/series/c?match=m_f", "", "User", "ann", "Scopes", "series:c:write series:d:delete").is(403)
	s.ask("DELETE", "/series/c?match=m_f", "", "User", "ann", "Scopes", "series:c:delete").is(200)
}

// TestDeletedOften: a writer goes on while its series are deleted again and again.
func TestDeletedOften(t *testing.T) {
	s := plain(t)
	store, err := s.db.Collection("c")
	must(t, err)
	done, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		for {
			select {
			case <-done:
				ended <- nil
				return
			case <-time.After(20 * time.Millisecond):
			}
			if _, _, err := store.Delete(t.Context(), []series.Matcher{{Name: series.NameLabel, Value: "m_f"}}); err != nil {
				ended <- err
				return
			}
		}
	}()
	for range 200 {
		s.write("m f=1 1700000000000000000\nother f=2 1700000000000000000").is(204)
	}
	close(done)
	must(t, <-ended)
	s.has("other_f", `{"__name__":"other_f"} [1700000000000] [2]`)
}

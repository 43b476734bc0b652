package prometheus

import (
	"testing"

	"github.com/skerrydb/skerry/series"
	"github.com/skerrydb/skerry/web"
)

func anyone(*web.Context, string) error { return nil }

// TestDelete: Prometheus's call deletes whole series, by GET parameters or a form, and what is written afterwards is there.
func TestDelete(t *testing.T) {
	s := open(t, series.Options{}, Options{Allow: func(*web.Context, string, bool) error { return nil }, AllowDelete: anyone}, series.Collection{Name: "c"})
	write := func() {
		t.Helper()
		s.write(of(values(1), "__name__", "n", "h", "a"), of(values(2), "__name__", "n", "h", "b"), of(values(3), "__name__", "o")).is(204)
	}
	sum := func(want string) {
		t.Helper()
		if got := s.get("query", "query", `sum({__name__=~".+"})`, "time", "1700000000").data(); got != `{"resultType":"vector","result":[`+want+`]}` {
			t.Errorf("the sum is %s, want %s", got, want)
		}
	}
	write()
	s.ask("POST", "admin/tsdb/delete_series?"+query([]string{"match[]", `n{h="a"}`}), "").is(204)
	sum(`{"metric":{},"value":[1700000000,"5"]}`)
	both := query([]string{"match[]", "n", "match[]", `{__name__="o"}`})
	s.ask("PUT", "admin/tsdb/delete_series", both, "Content-Type", "application/x-www-form-urlencoded").is(204)
	sum("")
	write()
	sum(`{"metric":{},"value":[1700000000,"6"]}`)

	s.ask("POST", "admin/tsdb/delete_series", "").is(400, "match[]")
	s.ask("POST", "admin/tsdb/delete_series?match[]=n&start=0", "").is(400, "whole series")
	s.ask("POST", "admin/tsdb/delete_series?match[]=n&end=1", "").is(400, "whole series")
	s.ask("POST", "admin/tsdb/delete_series?match[]=(", "").is(400, "match[]")
	s.ask("GET", "admin/tsdb/delete_series?match[]=n", "").is(405)
	sum(`{"metric":{},"value":[1700000000,"6"]}`)
}

// TestWhoDeletes: only superadmins may delete, unless the application allows it to others, and keys need a scope.
func TestWhoDeletes(t *testing.T) {
	const path = "admin/tsdb/delete_series?match[]=n"
	everyone := func(*web.Context, string, bool) error { return nil }
	for _, o := range []Options{{}, {Allow: everyone}} {
		s := open(t, series.Options{}, o, series.Collection{Name: "c"})
		s.ask("POST", path, "").is(403)
		s.ask("POST", path, "", "User", "ann").is(403)
		s.ask("POST", path, "", "User", "root", "Scope", "series:c:write").is(403)
		s.ask("POST", path, "", "User", "root", "Scope", "series:c:delete").is(403)
		s.ask("POST", path, "", "User", "root").is(204)
	}
	s := open(t, series.Options{}, Options{AllowDelete: anyone}, series.Collection{Name: "c"})
	s.ask("POST", path, "", "User", "ann", "Scope", "series:c:write").is(403)
	s.ask("POST", path, "", "User", "ann", "Scope", "series:c:delete").is(204)
	s.ask("GET", "labels", "", "User", "ann", "Scope", "series:c:delete").is(403)
}

// TestDeletedAlways: a write whose series are deleted each time ends with an error.
func TestDeletedAlways(t *testing.T) {
	s := plain(t)
	store, err := s.db.Collection("c")
	must(t, err)
	s.write(of(values(1), "__name__", "n")).is(204)
	times := 0
	s.eng.before = func() {
		times++
		_, _, err := store.Delete(t.Context(), []series.Matcher{{Name: series.NameLabel, Value: "n"}})
		must(t, err)
		s.eng.skip.Store(2) // after the definition
	}
	s.eng.skip.Store(1)
	s.write(of(values(2), "__name__", "n")).is(410, "series_gone")
	if times != 1+appendAgain {
		t.Errorf("it was tried %d times, want %d", times, 1+appendAgain)
	}
}

// TestDeletedWhileWritten forces a deletion between the definition of a series and its samples.
func TestDeletedWhileWritten(t *testing.T) {
	s := plain(t)
	store, err := s.db.Collection("c")
	must(t, err)
	s.write(of(values(1), "__name__", "n"), of(values(7), "__name__", "o")).is(204)
	s.eng.before = func() {
		_, _, err := store.Delete(t.Context(), []series.Matcher{{Name: series.NameLabel, Value: "n"}})
		must(t, err)
	}
	s.eng.skip.Store(1) // the series are known, so the next update has the samples
	s.write(of(values(2, 3), "__name__", "n"), of(values(7, 8), "__name__", "o")).is(204)
	if got, want := s.get("query", "query", `{__name__=~".+"}[1h]`, "time", "1700000060").data(), `{"resultType":"matrix","result":[{"metric":{"__name__":"n"},"values":[[1700000000,"2"],[1700000015,"3"]]},{"metric":{"__name__":"o"},"values":[[1700000000,"7"],[1700000015,"8"]]}]}`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

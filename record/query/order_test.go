package query

import (
	"slices"
	"strings"
	"testing"

	"github.com/skerrydb/skerry/record/value"
)

func TestParseOrders(t *testing.T) {
	of := collections(t)
	s := Scope{Collection: of("orders"), Other: of}
	for _, c := range []struct{ text, want string }{
		{"", "id"}, {" ", "id"}, {"-created,+total", "-created,total,id"}, {"title , -id, count", "title,-id"}, {"-id", "-id"}, {"title,-created", "title,-created,-id"}, {"owner,status", "owner,status,id"},
	} {
		if o, err := ParseOrders(c.text, s); err != nil || o.String() != c.want {
			t.Errorf("%q: %v, %v; want %s", c.text, o, err, c.want)
		}
	}
	for _, c := range []struct{ text, want string }{
		{"creted", `orders has no field "creted"; did you mean created? at character 1`}, {"count,", `orders has no field "" at character 7`}, {"--count", "more than one sign before count at character 1"},
		{"count,-count", "count appears twice at character 7"}, {"meta", "cannot sort by meta, whose values can have different types at character 1"}, {"secret", "secret is a password and cannot be compared at character 1"},
		{"owner.name", `orders has no field "owner.name"; did you mean owner? at character 1`}, {"id; drop table", `orders has no field "id; drop table"; did you mean id? at character 1`},
		{"status,total,count,ratio,paid,at,title,owner,rev", "more than 8 names at character 46"}, {strings.Repeat("x", 20_000), "the order is too long"},
	} {
		if o, err := ParseOrders(c.text, s); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%.30q: %v, %v; want %s", c.text, o, err, c.want)
		}
	}
}

func TestSortAndCursor(t *testing.T) {
	k := collections(t)("orders")
	o, err := ParseOrders("-count,title", Scope{Collection: k})
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]*row{}
	for id, data := range map[string]string{"a": `{"count":1,"title":"x"}`, "b": `{"count":1}`, "c": `{}`, "d": `{"count":2,"title":"y"}`, "e": `{"count":1,"title":"x"}`} {
		r := newRow(t, k, data)
		r.columns["id"], _ = value.OfText(id)
		rows[id] = r
	}
	ids := []string{"a", "b", "c", "d", "e"}
	slices.SortFunc(ids, func(x, y string) int { return o.Compare(o.Key(rows[x]), o.Key(rows[y])) })
	if got := strings.Join(ids, ""); got != "dbaec" {
		t.Errorf("sorted as %s", got)
	}
	const where = `status = "open"`
	for _, r := range rows {
		text := o.Cursor(k, where, o.Key(r))
		if key, err := o.ReadCursor(k, where, text); err != nil || !slices.Equal(key, o.Key(r)) {
			t.Errorf("%s is read as %v, %v", text, key, err)
		}
		other, _ := ParseOrders("count,title", Scope{Collection: k})
		if _, err := other.ReadCursor(k, where, text); err == nil {
			t.Error("the cursor of another order is accepted")
		}
		if _, err := o.ReadCursor(k, "", text); err == nil {
			t.Error("the cursor of another filter is accepted")
		}
	}
	wrong := o.Cursor(k, where, []value.Value{value.OfBool(true), {}, {}})
	for _, text := range []string{"", "x", "!!", wrong, wrong + "A", strings.Repeat("A", 100_000), o.Cursor(k, where, nil), o.Cursor(k, where, append(o.Key(rows["a"]), value.OfInt(1)))} {
		if key, err := o.ReadCursor(k, where, text); err == nil {
			t.Errorf("%.40q is a cursor: %v", text, key)
		}
	}
}

func FuzzReadCursor(f *testing.F) {
	k := collections(f)("orders")
	o, err := ParseOrders("-total,title", Scope{Collection: k})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(o.Cursor(k, "", o.Key(newRow(f, k, `{"total":"1.5","title":"x"}`))))
	f.Add("AQ")
	f.Fuzz(func(t *testing.T, text string) {
		key, err := o.ReadCursor(k, "", text)
		if err == nil && o.Cursor(k, "", key) != text {
			t.Fatalf("%q is read as %v", text, key)
		}
	})
}

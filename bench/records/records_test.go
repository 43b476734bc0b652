package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skerrydb/skerry/bench/records/item"
	"github.com/skerrydb/skerry/bench/rig"
)

// TestScans: the scans are those of the published comparison, and a store that returns other records is caught.
func TestScans(t *testing.T) {
	for _, size := range crudSizes {
		var selects, rows int64
		for _, s := range crudScans() {
			n, r, err := s.run(model{size.n, 0}, size.n)
			if err != nil {
				t.Fatal(err)
			}
			selects, rows = selects+n, rows+r
		}
		if selects != size.selects || rows != size.rows {
			t.Errorf("%d records: %d selects of %d rows, published are %d of %d", size.n, selects, rows, size.selects, size.rows)
		}
	}
	for _, s := range crudScans() {
		if _, _, err := s.run(model{100, 50}, 100); err == nil {
			t.Errorf("step %d: nobody misses record 50", s.step)
		}
	}
}

// model is records 1 to n without one of them.
type model struct{ n, missing int64 }

func (m model) insert(int64) error { return nil }
func (m model) update(int64) error { return nil }
func (m model) close() error       { return nil }

func (m model) scan(from int64, up bool, limit int, row func(id int64) error) error {
	for id := from; id > 0 && id <= m.n && limit > 0; limit-- {
		if id != m.missing {
			if err := row(id); err != nil {
				return err
			}
		}
		if up {
			id++
		} else {
			id--
		}
	}
	return nil
}

// TestChecks: the load generator refuses wrong responses, and counts right ones.
func TestChecks(t *testing.T) {
	record := func(n int64) string {
		return fmt.Sprintf(`{"id":%q,"data":%s}`, item.AppendID(nil, n), item.AppendJSON(nil, n))
	}
	page := func(statuses, numbers func(i int64) int64, n int64) string {
		var all []string
		for i := range n {
			all = append(all, fmt.Sprintf(`{"number": %d, "status": "%s"}`, numbers(i), item.AppendStatus(nil, statuses(i))))
		}
		return `{"items":[` + strings.Join(all, ",") + `]}`
	}
	seven := func(int64) int64 { return 7 }
	down := func(i int64) int64 { return 9907 - 100*i }
	for _, c := range []struct {
		name   string
		load   string
		status int
		body   string
		wrong  bool
	}{
		{"a record", "get", 200, record(7), false},
		{"another record", "get", 200, record(8), true},
		{"no record", "get", 404, `{"code":"record_not_found"}`, true},
		{"an empty response", "get", 200, "", true},
		{"a list", "list of 20", 200, page(seven, down, 20), false},
		{"a short list", "list of 20", 200, page(seven, down, 19), true},
		{"a long list", "list of 20", 200, page(seven, down, 21), true},
		{"a list in the wrong order", "list of 20", 200, page(seven, func(i int64) int64 { return i }, 20), true},
		{"a list of another status", "list of 20", 200, page(func(i int64) int64 { return 7 + i/19 }, down, 20), true},
		{"an update that changed nothing", "update", 200, record(7), true},
		{"an update", "update", 200, strings.ReplaceAll(record(7), "item 7", "change 7"), false},
		{"an error with the right body", "create", 500, record(7), true},
		{"a creation", "create", 201, record(7), false},
	} {
		d := dialects["skerry"]
		err := loadNamed(c.load).check(&d, 7, 7, c.status, []byte(c.body))
		if (err != nil) != c.wrong {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// TestClient: every form of response that the servers send is read to its end, so that the next one is not mistaken.
func TestClient(t *testing.T) {
	var asked atomic.Int64
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		text := fmt.Sprintf("%s %s %s", r.Method, r.URL, b)
		switch asked.Add(1) % 3 {
		case 1:
			w.Write([]byte(text)) // with a Content-Length
		case 2:
			for _, c := range []byte(text) {
				w.Write([]byte{c})
				w.(http.Flusher).Flush() // chunks
			}
		default:
			w.WriteHeader(http.StatusTeapot)
			w.Write([]byte(text + strings.Repeat("x", 100_000)))
		}
	}))
	defer srv.Close()
	c, err := dial(srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.conn.Close()
	for i := range 12 {
		want := fmt.Sprintf("GET /%d ", i)
		if c.request("GET", fmt.Sprintf("/%d", i)); i%2 == 1 {
			c.requestJSON("PUT", fmt.Sprintf("/%d", i), []byte("{}"))
			want = fmt.Sprintf("PUT /%d {}", i)
		}
		status, wantStatus := 0, 200
		if i%3 == 2 {
			want, wantStatus = want+strings.Repeat("x", 100_000), 418
		}
		var body []byte
		if status, body, err = c.send(time.Now()); err != nil || status != wantStatus || string(body) != want {
			t.Fatalf("request %d: status %d, %.80q, %v", i, status, body, err)
		}
	}
}

// TestErrorsEnd: one wrong response ends a measurement.
func TestErrorsEnd(t *testing.T) {
	var asked atomic.Int64
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1) == 100 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		n := r.URL.Path[len("/api/items/r"):]
		fmt.Fprintf(w, `{"id":"r%s","data":{"number":%s}}`, n, strings.TrimLeft(n[:len(n)-1], "0")+n[len(n)-1:])
	}))
	defer srv.Close()
	j := job{
		addr: srv.Listener.Addr().String(), dialect: dialects["skerry"], load: loadNamed("get"), clients: 4, loaded: 1000, seq: &atomic.Int64{},
		window: time.Minute, begin: func() {}, end: func() {},
	}
	from := time.Now()
	out, err := j.run()
	if err == nil || !strings.Contains(err.Error(), "status 503") {
		t.Fatal(err)
	}
	if out.all < 99 || out.all > 102 || time.Since(from) > 30*time.Second {
		t.Errorf("%d answers in %v", out.all, time.Since(from))
	}
}

var whole = flag.Bool("whole", false, "run a short comparison of all systems: a minute of CPU time, and all of a machine")

// TestCompare runs a short comparison.
func TestCompare(t *testing.T) {
	if !*whole {
		t.Skip("needs -whole: starts PostgreSQL and builds a program for minutes")
	}
	dir := t.TempDir()
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil { // PostgreSQL runs as another user
		t.Fatal(err)
	}
	p := plan{
		Plan:    rig.Plan{Systems: "skerry,pocketbase-history,postgres", Rounds: 1, Window: 200 * time.Millisecond, Quick: true},
		records: 2_000, big: 2_000, clients: "1,4", loads: "create,get,list,update,burst", crud: true,
	}
	if err := p.compare(dir, os.Stdout); err != nil {
		t.Fatal(errors.Join(err, errors.New("the log of a server is in "+dir)))
	}
}

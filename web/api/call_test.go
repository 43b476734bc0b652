package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/kv"
	"github.com/skerrydb/skerry/proc"
	"github.com/skerrydb/skerry/web/api"
	"github.com/skerrydb/skerry/web/problem"
)

// testMaxResult is proc.Options.MaxResult in these tests.
const testMaxResult = 200 << 10

type voteIn struct {
	Contestant string `json:"contestant"`
	Phone      uint64 `json:"phone"`
	Weight     int    `json:"weight,omitempty"`
}

type voteOut struct {
	Contestant string    `json:"contestant"`
	Total      int64     `json:"total"`
	At         time.Time `json:"at"`
}

type lookIn struct {
	Contestant string   `json:"contestant"`
	Since      *int64   `json:"since"`
	Tags       []string `json:"tags,omitempty"`
	Raw        []byte   `json:"raw,omitempty"`
	Exact      bool     `json:"exact,omitempty"`
}

type lookOut struct {
	Found bool   `json:"found"`
	Votes string `json:"votes"`
	Asked lookIn `json:"asked"`
}

type sizeIn struct {
	Bytes int `json:"bytes"`
}

type nothing struct{}

// vote counts a vote; a phone has two.
func vote(tx *proc.Tx, in voteIn) (out voteOut, err error) {
	db := tx.KV(0)
	phone := []byte("phone:" + strings.Repeat("0", int(in.Phone%10)))
	n, err := db.Add(phone, 1)
	if err != nil {
		return out, err
	}
	if n > 2 {
		return out, engine.Errorf("too_many_votes", "%d has voted %d times", in.Phone, n-1)
	}
	if in.Weight < 0 {
		return out, errors.New("a vote cannot be taken back")
	}
	out.Total, err = db.Add([]byte("votes:"+in.Contestant), int64(max(in.Weight, 1)))
	out.Contestant, out.At = in.Contestant, tx.Now().UTC()
	return out, err
}

func testProcedures() procedures {
	return procedures{
		proc.Define("vote", vote).Describe("counts a vote for a contestant"),
		proc.DefineRead("votes", func(tx *proc.Tx, in lookIn) (lookOut, error) {
			e, found, err := tx.KV(0).Get([]byte("votes:" + in.Contestant))
			return lookOut{found, string(e.Val), in}, err
		}).Describe("the votes of a <contestant>"),
		proc.DefineRead("ping", func(*proc.Tx, nothing) (nothing, error) { return nothing{}, nil }),
		proc.Define("large", func(tx *proc.Tx, in sizeIn) (string, error) {
			_, err := tx.KV(0).Set([]byte("large"), []byte("x"), kv.SetOptions{})
			return strings.Repeat("x", in.Bytes), err
		}),
		proc.Define("broken", func(tx *proc.Tx, _ nothing) (nothing, error) {
			if _, err := tx.KV(0).Set([]byte("broken"), []byte("x"), kv.SetOptions{}); err != nil {
				return nothing{}, err
			}
			panic("secret of the program")
		}),
		proc.DefineRead("writes", func(tx *proc.Tx, _ nothing) (nothing, error) {
			_, err := tx.KV(0).Set([]byte("written"), []byte("x"), kv.SetOptions{})
			return nothing{}, err
		}),
		proc.Define("leads", func(*proc.Tx, nothing) (nothing, error) { return nothing{}, engine.ErrNotLeader }),
		proc.Define("unknowing", func(*proc.Tx, nothing) (nothing, error) { return nothing{}, engine.ErrOutcomeUnknown }),
		proc.Define("wordy", func(*proc.Tx, nothing) (nothing, error) {
			return nothing{}, engine.Errorf("wordy", "%s", strings.Repeat("ü", api.MaxDetailBytes))
		}),
		proc.Define("absent", func(*proc.Tx, nothing) (nothing, error) { return nothing{}, engine.ErrNotFound }),
	}
}

// TestCallLimits: calls over a limit are refused with its code, and write nothing.
func TestCallLimits(t *testing.T) {
	s := serveProcedures(t, testProcedures(), api.Options{BufferBytes: 20 << 20})
	absent := func(key string) {
		t.Helper()
		s.do(t, "GET", "/db/"+key, nil).is(t, "the unwritten key "+key, 404, "")
	}
	large := func(n int) answer {
		return s.do(t, "POST", "/api/call/large", strings.NewReader(fmt.Sprintf(`{"bytes":%d}`, n)))
	}
	large(testMaxResult-1).is(t, "a result over the limit", 400, engine.CodeLimit)
	absent("large")
	if got := large(testMaxResult - 2); got.status != 200 || len(got.body) != testMaxResult+1 {
		t.Errorf("the largest result: %d, %d bytes", got.status, len(got.body))
	}
	body := append([]byte("{}"), bytes.Repeat([]byte(" "), api.MaxCallBytes-2)...)
	for name, body := range map[string]io.Reader{"counted": bytes.NewReader(body), "chunked": io.MultiReader(bytes.NewReader(body))} {
		s.do(t, "POST", "/api/call/ping", body).is(t, name+": the longest body", 200, "")
	}
	for name, body := range map[string]io.Reader{"counted": bytes.NewReader(append(body, ' ')), "chunked": io.MultiReader(bytes.NewReader(body), strings.NewReader(" "))} {
		s.do(t, "POST", "/api/call/ping", body).is(t, name+": a body over the limit", 413, problem.CodeBodyTooLarge)
	}
	got := s.do(t, "POST", "/api/call/wordy", nil)
	var p problem.Problem
	if err := json.Unmarshal(got.body, &p); err != nil || got.status != 422 || p.Detail != strings.Repeat("ü", api.MaxDetailBytes/2)+"…" {
		t.Errorf("a long text: %d, %d bytes: %v", got.status, len(p.Detail), err)
	}
	once := fmt.Sprintf(`{"bytes":%d}`, kv.MaxOnceAnswerBytes)
	s.do(t, "POST", "/api/call/large", strings.NewReader(once), "Idempotency-Key", "k").is(t, "a result that cannot be remembered", 400, engine.CodeLimit)
	s.do(t, "POST", "/api/call/vote", strings.NewReader(`{"contestant":"a","phone":1}`), "Idempotency-Key", "k").is(t, "the idempotency key of a refused call", 200, "")
	small := serveProcedures(t, testProcedures(), api.Options{BufferBytes: 100 << 10})
	for range 3 { // what is reserved must be given back each time
		got := small.do(t, "POST", "/api/call/large", strings.NewReader(`{"bytes":180000}`))
		if got.status != 503 || got.code() != engine.CodeQueueFull {
			t.Errorf("a result over the memory for bodies: %d %.100s", got.status, got.body)
		}
	}
	small.do(t, "GET", "/db/large", nil).is(t, "the key of a refused write", 404, "")
}

// TestCallBrokenBody: half of the arguments call nothing.
func TestCallBrokenBody(t *testing.T) {
	s := serveProcedures(t, testProcedures(), api.Options{})
	hasty := serveProcedures(t, testProcedures(), api.Options{}, func(h *http.Server) { h.ReadTimeout = 200 * time.Millisecond })
	for _, head := range []string{"Content-Length: 60", "Transfer-Encoding: chunked"} {
		conn := s.dial(t)
		fmt.Fprintf(conn, "POST /api/call/vote HTTP/1.1\r\nHost: localhost\r\n%s\r\n\r\n1e\r\n{\"contestant\":\"ada\",\"phone\":1}", head)
		if err := conn.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if status, code := readCode(t, conn); status != 400 || code != problem.CodeBodyIncomplete {
			t.Errorf("%s, broken off: %d %s", head, status, code)
		}
		conn = hasty.dial(t)
		fmt.Fprintf(conn, "POST /api/call/vote HTTP/1.1\r\nHost: localhost\r\n%s\r\n\r\n1e\r\n{\"cont", head)
		if status, code := readCode(t, conn); status != 408 || code != problem.CodeBodyTimeout {
			t.Errorf("%s, slowly: %d %s", head, status, code)
		}
	}
	for _, s := range []*server{s, hasty} {
		if got := s.do(t, "GET", "/db/", nil); string(got.body) != `{"items":[]}`+"\n" {
			t.Errorf("something was called: %s", got.body)
		}
	}
}

// TestCallArgumentNames: arguments may be named as parameters are, and anything
// that a tag may say.
func TestCallArgumentNames(t *testing.T) {
	type in struct {
		Read     string `json:"read,omitempty"`
		MaxStale int    `json:"max_stale,omitempty"`
		Odd      int    `json:"a/b~c d,omitempty"`
		When     time.Time
		IP       netip.Addr
	}
	s := serveProcedures(t, procedures{proc.DefineRead("echo", func(_ *proc.Tx, a in) (in, error) { return a, nil })}, api.Options{})
	got := s.do(t, "GET", "/api/call/echo?read=local&a/b~c+d=-7&When=2026-11-21T12:00:00.5%2B01:00&IP=::1", nil)
	if want := `{"a/b~c d":-7,"When":"2026-11-21T12:00:00.5+01:00","IP":"::1"}` + "\n"; got.status != 200 || string(got.body) != want {
		t.Errorf("%d %s", got.status, got.body)
	}
	got = s.do(t, "POST", "/api/call/echo?read=local", strings.NewReader(`{"read":"x","max_stale":1,"When":"2026-11-21T12:00:00Z","IP":"::1"}`))
	if want := `{"read":"x","max_stale":1,"When":"2026-11-21T12:00:00Z","IP":"::1"}` + "\n"; got.status != 200 || string(got.body) != want {
		t.Errorf("%d %s", got.status, got.body)
	}
	for query, want := range map[string]string{
		"a/b~c+d=x&When=2026-11-21T12:00:00Z&IP=::1":   "a/b~c d",
		"a/b~c+d=1.5&When=2026-11-21T12:00:00Z&IP=::1": "a/b~c d",
		"When=now&IP=::1":                "When",
		"When=2026-11-21T12:00:00Z&IP=x": "IP",
	} {
		got := s.do(t, "GET", "/api/call/echo?"+query, nil)
		var p problem.Problem
		if err := json.Unmarshal(got.body, &p); err != nil || got.status != 400 || len(p.Errors) != 1 || p.Errors[0].Parameter != want {
			t.Errorf("%s: %d %s", query, got.status, got.body)
		}
	}
}

// TestCallsAtOnce: many concurrent callers, some of which go away in the middle, each get their own response,
// and every acknowledged vote counts.
func TestCallsAtOnce(t *testing.T) {
	type in struct {
		Key  string `json:"key"`
		Fill string `json:"fill"`
	}
	add := proc.Define("add", func(tx *proc.Tx, a in) (in, error) {
		_, err := tx.KV(0).Add([]byte("n:"+a.Key), 1)
		return a, err
	})
	s := serveProcedures(t, procedures{add}, api.Options{})
	const callers, calls = 16, 60
	var wg sync.WaitGroup
	for c := range callers {
		wg.Go(func() {
			client := &http.Client{Transport: &http.Transport{}}
			defer client.CloseIdleConnections()
			for i := range calls {
				ctx, cancel := t.Context(), context.CancelFunc(func() {})
				if c%4 == 0 {
					ctx, cancel = context.WithTimeout(ctx, time.Duration(i%20)*100*time.Microsecond)
				}
				want := fmt.Sprintf(`{"key":"%d","fill":"%s"}`, c, strings.Repeat(fmt.Sprint(i%10), i))
				if err := callOnce(ctx, client, s.url("/api/call/add"), want); err != nil && c%4 != 0 {
					t.Error(err)
				}
				cancel()
			}
		})
	}
	wg.Wait()
	for c := range callers {
		got := s.do(t, "GET", fmt.Sprintf("/db/n:%d", c), nil)
		if c%4 != 0 && string(got.body) != fmt.Sprint(calls) {
			t.Errorf("caller %d: %d calls were acknowledged, %s count", c, calls, got.body)
		}
	}
}

// callOnce calls with body; the response must be the same text.
func callOnce(ctx context.Context, client *http.Client, url, body string) error {
	req, err := http.NewRequestWithContext(ctx, "POST", url, strings.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err == nil && (resp.StatusCode != 200 || string(got) != body+"\n") {
		err = fmt.Errorf("%d %s, not %s", resp.StatusCode, got, body)
	}
	return err
}

// TestIndexProcedures: the page lists what can be called, and its example works.
func TestIndexProcedures(t *testing.T) {
	s := serveProcedures(t, testProcedures(), api.Options{})
	page := string(s.do(t, "GET", "/", nil, "Accept", "text/html").body)
	for _, want := range []string{
		"<b>vote</b>(contestant: <i>string</i>, phone: <i>uint64</i>, weight?: <i>int64</i>) → <i>object</i></code>", "<b>ping</b>()</code>",
		"<b>large</b>(bytes: <i>int64</i>) → <i>string</i></code>", "<p>An application server with the database inside.", "counts a vote for a contestant",
		"tags?: <i>string[]</i>", "the votes of a &lt;contestant&gt; <span>read-only</span>",
		`<pre>curl --json &#39;{&#34;bytes&#34;:1}&#39; ` + s.url("/api/call/large") + "</pre>",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not have %s:\n%s", want, page)
		}
	}
	for name, ps := range map[string]procedures{"no procedures": nil, "one that only reads": {proc.DefineRead("ping", func(*proc.Tx, nothing) (nothing, error) { return nothing{}, nil })}} {
		s := serveProcedures(t, ps, api.Options{})
		page := string(s.do(t, "GET", "/", nil, "Accept", "text/html").body)
		if strings.Contains(page, "Procedures") != (ps != nil) || strings.Contains(page, "<pre>curl "+s.url("/api/call/ping")+"</pre>") != (ps != nil) {
			t.Errorf("%s: the page is\n%s", name, page)
		}
	}
}

// FuzzQueryArguments: whatever the parameters of a GET are, they become one JSON
// object that has no other members than those of their names.
func FuzzQueryArguments(f *testing.F) {
	kinds := []proc.Kind{proc.KindNull, proc.KindBool, proc.KindInt, proc.KindFloat, proc.KindString, proc.KindBytes, proc.KindTime, proc.KindList, proc.KindJSON}
	for _, text := range []string{"", "1", `1,"b":2`, `"`, "\xff", "{}", "[1", "null", " 1 ", "1}", "\u2028"} {
		f.Add("a", text, text)
	}
	f.Fuzz(func(t *testing.T, name, first, second string) {
		for i, kind := range kinds {
			args := []proc.Field{{Name: strings.ToValidUTF8(name, ""), Type: proc.Type{Kind: kind, Nullable: i%2 == 0}}, {Name: "other", Type: proc.Type{Kind: kind}, Optional: true}}
			if args[0].Name == "other" || args[0].Name == "read" || args[0].Name == "max_stale" {
				return
			}
			b, err := api.QueryJSON(args, url.Values{args[0].Name: {first}, "other": {second}})
			if err != nil {
				continue
			}
			var all map[string]any
			if err := json.Unmarshal(b, &all); err != nil {
				t.Fatalf("%s of %q: %s: %v", kind, first, b, err)
			}
			_, other := all["other"]
			if _, has := all[args[0].Name]; !has || len(all) > 2 || len(all) == 2 && !other {
				t.Fatalf("%s of %q and %q: %s", kind, first, second, b)
			}
			if kind == proc.KindString && second != all["other"] {
				t.Fatalf("%q became %q", second, all["other"])
			}
		}
	})
}

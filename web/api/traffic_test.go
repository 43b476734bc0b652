package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/skerrydb/skerry/ci/seed"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/kv"
	"github.com/skerrydb/skerry/web/api"
)

// listed is a page as a client sees it.
type listed struct {
	Items []struct {
		Key     *string
		Key64   []byte
		Value   *string
		Value64 []byte
	}
	Next string
}

// follow reads a listing to its end and returns its keys and values.
func (s *server) follow(t *testing.T, path string) (keys, vals []string, pages int) {
	t.Helper()
	for path != "" {
		got := s.do(t, "GET", path, nil)
		var page listed
		if err := json.Unmarshal(got.body, &page); err != nil || got.status != 200 {
			t.Fatalf("%s: %d %.200s (%v)", path, got.status, got.body, err)
		}
		for _, it := range page.Items {
			keys = append(keys, lossless(t, it.Key, it.Key64))
			vals = append(vals, lossless(t, it.Value, it.Value64))
		}
		path, pages = page.Next, pages+1
	}
	return keys, vals, pages
}

// lossless takes the one of two members that is there; for keys only, no value is.
func lossless(t *testing.T, text *string, data []byte) string {
	t.Helper()
	if text != nil && data != nil {
		t.Fatalf("both forms: %q and %q", *text, data)
	}
	if text != nil {
		return *text
	}
	return string(data)
}

// TestPages: following next meets every key under a prefix once, in byte order,
// whatever its bytes are.
func TestPages(t *testing.T) {
	s := serve(t, api.Options{})
	rnd := seed.Rand(t)
	alphabet := []string{"a", "/", "\x00", "\xff", "%", "ä", "&", " ", "\n", "+", "\"", "\u2028"}
	word := func(n int) string {
		var b strings.Builder
		for range n {
			b.WriteString(alphabet[rnd.IntN(len(alphabet))])
		}
		return b.String()
	}
	for range 200 {
		key, val := word(1+rnd.IntN(4)), word(rnd.IntN(6))
		if got := s.do(t, "PUT", "/db/"+url.PathEscape(key), strings.NewReader(val)); got.status >= 300 {
			t.Fatalf("set %q: %d %s", key, got.status, got.body)
		}
	}
	for range 20 {
		prefix, limit := word(rnd.IntN(3)), 1+rnd.IntN(9)
		want, _, err := s.store.List(context.Background(), engine.Read{}, 0, kv.ListOptions{Prefix: []byte(prefix), Limit: 1000})
		if err != nil {
			t.Fatal(err)
		}
		q := url.Values{"prefix": {prefix}, "limit": {fmt.Sprint(limit)}, "values": {"1"}}
		keys, vals, _ := s.follow(t, "/db/?"+q.Encode())
		if len(keys) != len(want.Items) {
			t.Fatalf("prefix %q, limit %d: %d keys, not %d", prefix, limit, len(keys), len(want.Items))
		}
		for i, it := range want.Items {
			if keys[i] != string(it.Key) || vals[i] != string(it.Val) {
				t.Fatalf("prefix %q, limit %d: item %d is %q=%q, not %q=%q", prefix, limit, i, keys[i], vals[i], it.Key, it.Val)
			}
		}
	}
}

// TestPageBytes: pages of large values are cut by their size, and nothing is lost.
func TestPageBytes(t *testing.T) {
	s := serve(t, api.Options{})
	large := bytes.Repeat([]byte{'x'}, api.MaxPageBytes/2-100)
	huge := bytes.Repeat([]byte{0xff}, api.MaxPageBytes+1)
	for i, v := range [][]byte{large, large, large, huge, huge, large} {
		if _, _, err := s.store.Set(context.Background(), 0, fmt.Appendf(nil, "k%d", i), v, kv.SetOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if keys, _, pages := s.follow(t, "/db/?values=1"); len(keys) != 6 || pages != 5 {
		t.Errorf("%d keys on %d pages", len(keys), pages)
	}
	if keys, _, pages := s.follow(t, "/db/"); len(keys) != 6 || pages != 1 {
		t.Errorf("keys only: %d keys on %d pages", len(keys), pages)
	}
}

// TestCompareAndSet: counters moved by GET and If-Match lose no update.
func TestCompareAndSet(t *testing.T) {
	const clients, each = 8, 25
	s := serve(t, api.Options{})
	if got := s.do(t, "PUT", "/db/n", strings.NewReader("0")); got.status != 201 {
		t.Fatal(got.status)
	}
	var wg sync.WaitGroup
	for range clients {
		wg.Go(func() {
			for done := 0; done < each; {
				now := s.do(t, "GET", "/db/n", nil)
				n, err := strconv.Atoi(string(now.body))
				if err != nil {
					t.Error(err)
					return
				}
				got := s.do(t, "PUT", "/db/n", strings.NewReader(strconv.Itoa(n+1)), "If-Match", now.header.Get("ETag"))
				switch got.status {
				case 204:
					done++
				case 412:
				default:
					t.Errorf("answered %d %s", got.status, got.body)
					return
				}
			}
		})
	}
	wg.Wait()
	if got := s.do(t, "GET", "/db/n", nil); string(got.body) != strconv.Itoa(clients*each) {
		t.Errorf("the counter is %s, not %d", got.body, clients*each)
	}
}

// TestBuffersApart: requests that run side by side, some of them given up, never
// see each other's keys or values.
func TestBuffersApart(t *testing.T) {
	s := serve(t, api.Options{})
	rnd := seed.Rand(t)
	tr := &http.Transport{MaxIdleConnsPerHost: 16}
	defer tr.CloseIdleConnections()
	var wg sync.WaitGroup
	for c := range 8 {
		rnd := rand.New(rand.NewPCG(rnd.Uint64(), 0))
		wg.Go(func() {
			for i := range 150 {
				if err := s.roundTrip(tr, rnd, fmt.Sprintf("/db/c%d/%d", c, i%7)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// roundTrip writes a value that names its key, perhaps gives up, and reads it.
func (s *server) roundTrip(tr *http.Transport, rnd *rand.Rand, path string) error {
	want := strings.Repeat(path+";", 1+rnd.IntN(2000))
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if rnd.IntN(4) == 0 {
		time.AfterFunc(time.Duration(rnd.IntN(300))*time.Microsecond, cancel)
	}
	req, err := http.NewRequestWithContext(ctx, "PUT", s.url(path), strings.NewReader(want))
	if err != nil {
		return err
	}
	if resp, err := tr.RoundTrip(req); err == nil {
		resp.Body.Close()
	} else if ctx.Err() == nil {
		return err
	}
	status, got, err := s.plainGet(tr, path)
	for errors.Is(err, context.Canceled) { // in net/http, a client that gives up a request can take the connection from its next user
		status, got, err = s.plainGet(tr, path)
	}
	if err != nil {
		return err
	}
	if status == 200 && strings.ReplaceAll(string(got), path+";", "") != "" {
		return fmt.Errorf("%s holds %.200q", path, got)
	}
	return nil
}

func (s *server) plainGet(tr *http.Transport, path string) (status int, body []byte, err error) {
	req, err := http.NewRequest("GET", s.url(path), nil)
	if err != nil {
		return 0, nil, err
	}
	resp, err := tr.RoundTrip(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	body, err = io.ReadAll(resp.Body)
	return resp.StatusCode, body, err
}

// late is a real engine that gives its first write up before it runs, as a
// queue does whose caller goes away.
type late struct {
	engine.Engine
	mu  sync.Mutex
	run func() error // the write that was given up
}

func (l *late) Update(ctx context.Context, fn func(engine.Tx) error) (engine.Position, error) {
	l.mu.Lock()
	first := l.run == nil
	if first {
		l.run = func() error { _, err := l.Engine.Update(context.Background(), fn); return err }
	}
	l.mu.Unlock()
	if first {
		return 0, engine.Errorf(engine.CodeOutcomeUnknown, "the caller went away")
	}
	return l.Engine.Update(ctx, fn)
}

// TestGivenUpWrite: an abandoned write that runs later writes its own data, not that of a later request.
func TestGivenUpWrite(t *testing.T) {
	l := new(late)
	s := serveOn(t, api.Options{}, func(e engine.Engine) engine.Engine { l.Engine = e; return l })
	if got := s.do(t, "PUT", "/db/given-up", strings.NewReader("first")); got.status != 500 || got.code() != engine.CodeOutcomeUnknown {
		t.Fatalf("answered %d %s", got.status, got.body)
	}
	for i := range 20 {
		if got := s.do(t, "PUT", fmt.Sprintf("/db/another%d", i), strings.NewReader("other")); got.status != 201 {
			t.Fatalf("answered %d %s", got.status, got.body)
		}
	}
	if err := l.run(); err != nil {
		t.Fatal(err)
	}
	if got := s.do(t, "GET", "/db/given-up", nil); string(got.body) != "first" {
		t.Errorf("the write that was given up wrote %q (%d)", got.body, got.status)
	}
}

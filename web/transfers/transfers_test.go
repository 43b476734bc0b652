package transfers_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/skerrydb/skerry"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/embedded"
	"github.com/skerrydb/skerry/transfer"
	"github.com/skerrydb/skerry/web/transfers"
)

func openEngine(t *testing.T) *embedded.DB {
	t.Helper()
	return openAfter(t, 0)
}

// openAfter opens an engine whose positions begin after one.
func openAfter(t *testing.T, pos engine.Position) *embedded.DB {
	t.Helper()
	dir, o := t.TempDir(), embedded.Options{Logger: slog.New(slog.DiscardHandler)}
	if err := embedded.CreateAfter(t.Context(), dir, pos, time.Time{}, o); err != nil {
		t.Fatal(err)
	}
	db, err := embedded.Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

// serve starts a server and returns its URL.
func serve(t *testing.T, eng engine.Engine) string {
	t.Helper()
	s, err := skerry.Open(eng, skerry.Options{HTTP: "127.0.0.1:0", RESP: skerry.Off})
	if err != nil {
		t.Fatal(err)
	}
	go s.Run(context.Background())
	t.Cleanup(func() { s.Close() })
	return s.HTTPURL()
}

// askAt asks a server without errors of its own.
func askAt(url string) transfers.Client {
	return transfers.Client{Ask: func(ctx context.Context, method, path string) (io.ReadCloser, error) {
		req, err := http.NewRequestWithContext(ctx, method, url+path, nil)
		if err != nil {
			return nil, err
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return nil, err
		}
		if resp.StatusCode != http.StatusOK {
			b, _ := io.ReadAll(resp.Body)
			resp.Body.Close()
			return nil, errors.New(string(b))
		}
		return resp.Body, nil
	}}
}

// TestMove moves the data of a server, with keys and values that need care in a URL and in gob.
func TestMove(t *testing.T) {
	t.Parallel()
	src, dst := openEngine(t), openAfter(t, transfer.NextEpoch(0))
	pairs := map[string]string{"\x01": "", "k\xff\xfe&=?": "\x00", "\xff\xff": "last", "long": strings.Repeat("v", 3<<20)}
	if _, err := src.Update(t.Context(), func(tx engine.Tx) error {
		for k, v := range pairs {
			if err := tx.Put([]byte(k), []byte(v)); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	client := askAt(serve(t, src))
	if _, err := transfer.Run(t.Context(), client, dst, transfer.Options{To: "b&c"}); err != nil {
		t.Fatal(err)
	}
	n := 0
	if _, err := dst.View(t.Context(), engine.Read{}, func(tx engine.Tx) error {
		for p, err := range tx.Scan(nil, nil) {
			if n++; err != nil || pairs[string(p.Key)] != string(p.Val) {
				t.Errorf("%q is %.20q: %v", p.Key, p.Val, err)
			}
		}
		return nil
	}); err != nil || n != len(pairs) {
		t.Errorf("%d pairs: %v", n, err)
	}
	if a, err := client.About(t.Context()); err != nil || a.Mark.To != "b&c" || !a.Mark.Fenced {
		t.Errorf("the source: %+v, %v", a, err)
	}
}

// TestBadRequests: malformed parameters are refused, and a response that is cut off is an error that passes.
func TestBadRequests(t *testing.T) {
	t.Parallel()
	url := serve(t, openEngine(t))
	for path, want := range map[string]string{
		transfers.RangePath + "?lo=%25":                   "lo is malformed",
		transfers.SumPath + "?hi=a":                       "hi is malformed",
		transfers.RangePath + "?at=-1":                    "at is malformed",
		transfers.ChangesPath + "?after=x":                "after is malformed",
		transfers.ChangesPath + "?after=7&at=9":           "truncated",
		transfers.RangePath + "?at=18446744073709551615&": "position",
	} {
		resp, err := http.Get(url + path)
		if err != nil {
			t.Fatal(err)
		}
		b, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode < 400 || !strings.Contains(string(b), want) {
			t.Errorf("%s: %s: %s", path, resp.Status, b)
		}
	}
	resp, err := http.Post(url+transfers.MarkPath, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusBadRequest {
		t.Errorf("a mark without a move: %s", resp.Status)
	}
	cut := transfers.Client{Ask: func(context.Context, string, string) (io.ReadCloser, error) {
		return io.NopCloser(strings.NewReader("\x07")), nil
	}}
	if _, err := cut.About(t.Context()); !errors.Is(err, engine.ErrUnavailable) {
		t.Errorf("a response that was cut off: %v", err)
	}
}

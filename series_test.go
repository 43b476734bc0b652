package skerry_test

import (
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/skerrydb/skerry"
	"github.com/skerrydb/skerry/ci/cassandraserver"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/cassandra"
	"github.com/skerrydb/skerry/engine/embedded"
	"github.com/skerrydb/skerry/series"
)

// TestSeriesSurvive: samples that a server has acknowledged are there after a crash, which is a copy of its files while
// it runs.
func TestSeriesSurvive(t *testing.T) {
	t.Parallel()
	open := func(dir string) engine.Engine {
		eng, err := embedded.Open(dir, embedded.Options{Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := eng.Close(); err != nil {
				t.Error(err)
			}
		})
		return eng
	}
	o := skerry.Options{RESP: skerry.Off, Admin: "127.0.0.1:0", Grace: time.Second, Series: []series.Collection{{Name: "plant", Retention: 24 * time.Hour}, {Name: "other"}}}
	before, after := t.TempDir(), t.TempDir()
	s, _, _ := start(t, open(before), o)

	const writers, writes = 4, 25
	at := time.Now().Add(-time.Hour).Truncate(time.Second)
	var work sync.WaitGroup
	for w := range writers {
		work.Go(func() {
			for i := range writes {
				line := fmt.Sprintf("m,w=%d n=%d,text=\"x\" %d\n", w, i, at.Add(time.Duration(i)*time.Second).Unix())
				if code, text := request(t, "POST", s.AdminURL()+"/api/v2/write?bucket=plant&precision=s", strings.NewReader(line)); code != http.StatusNoContent {
					t.Errorf("write: %d %s", code, text)
				}
			}
		})
	}
	work.Wait()
	old := fmt.Sprintf("m n=1 %d\nm n=2 %d", at.Add(-48*time.Hour).Unix(), at.Unix())
	if code, text := request(t, "POST", s.AdminURL()+"/write?db=plant&precision=s", strings.NewReader(old)); code != http.StatusBadRequest || !strings.Contains(text, "series_too_old") {
		t.Errorf("an old sample: %d %s", code, text)
	}
	check := func(s *skerry.Server) {
		t.Helper()
		for w := range writers {
			path := "/series/plant?match=" + url.QueryEscape(fmt.Sprintf(`m_n{w="%d"}`, w)) + "&step=1d&agg=count,sum"
			if code, text := request(t, "GET", s.AdminURL()+path, nil); code != http.StatusOK || total(text, "count") != writes || total(text, "sum") != writes*(writes-1)/2 {
				t.Errorf("%s: %d %s", path, code, text)
			}
		}
		if code, text := request(t, "GET", s.AdminURL()+"/series", nil); code != http.StatusOK || !strings.Contains(text, `"name":"plant","series":5`) || !strings.Contains(text, `"name":"other","series":0`) {
			t.Errorf("the collections: %d %s", code, text)
		}
		_, text := request(t, "GET", s.AdminURL()+"/metrics", nil)
		for _, line := range []string{`skerry_series{collection="plant"} 5`, `skerry_series{collection="other"} 0`, fmt.Sprintf(`skerry_series_unsealed_samples{collection="plant"} %d`, writers*writes+1)} {
			if !strings.Contains(text, line+"\n") {
				t.Errorf("the metrics lack %s", line)
			}
		}
	}
	check(s)
	if err := copyRegular(after, before); err != nil {
		t.Fatal(err)
	}
	again, _, _ := start(t, open(after), o)
	check(again)
}

// total adds up the numbers of a column, which has one for each window.
func total(text, column string) (sum int) {
	_, list, _ := strings.Cut(text, `"`+column+`":[`)
	list, _, _ = strings.Cut(list, "]")
	for item := range strings.SplitSeq(list, ",") {
		n := 0
		if _, err := fmt.Sscan(item, &n); err != nil {
			return -1
		}
		sum += n
	}
	return sum
}

// copyRegular copies the regular files of a folder.
func copyRegular(to, from string) error {
	files := os.DirFS(from)
	return fs.WalkDir(files, ".", func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			return os.MkdirAll(to+"/"+p, 0o755)
		case !d.Type().IsRegular():
			return nil
		}
		b, err := fs.ReadFile(files, p)
		if err != nil {
			return err
		}
		return os.WriteFile(to+"/"+p, b, 0o600)
	})
}

// TestSeriesOnCassandra: two servers on one keyspace have the same series, which survive both of them.
func TestSeriesOnCassandra(t *testing.T) {
	t.Parallel()
	u := &url.URL{Scheme: cassandra.Scheme, Host: cassandraserver.Start(t).Addr(), Path: "/skerry"}
	serve := func() *skerry.Server {
		eng, err := cassandra.Open(t.Context(), u, cassandra.Options{Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := eng.Close(); err != nil {
				t.Error(err)
			}
		})
		s, _, _ := start(t, eng, skerry.Options{RESP: skerry.Off, Admin: "127.0.0.1:0", Grace: time.Second, Series: []series.Collection{{Name: "plant", Retention: 24 * time.Hour}}})
		return s
	}
	s, other := serve(), serve()
	at := time.Now().Add(-time.Minute).Unix()
	lines := fmt.Sprintf("m,w=1 n=1 %d\nm,w=1 n=2 %d\nm,w=2 n=3 %d\n", at, at+1, at)
	if code, text := request(t, "POST", s.AdminURL()+"/api/v2/write?bucket=plant&precision=s", strings.NewReader(lines)); code != http.StatusNoContent {
		t.Fatalf("write: %d %s", code, text)
	}
	for _, s := range []*skerry.Server{s, other, serve()} {
		code, text := request(t, "GET", s.AdminURL()+"/series/plant?match="+url.QueryEscape(`m_n{w="1"}`)+"&step=1d&agg=count,sum", nil)
		if code != http.StatusOK || total(text, "count") != 2 || total(text, "sum") != 3 {
			t.Errorf("%d %s", code, text)
		}
	}
}

// TestSeriesNeedPromises: an engine that cannot have series refuses their collections by the name of the promise, and
// serves everything else.
func TestSeriesNeedPromises(t *testing.T) {
	t.Parallel()
	_, err := skerry.Open(openPartitions(t), skerry.Options{Series: []series.Collection{{Name: "plant"}}})
	if err == nil || engine.CodeOf(err) != engine.CodeUnsupported || !strings.Contains(err.Error(), "series") || !strings.Contains(err.Error(), "transactions over all keys") {
		t.Errorf("Options.Series: %v", err)
	}

	var used error
	o := application(func(s *skerry.Services) {
		_, used = s.Series.Use(series.Collection{Name: "plant"})
		if _, err := s.Series.Collection("plant"); engine.CodeOf(err) != engine.CodeUnsupported {
			t.Errorf("Collection: %v", err)
		}
		if names := s.Series.Names(); len(names) > 0 {
			t.Errorf("there are %v", names)
		}
	})
	s, _, _ := start(t, openPartitions(t), o)
	if engine.CodeOf(used) != engine.CodeUnsupported {
		t.Errorf("Use: %v", used)
	}
	for _, c := range []struct{ method, path string }{{"POST", "/write?db=plant"}, {"GET", "/series/plant"}, {"GET", "/series/plant/live"}} {
		code, text := request(t, c.method, s.AdminURL()+c.path, strings.NewReader("m n=1"))
		if code < 400 || code == http.StatusInternalServerError {
			t.Errorf("%s: %d %s", c.path, code, text)
		}
	}
}

// TestSeriesOptions: collections that cannot be are errors of Open.
func TestSeriesOptions(t *testing.T) {
	t.Parallel()
	for _, cs := range [][]series.Collection{{{}}, {{Name: "a b"}}, {{Name: "a"}, {Name: "a"}}, {{Name: "a", Retention: -1}}} {
		if s, err := skerry.Open(openEngine(t), skerry.Options{Series: cs}); err == nil {
			t.Errorf("%v is no error", cs)
			s.Close()
		}
	}
}

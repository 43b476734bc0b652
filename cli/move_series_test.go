package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/skerrydb/skerry/ci/eventually"
	"github.com/skerrydb/skerry/ci/pgserver"
	"github.com/skerrydb/skerry/ci/redisserver"
	"github.com/skerrydb/skerry/ci/seed"
	"github.com/skerrydb/skerry/cli/verb"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/embedded"
)

// append adds a batch of each writer.
func (k *seriesKiller) append() {
	k.t.Helper()
	for w := range k.acked {
		k.acked[w]++
		if acked, err := k.write(k.lines(w, k.acked[w])); !acked {
			k.t.Fatalf("an append: %v", err)
		}
		maps.Copy(k.want[w], k.batch(k.acked[w]))
	}
}

// all returns what the server has of each series, sorted by labels, and its own counts.
func (k *seriesKiller) all() string {
	k.t.Helper()
	list := k.read("", `m_f`)
	list = append(list, k.read("", `m_g`)...)
	list = append(list, k.read("", `{__name__=~"bulk.*"}`, "step", "1m", "agg", "count,sum")...)
	slices.SortFunc(list, func(a, b column) int { return cmp.Compare(fmt.Sprint(a.Labels), fmt.Sprint(b.Labels)) })
	sealed, others := k.stored()
	var b strings.Builder
	fmt.Fprintf(&b, "%d sealed, %d others\n", sealed, others)
	for _, c := range list {
		fmt.Fprintln(&b, c)
	}
	return b.String()
}

// TestMoveSeries moves a server's series to PostgreSQL, Redis and back to a folder. After each move definitions, sealed
// and unsealed samples read the same, and writing goes on.
func TestMoveSeries(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it fills a generation")
	}
	k := &seriesKiller{shell: newShell(t), Rand: seed.Rand(t), start: time.Now().Add(-time.Hour).Truncate(time.Second)}
	for range 3 {
		k.acked, k.want = append(k.acked, -1), append(k.want, map[int64]point{})
	}
	rd := redisserver.Start(t)
	at := []string{"embedded:first", pgserver.Shared(t).Database(t), rd.URL() + "?prefix=moved:", "embedded:last"}
	k.p = k.serve("--series", "plant", "--data", "first")
	k.fill()
	eventually.True(t, "the generation is sealed", func() bool { sealed, _ := k.stored(); return sealed > 0 })
	from := k.p.HTTP
	for _, to := range at[1:] {
		for range 20 {
			k.append()
		}
		before := k.all()
		source := k.p
		moveAll(k.shell, 0, from, to)
		if acked, err := k.write("late n=1\n"); acked || err == nil || !strings.Contains(err.Error(), "fenced") {
			t.Errorf("a write to %s after the move: %v", from, err)
		}
		if again := k.all(); again != before {
			t.Errorf("after the move %s itself reads differently", from)
		}
		k.p, from = k.serve("--series", "plant", "--engine", to), to
		k.p.waitReady()
		if after := k.all(); after != before {
			t.Fatalf("%s reads differently: %s", to, difference(before, after))
		}
		if strings.Contains(source.log(), "level=ERROR") {
			t.Errorf("the source logs %s", source.log())
		}
		source.stop(syscall.SIGTERM)
		k.append()
		k.checkLatest()
	}
	k.checkBulk()
}

// lacking is an engine that promises less than it has.
type lacking struct {
	engine.Engine
	p engine.Promises
}

func (l lacking) Promises() engine.Promises { return l.p }

// TestMoveSeriesRefused: a target that lacks anything that series need is refused by name, before anything is written to
// it or to the source. An engine that is atomic over one partition
// cannot be the target of any move; it cannot be the source of one with series either, as it refuses collections at the
// start of a server.
func TestMoveSeriesRefused(t *testing.T) {
	t.Parallel()
	src, err := embedded.Open(filepath.Join(t.TempDir(), "src"), embedded.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { src.Close() })
	if _, err := src.Update(t.Context(), func(tx engine.Tx) error { return tx.Put([]byte("soplant"), []byte{0, 0, 0, 1}) }); err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(p *engine.Promises){
		"the target of a move needs transactions over all keys":    func(p *engine.Promises) { *p = engine.Promises{Atomic: engine.OnePartition} },
		"the target of a move needs ordered scans":                 func(p *engine.Promises) { p.Ordered = false },
		"on the target needs a change feed":                        func(p *engine.Promises) { p.Feed = false },
		"time series on the target needs positions":                func(p *engine.Promises) { p.Positions, p.ExactPositions = false, false },
		"time series on the target needs values of 12582912 bytes": func(p *engine.Promises) { p.MaxValBytes = 8 << 20 },
		"on the target needs transactions of 16777216 bytes":       func(p *engine.Promises) { p.MaxTxBytes = 13 << 20 },
	} {
		dst := lacking{Engine: src}
		var after func() map[string]string
		o := &moveOptions{from: &url.URL{Scheme: "source"}, to: &url.URL{Scheme: "target"}}
		err := o.move(t.Context(), verb.Process{Stdout: os.Stdout, Stderr: os.Stderr, Engines: verb.Engines{
			"source": func(context.Context, *url.URL, verb.EngineOptions) (engine.Engine, error) { return open{src}, nil },
			"target": func(context.Context, *url.URL, verb.EngineOptions) (engine.Engine, error) {
				eng, err := embedded.Open(filepath.Join(t.TempDir(), "dst"), embedded.Options{Logger: slog.New(slog.DiscardHandler)})
				if err != nil {
					return nil, err
				}
				t.Cleanup(func() { eng.Close() })
				dst = lacking{eng, eng.Promises()}
				change(&dst.p)
				after = func() map[string]string { return pairs(t, eng) }
				return open{dst}, nil
			},
		}})
		if !errors.Is(err, engine.ErrUnsupported) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
		if n := len(after()); n > 0 {
			t.Errorf("%s: the target has %d keys", want, n)
		}
		if has := pairs(t, src); len(has) != 1 {
			t.Errorf("%s: the source has %q", want, has)
		}
	}
}

// open is an engine that the test closes.
type open struct{ engine.Engine }

func (open) Close() error { return nil }

// pairs returns all keys and values.
func pairs(t *testing.T, eng engine.Engine) map[string]string {
	t.Helper()
	all := map[string]string{}
	_, err := eng.View(t.Context(), engine.Read{}, func(tx engine.Tx) error {
		for p, err := range tx.Scan(nil, nil) {
			if err != nil {
				return err
			}
			all[string(p.Key)] = string(p.Val)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

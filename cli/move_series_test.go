package cli

import (
	"context"
	"errors"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/skerrydb/skerry/cli/verb"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/embedded"
)

// lacking is an engine that promises less than it has.
type lacking struct {
	engine.Engine
	p engine.Promises
}

func (l lacking) Promises() engine.Promises { return l.p }

// TestMoveSeriesRefused: a target that lacks anything that series need is refused by name, before anything is written to
// it or to the source.
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

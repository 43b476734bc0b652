package sqldriver_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/skerrydb/skerry"
	"github.com/skerrydb/skerry/ci/eventually"
	"github.com/skerrydb/skerry/ci/ports"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/embedded"
	"github.com/skerrydb/skerry/proc"
)

// server is a Skerry on loopback that can be stopped and restarted at the same address with
// the same data.
type server struct {
	addr  string
	dir   string
	procs []proc.Procedure
	pass  string
	stop  func()
	gate  gate // for the procedure wait
}

// gate blocks callers while it is shut.
type gate struct {
	mu   sync.Mutex // guards shut
	shut chan struct{}
}

func (g *gate) hold() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut == nil {
		g.shut = make(chan struct{})
	}
}

func (g *gate) free() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut != nil {
		close(g.shut)
		g.shut = nil
	}
}

func (g *gate) wait() {
	g.mu.Lock()
	shut := g.shut
	g.mu.Unlock()
	if shut != nil {
		<-shut
	}
}

// newServer starts a server with the procedures of the tests and those in more.
func newServer(tb testing.TB, more ...proc.Procedure) *server {
	tb.Helper()
	s := &server{addr: ports.Addr(tb), dir: tb.TempDir()}
	s.procs = append(s.procedures(), more...)
	s.start(tb)
	tb.Cleanup(s.end)
	return s
}

// start serves until end.
func (s *server) start(tb testing.TB) {
	tb.Helper()
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	db, err := embedded.Open(s.dir, embedded.Options{Logger: quiet})
	if err != nil {
		tb.Fatal(err)
	}
	l, err := net.Listen("tcp", s.addr)
	if err != nil {
		tb.Fatal(err)
	}
	s.addr = l.Addr().String()
	srv, err := skerry.Open(db, skerry.Options{HTTP: skerry.Off, RESPListener: l, Procedures: s.procs, Password: s.pass, Grace: 100 * time.Millisecond, Logger: quiet})
	if err != nil {
		tb.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() {
		if err := srv.Run(context.Background()); err != nil {
			tb.Errorf("the server: %v", err)
		}
	})
	eventually.True(tb, "the server is ready", func() bool { return srv.Ready() == nil })
	s.stop = sync.OnceFunc(func() {
		srv.Close()
		running.Wait()
		if err := db.Close(); err != nil {
			tb.Errorf("close the engine: %v", err)
		}
	})
}

func (s *server) end() {
	s.gate.free()
	s.stop()
}

// dsn returns its DSN. params begins with ? or is empty.
func (s *server) dsn(params string) string { return "skerry://" + s.addr + "/" + params }

// Arguments and results of the procedures of the tests.
type (
	none       struct{}
	one[T any] struct {
		V T `json:"v"`
	}
	// optional has one more argument, so that all may be sent as one JSON object.
	optional[T any] struct {
		V    T   `json:"v"`
		More int `json:"more,omitempty"`
	}
	counted struct {
		Name string `json:"name"`
		N    int64  `json:"n"`
	}
	two struct {
		A *string `json:"a"`
		B *string `json:"b"`
	}
	row struct {
		N int64 `json:"n"`
	}
	failing struct {
		Code string `json:"code"`
		Text string `json:"text,omitempty"`
	}
	inner struct {
		X int      `json:"x"`
		Y []string `json:"y"`
	}
	everything struct {
		Yes    bool             `json:"yes"`
		Small  int8             `json:"small"`
		Int    int64            `json:"int"`
		Uint   uint64           `json:"uint"`
		Float  float64          `json:"float"`
		Text   string           `json:"text"`
		Bytes  []byte           `json:"bytes"`
		Time   time.Time        `json:"time"`
		None   *int64           `json:"none"`
		Some   *string          `json:"some"`
		Object inner            `json:"object"`
		List   []inner          `json:"list"`
		Map    map[string]int64 `json:"map"`
		JSON   json.RawMessage  `json:"json"`
	}
)

func same[T any](_ *proc.Tx, in one[T]) (T, error) { return in.V, nil }

func alike[T any](_ *proc.Tx, in optional[T]) (T, error) { return in.V, nil }

// procedures returns the procedures that the tests call.
func (s *server) procedures() []proc.Procedure {
	return []proc.Procedure{
		proc.DefineRead("echo_int", same[*int64]), proc.DefineRead("echo_float", same[*float64]), proc.DefineRead("echo_bool", same[*bool]),
		proc.DefineRead("echo_text", alike[*string]), proc.DefineRead("echo_bytes", alike[*[]byte]), proc.DefineRead("echo_time", same[*time.Time]),
		proc.DefineRead("echo_uint", same[uint64]), proc.DefineRead("only_text", same[*string]), proc.DefineRead("plain_text", same[string]), proc.DefineRead("plain_bytes", same[[]byte]),
		proc.DefineRead("echo_json", same[json.RawMessage]), proc.DefineRead("echo_object", same[*inner]),
		proc.DefineRead("echo_list", same[[]int64]), proc.DefineRead("echo_map", same[map[string]int64]), proc.DefineRead("echo_objects", same[[]*inner]),
		proc.DefineRead("everything", func(_ *proc.Tx, in everything) (everything, error) { return in, nil }),
		proc.DefineRead("count", func(_ *proc.Tx, in row) ([]row, error) {
			list := make([]row, in.N)
			for i := range list {
				list[i].N = int64(i)
			}
			return list, nil
		}),
		proc.DefineRead("pair", func(_ *proc.Tx, in two) (two, error) { return in, nil }),
		proc.DefineRead("nothing", func(*proc.Tx, none) (none, error) { return none{}, nil }),
		proc.DefineRead("wait", func(*proc.Tx, none) (string, error) {
			s.gate.wait()
			return "over", nil
		}),
		proc.Define("add", func(tx *proc.Tx, in counted) (int64, error) { return tx.KV(0).Add([]byte(in.Name), in.N) }),
		proc.DefineRead("sum", func(tx *proc.Tx, in struct {
			Name string `json:"name"`
		}) (int64, error) {
			return sum(tx, in.Name)
		}),
		proc.Define("touch", func(*proc.Tx, row) (struct {
			Rows int64 `json:"rows_affected"`
		}, error) {
			return struct {
				Rows int64 `json:"rows_affected"`
			}{3}, nil
		}),
		proc.Define("fail", func(tx *proc.Tx, in failing) (none, error) {
			return none{}, engine.Errorf(engine.Code(in.Code), "it failed: %s", in.Text)
		}),
	}
}

func sum(tx *proc.Tx, name string) (n int64, err error) {
	b, ok, err := tx.KV(0).Get([]byte(name))
	if err == nil && ok {
		_, err = fmt.Sscan(string(b.Val), &n)
	}
	return n, err
}

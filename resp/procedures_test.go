package resp_test

import (
	"errors"
	"strconv"
	"testing"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/proc"
	"github.com/skerrydb/skerry/resp"
)

// The arguments of the procedures that the tests call.
type (
	noArgs  struct{}
	addArgs struct {
		Key string `json:"key"`
		N   int64  `json:"n"`
	}
	keyArgs  struct{ Key string }
	voteArgs struct{ Phone, Contestant, Limit int64 }
	failArgs struct{ Key, Code, Text string }
	sizeArgs struct{ Bytes int }
	anyArgs  struct {
		Text string         `json:"text"`
		List []int          `json:"list,omitempty"`
		Map  map[string]int `json:"map,omitempty"`
	}
	shape struct {
		Int   int64
		Yes   bool
		Text  string
		Float float64
		None  *int
		List  []int
		Map   map[string]int
	}
)

// testProcedures returns the procedures that every test server has. extra are
// further ones.
func testProcedures(tb testing.TB, eng engine.Engine, extra ...proc.Procedure) *proc.Set {
	tb.Helper()
	set, err := proc.New(eng, proc.Options{}, append(extra,
		proc.Define("add", func(tx *proc.Tx, in addArgs) (int64, error) { return tx.KV(0).Add([]byte(in.Key), in.N) }).Describe("adds n to key"),
		proc.Define("vote", vote),
		proc.DefineRead("value", func(tx *proc.Tx, in keyArgs) (string, error) {
			e, _, err := tx.KV(0).Get([]byte(in.Key))
			return string(e.Val), err
		}),
		proc.Define("fail", func(tx *proc.Tx, in failArgs) (noArgs, error) {
			if _, err := tx.KV(0).Add([]byte(in.Key), 1); err != nil {
				return noArgs{}, err
			}
			if in.Code == "" {
				return noArgs{}, errors.New(in.Text)
			}
			return noArgs{}, engine.Errorf(engine.Code(in.Code), "%s", in.Text)
		}),
		proc.Define("panics", func(*proc.Tx, noArgs) (noArgs, error) { panic("a procedure's own fault") }),
		proc.DefineRead("sneaks", func(tx *proc.Tx, in keyArgs) (int64, error) { return tx.KV(0).Add([]byte(in.Key), 1) }),
		proc.DefineRead("zeros", func(_ *proc.Tx, in sizeArgs) ([]byte, error) { return make([]byte, in.Bytes), nil }),
		proc.DefineRead("echo", func(_ *proc.Tx, in anyArgs) (anyArgs, error) { return in, nil }),
		proc.DefineRead("shape", func(*proc.Tx, noArgs) (shape, error) {
			return shape{Int: 7, Yes: true, Text: "a\r\nb", Float: 1.5, List: []int{1, 2}, Map: map[string]int{"b": 2, "a": 1}}, nil
		}),
	)...)
	if err != nil {
		tb.Fatal(err)
	}
	return set
}

// vote is three statements, as one procedure has in practice. It allocates
// nothing, so that a benchmark measures the way to it and back.
func vote(tx *proc.Tx, in voteArgs) (int64, error) {
	var buf [32]byte
	t := tx.KV(1)
	if in.Contestant < 1 || in.Contestant > 12 {
		return 1, nil
	}
	phone := strconv.AppendInt(append(buf[:0], 'p'), in.Phone, 10)
	n, err := t.Add(phone, 1)
	if err != nil {
		return 0, err
	}
	if n > in.Limit {
		_, err = t.Add(phone, -1)
		return 2, err
	}
	_, err = t.Add(strconv.AppendInt(append(buf[:0], 'c'), in.Contestant, 10), 1)
	return 0, err
}

func TestCalls(t *testing.T) {
	a := newAsker(t, startSkerry(t, resp.Options{}))
	for _, c := range []struct {
		words []string
		want  string
	}{
		{[]string{"FCALL", "add", "1", "n", "2"}, ":2"},
		{[]string{"CALL", "add", "n", "3"}, ":5"},
		{[]string{"FCALL_RO", "value", "0", "n"}, "$5"},
	} {
		v := a.ask(c.words...)
		got := string(v.Kind) + string(v.Str)
		if v.Kind == ':' {
			got += strconv.FormatInt(v.Int, 10)
		}
		if got != c.want {
			t.Errorf("%q: %s, want %s", c.words, got, c.want)
		}
	}
}

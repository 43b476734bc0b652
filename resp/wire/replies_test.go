package wire

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"
)

// text prints a value on one line.
func (v Value) text() string {
	var b strings.Builder
	if v.Attrs != nil {
		b.WriteString("|")
		for _, a := range v.Attrs {
			b.WriteString(a.text() + " ")
		}
		b.WriteString("| ")
	}
	switch v.Kind {
	case KindInt, KindBool:
		fmt.Fprintf(&b, "%c%d", v.Kind, v.Int)
	case KindArray, KindMap, KindSet, KindPush:
		fmt.Fprintf(&b, "%c[", v.Kind)
		for i, e := range v.List {
			if i > 0 {
				b.WriteByte(' ')
			}
			b.WriteString(e.text())
		}
		b.WriteByte(']')
	case KindNull:
		b.WriteByte('_')
	default:
		fmt.Fprintf(&b, "%c%q", v.Kind, v.Str)
	}
	return b.String()
}

func allReplies(src io.Reader, limit int) (out []string, err error) {
	r := NewReplies(src, &Buffers{}, limit)
	defer r.Release()
	for {
		v, err := r.Read()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return out, err
		}
		out = append(out, v.text())
	}
}

func TestReplies(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"+OK\r\n-ERR x\r\n:-5\r\n$2\r\nab\r\n$-1\r\n*-1\r\n_\r\n", `+"OK" -"ERR x" :-5 $"ab" _ _ _`},
		{"*2\r\n*0\r\n%1\r\n+a\r\n:1\r\n", `*[*[] %[+"a" :1]]`},
		{"~1\r\n#t\r\n>1\r\n#f\r\n,1.5\r\n(99\r\n=7\r\ntxt:abc\r\n!3\r\nERR\r\n", `~[#1] >[#0] ,"1.5" ("99" ="abc" !"ERR"`},
		{"|1\r\n+a\r\n:1\r\n*1\r\n+b\r\n", `|+"a" :1 | *[+"b"]`},
		{"?1\r\n", `Protocol error: unknown kind of reply`},
		{"$5\r\nabc", ``},
		{"$1\r\nabc\r\n", `Protocol error: expected CRLF after bulk`},
		{":x\r\n", `Protocol error: bad integer in reply`},
		{"$-2\r\n", `Protocol error: bad length in reply`},
		{"$2000\r\n", `Protocol error: bad length in reply`},
		{"+" + strings.Repeat("a", 1100), `Protocol error: too big reply`},
		{strings.Repeat("*1\r\n", 17) + "+a\r\n", `Protocol error: too deep reply`},
		{strings.Repeat("|0\r\n", 2) + "+a\r\n", `Protocol error: too deep reply`},
		{"=2\r\nab\r\n", `Protocol error: bad verbatim string in reply`},
		{"+a\n", `Protocol error: bad line in reply`},
	} {
		for step := 1; step < 4; step++ {
			out, err := allReplies(&stepReader{[]byte(c.in), step}, 1024)
			if err != nil {
				out = append(out, err.Error())
			}
			if got := strings.Join(out, " "); got != c.want {
				t.Errorf("%.60q: %s, want %s", c.in, got, c.want)
			}
		}
	}
}

// TestWriterRoundTrip writes everything in both protocols and reads it again.
func TestWriterRoundTrip(t *testing.T) {
	for _, resp3 := range []bool{false, true} {
		w := Writer{RESP3: resp3}
		w.OK()
		w.Simple("hi")
		w.Error("ERR a\r\nb")
		for _, n := range []int64{0, 1, 9, 10, -1, math.MinInt64} {
			w.Int(n)
			w.BulkInt(n)
		}
		w.Bulk([]byte("a\r\n"))
		w.Null()
		w.NullArray()
		w.Array(1)
		w.Map(1)
		w.BulkString("k")
		w.Set(1)
		w.Push(0)
		w.Bool(true)
		w.Bool(false)
		w.Double(1.5)
		w.Double(1e30)
		w.Double(math.Inf(-1))
		w.Double(0.1)
		w.Verbatim("txt", "v")
		want := `+"OK" +"hi" -"ERR a  b" :0 $"0" :1 $"1" :9 $"9" :10 $"10" :-1 $"-1" :-9223372036854775808 $"-9223372036854775808" $"a\r\n" _ _ `
		if resp3 {
			want += `*[%[$"k" ~[>[]]]] #1 #0 ,"1.5" ,"1e+30" ,"-inf" ,"0.10000000000000001" ="v"`
		} else {
			want += `*[*[$"k" *[*[]]]] :1 :0 $"1.5" $"1e+30" $"-inf" $"0.10000000000000001" $"v"`
		}
		out, err := allReplies(bytes.NewReader(w.Buf), 0)
		if got := strings.Join(out, " "); got != want || err != nil {
			t.Errorf("RESP3 %v:\n got %s %v\nwant %s", resp3, got, err, want)
		}
	}
}

func FuzzReplies(f *testing.F) {
	f.Add([]byte("*2\r\n$1\r\na\r\n|1\r\n+a\r\n:1\r\n%1\r\n+a\r\n_\r\n"), 2)
	f.Add([]byte("=7\r\ntxt:abc\r\n"), 1)
	f.Fuzz(func(t *testing.T, in []byte, step int) {
		want, wantErr := allReplies(bytes.NewReader(in), 4096)
		got, gotErr := allReplies(&stepReader{in, step%7 + 1}, 4096)
		if strings.Join(want, ";") != strings.Join(got, ";") || fmt.Sprint(wantErr) != fmt.Sprint(gotErr) {
			t.Errorf("whole: %v %v\nsplit: %v %v", want, wantErr, got, gotErr)
		}
	})
}

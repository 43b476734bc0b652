package wire

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// readAll parses everything that r yields and prints it, one command a line.
func readAll(r io.Reader, limits Limits, guest bool) (cmds []string, err error) {
	rd := NewReader(r, &Buffers{}, limits)
	defer rd.Release()
	rd.SetGuest(guest)
	var args [][]byte
	for {
		var ok bool
		args, ok, err = rd.Next(args[:0])
		if err != nil {
			return cmds, err
		}
		if ok {
			cmds = append(cmds, fmt.Sprintf("%q", args))
			continue
		}
		if err := rd.Fill(); err != nil {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return cmds, err
		}
	}
}

func TestReader(t *testing.T) {
	for _, c := range []struct{ in, want, err string }{
		{"*1\r\n$4\r\nPING\r\n", `["PING"]`, ""},
		{"*2\r\n$3\r\nGET\r\n$0\r\n\r\n*1\r\n$1\r\na\r\n", `["GET" ""];["a"]`, ""},
		{"*1\r\n$4\r\n\r\n\x00\xff\r\n", `["\r\n\x00\xff"]`, ""},
		{"*0\r\n*-1\r\n\r\n  \r\nPING\r\n", `["PING"]`, ""},
		{"PING\n", `["PING"]`, ""},
		{"set k \"a\\x41\\n\\\"\" 'it\\'s \\n'\r\n", `["set" "k" "aA\n\"" "it's \\n"]`, ""},
		{"a\tb \x00c\r\n", `["a" "b" "c"]`, ""},
		{"a\"b\"\r\n", `["ab"]`, ""},
		{"a \"\" ''\r\n", `["a" "" ""]`, ""},
		{"*1\r\n$4\r\nPI", ``, ""},
		{"PI", ``, ""},
		{"a \"b\r\n", ``, "unbalanced quotes in request"},
		{"a 'b\r\n", ``, "unbalanced quotes in request"},
		{"a \"b\"c\r\n", ``, "unbalanced quotes in request"},
		{"*x\r\n", ``, "invalid multibulk length"},
		{"*+1\r\n", ``, "invalid multibulk length"},
		{"*01\r\n", ``, "invalid multibulk length"},
		{"*1048577\r\n", ``, "invalid multibulk length"},
		{"*99999999999999999999\r\n", ``, "invalid multibulk length"},
		{"*1\r\n:1\r\n", ``, "expected '$', got ':'"},
		{"*1\r\n*1\r\n$1\r\na\r\n", ``, "expected '$', got '*'"},
		{"*1\r\n$-1\r\n", ``, "invalid bulk length"},
		{"*1\r\n$16777217\r\n", ``, "invalid bulk length"},
		{"*1\r\n$9223372036854775808\r\n", ``, "invalid bulk length"},
		{"*1\r\n$1\r\nabc*1\r\n$1\r\nb\r\n", `["a"];["b"]`, ""},
		{"PING\r\n*1\r\n$x\r\n", `["PING"]`, "invalid bulk length"},
		{strings.Repeat("x", DefaultMaxInline+1), ``, "too big inline request"},
		{"*" + strings.Repeat("1", DefaultMaxInline+1), ``, "too big mbulk count string"},
		{"*1\r\n$" + strings.Repeat("1", DefaultMaxInline+1), ``, "too big bulk count string"},
	} {
		cmds, err := readAll(strings.NewReader(c.in), Limits{}, false)
		check(t, c.in, cmds, err, c.want, c.err)
		cmds, err = readAll(iotest.OneByteReader(strings.NewReader(c.in)), Limits{}, false)
		check(t, "byte by byte: "+c.in, cmds, err, c.want, c.err)
	}
}

func check(t *testing.T, name string, cmds []string, err error, want, wantErr string) {
	t.Helper()
	name = name[:min(len(name), 60)]
	if got := strings.Join(cmds, ";"); got != want {
		t.Errorf("%q: commands %s, want %s", name, got, want)
	}
	text := ""
	if p, ok := errors.AsType[*ProtocolError](err); ok {
		text = strings.TrimPrefix(p.Text, "Protocol error: ")
	} else if err != nil {
		t.Errorf("%q: error %v", name, err)
	}
	if text != wantErr {
		t.Errorf("%q: error %q, want %q", name, text, wantErr)
	}
}

// TestReaderLimits sends exactly what is allowed, and one more.
func TestReaderLimits(t *testing.T) {
	lim := Limits{MaxBulk: 10, MaxArgs: 20, MaxInline: 30, MaxCommand: 200}
	args := func(n, size int) string {
		return fmt.Sprintf("*%d\r\n", n) + strings.Repeat(fmt.Sprintf("$%d\r\n%s\r\n", size, strings.Repeat("a", size)), n)
	}
	for _, c := range []struct {
		in, err string
		guest   bool
	}{
		{args(1, 10), "", false},
		{args(1, 11), "invalid bulk length", false},
		{args(20, 2), "", false},
		{args(21, 2), "invalid multibulk length", false},
		{args(20, 10)[:201], "too big command", false},
		{strings.Repeat("a", 29) + "\r\n", "", false},
		{strings.Repeat("a", 30) + "\r\n", "too big inline request", false},
		{args(10, 2), "", true},
		{args(11, 2), "unauthenticated multibulk length", true},
	} {
		_, err := readAll(strings.NewReader(c.in), lim, c.guest)
		check(t, c.in, nil, err, "", c.err)
	}
	_, err := readAll(strings.NewReader(args(1, GuestMaxBulk)), Limits{}, true)
	check(t, "guest bulk", nil, err, "", "")
	_, err = readAll(strings.NewReader(args(1, GuestMaxBulk+1)), Limits{}, true)
	check(t, "guest bulk over", nil, err, "", "unauthenticated bulk length")
}

// TestReaderGrowsWithInput checks that an announced length costs nothing until the bytes
// arrive.
func TestReaderGrowsWithInput(t *testing.T) {
	rd := NewReader(strings.NewReader("*1048576\r\n$16777216\r\nabc"), &Buffers{}, Limits{})
	for rd.Fill() == nil {
		if _, ok, err := rd.Next(nil); ok || err != nil {
			t.Fatal(ok, err)
		}
	}
	if len(rd.buf) > smallBuffer || cap(rd.spans) > 16 {
		t.Errorf("buffer of %d bytes and %d spans for 25 bytes received", len(rd.buf), cap(rd.spans))
	}
}

func TestReaderShrinksAfterBigCommand(t *testing.T) {
	var in []byte
	in = AppendCommand(in, []byte("SET"), []byte("k"), make([]byte, 1<<20))
	in = AppendCommandStrings(in, "PING")
	rd := NewReader(bytes.NewReader(in), &Buffers{}, Limits{})
	n := 0
	for rd.Fill() == nil {
		for {
			_, ok, err := rd.Next(nil)
			if err != nil {
				t.Fatal(err)
			}
			if !ok {
				break
			}
			n++
		}
	}
	if n != 2 || len(rd.buf) > largeBuffer {
		t.Errorf("%d commands, buffer of %d bytes at the end", n, len(rd.buf))
	}
}

func FuzzReader(f *testing.F) {
	f.Add([]byte("*2\r\n$3\r\nGET\r\n$1\r\nk\r\nPING\r\nset a \"b\\x00\" 'c'\r\n"), 3)
	f.Add([]byte("*1\r\n*1\r\n$1\r\na\r\n"), 1)
	f.Add([]byte("*-1\r\n*0\r\n$5\r\n\"\\x"), 7)
	f.Fuzz(func(t *testing.T, in []byte, step int) {
		lim := Limits{MaxBulk: 1 << 10, MaxArgs: 100, MaxInline: 256, MaxCommand: 8 << 10}
		want, wantErr := readAll(bytes.NewReader(in), lim, false)
		got, gotErr := readAll(&stepReader{in, step%7 + 1}, lim, false)
		if strings.Join(want, ";") != strings.Join(got, ";") || fmt.Sprint(wantErr) != fmt.Sprint(gotErr) {
			t.Errorf("whole: %v %v\nsplit: %v %v", want, wantErr, got, gotErr)
		}
	})
}

// stepReader yields a few bytes at a time.
type stepReader struct {
	b []byte
	n int
}

func (r *stepReader) Read(p []byte) (int, error) {
	if len(r.b) == 0 {
		return 0, io.EOF
	}
	n := copy(p[:min(len(p), max(r.n, 1))], r.b)
	r.b = r.b[n:]
	return n, nil
}

func BenchmarkReaderSet(b *testing.B) {
	in := bytes.Repeat(AppendCommand(nil, []byte("SET"), make([]byte, 16), make([]byte, 100)), 64)
	src := &loopReader{in: in}
	rd := NewReader(src, &Buffers{}, Limits{})
	var args [][]byte
	b.ReportAllocs()
	for n := 0; n < b.N; {
		if err := rd.Fill(); err != nil {
			b.Fatal(err)
		}
		for {
			var ok bool
			if args, ok, _ = rd.Next(args[:0]); !ok {
				break
			}
			n++
		}
	}
}

// loopReader repeats its input forever.
type loopReader struct {
	in  []byte
	off int
}

func (r *loopReader) Read(p []byte) (int, error) {
	n := copy(p, r.in[r.off:])
	r.off = (r.off + n) % len(r.in)
	return n, nil
}

// TestReaderKeepsItsBuffer checks that a stream of large commands does not make the buffer
// grow again for each of them, and that small ones eventually make it shrink.
func TestReaderKeepsItsBuffer(t *testing.T) {
	big := AppendCommand(nil, []byte("SET"), []byte("k"), make([]byte, 300<<10))
	small := AppendCommandStrings(nil, "PING")
	src := &chunks{}
	rd := NewReader(src, &Buffers{}, Limits{})
	read := func(cmd []byte) {
		src.b = cmd
		for {
			_, ok, err := rd.Next(nil)
			if err != nil {
				t.Fatal(err)
			}
			if ok {
				return
			}
			if err := rd.Fill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	read(big)
	size := len(rd.buf)
	for range 3 {
		read(big)
		read(small)
	}
	if len(rd.buf) != size || size < len(big) {
		t.Errorf("the buffer went from %d to %d bytes", size, len(rd.buf))
	}
	for range calmReads + 1 {
		read(small)
	}
	if len(rd.buf) > largeBuffer {
		t.Errorf("after small commands it still has %d bytes", len(rd.buf))
	}
}

// chunks yields as much of b as fits.
type chunks struct{ b []byte }

func (c *chunks) Read(p []byte) (int, error) {
	n := copy(p, c.b)
	c.b = c.b[n:]
	return n, nil
}

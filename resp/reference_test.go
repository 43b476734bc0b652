package resp_test

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/skerrydb/skerry/ci/redisserver"
	"github.com/skerrydb/skerry/resp"
	"github.com/skerrydb/skerry/resp/wire"
)

var record = flag.Bool("record", false, "record commands.resp3 again from the real redis-server")

// asker sends commands in RESP3 and waits for their replies.
type asker struct {
	testing.TB
	nc net.Conn
	rd *wire.Replies
}

func newAsker(tb testing.TB, addr string) *asker {
	tb.Helper()
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { nc.Close() })
	a := &asker{tb, nc, wire.NewReplies(nc, &wire.Buffers{}, 0)}
	a.ask("HELLO", "3")
	return a
}

func (a *asker) ask(words ...string) wire.Value {
	a.Helper()
	if _, err := a.nc.Write(wire.AppendCommandStrings(nil, words...)); err != nil {
		a.Fatal(err)
	}
	v, err := a.rd.Read()
	if err != nil {
		a.Fatal(err)
	}
	return v
}

// send sends an inline command, or several separated by line ends.
func (a *asker) send(line string) {
	a.Helper()
	if _, err := io.WriteString(a.nc, line+"\r\n"); err != nil {
		a.Fatal(err)
	}
}

// subName returns the name of the subcommand that v names or describes, or "" if v is
// something else. Redis does not define their order.
func subName(v wire.Value) string {
	if v.Kind == wire.KindArray && len(v.List) == 10 {
		v = v.List[0]
	}
	if text := string(v.Str); v.Kind == wire.KindBulk && strings.Contains(text, "|") && !strings.ContainsAny(text, " `.") {
		return text
	}
	return ""
}

// appendRESP3 appends v without the elements of aggregates that keep rejects.
func appendRESP3(b []byte, v wire.Value, keep func(e []wire.Value) bool) []byte {
	w := wire.Writer{Buf: b, RESP3: true}
	switch v.Kind {
	case wire.KindSimple:
		w.Simple(string(v.Str))
	case wire.KindInt:
		w.Int(v.Int)
	case wire.KindNull:
		w.Null()
	case wire.KindBulk:
		w.Bulk(v.Str)
	default:
		step := 1
		if v.Kind == wire.KindMap {
			step = 2
		}
		elems := slices.DeleteFunc(slices.Collect(slices.Chunk(v.List, step)), func(e []wire.Value) bool { return !keep(e) })
		if !slices.ContainsFunc(elems, func(e []wire.Value) bool { return subName(e[0]) == "" }) {
			slices.SortFunc(elems, func(a, b []wire.Value) int { return strings.Compare(subName(a[0]), subName(b[0])) })
		}
		list := slices.Concat(elems...)
		switch v.Kind {
		case wire.KindArray:
			w.Array(len(list))
		case wire.KindSet:
			w.Set(len(list))
		case wire.KindMap:
			w.Map(len(list) / 2)
		}
		for _, e := range list {
			w.Buf = appendRESP3(w.Buf, e, keep)
		}
	}
	return w.Buf
}

// TestReference checks that commands.resp3 contains Redis's replies about the commands that
// Skerry has, and that COMMAND returns them.
func TestReference(t *testing.T) {
	redis := newAsker(t, redisserver.InMemory(t))
	skerry := newAsker(t, startSkerry(t, resp.Options{}))
	known := map[string]bool{}
	for _, v := range skerry.ask("COMMAND", "LIST").List {
		known[string(v.Str)] = true
	}
	// Subcommands that Skerry does not have are removed wherever they are named.
	keep := func(e []wire.Value) bool { return subName(e[0]) == "" || known[subName(e[0])] }
	var want []byte
	var names []string
	for name := range known {
		if !strings.Contains(name, "|") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		v := redis.ask("COMMAND", "INFO", name).List[0]
		if v.Kind == wire.KindNull {
			continue // it is Skerry's own
		}
		info := appendRESP3(nil, v, keep)
		doc := redis.ask("COMMAND", "DOCS", name).List[1]
		w := wire.Writer{Buf: want}
		w.BulkString(name)
		want = append(w.Buf, info...)
		want = appendRESP3(want, doc, keep)
	}
	if *record {
		if err := os.WriteFile("commands.resp3", want, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	have, err := os.ReadFile("commands.resp3")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(have, want) {
		t.Fatal("commands.resp3 differs from Redis's replies; record it with -record")
	}
	compareInfo(t, redis, skerry, slices.Sorted(maps.Keys(known)), known)
}

// compareInfo compares COMMAND INFO of both servers for each command and subcommand. Only
// the order of subcommands may differ.
func compareInfo(t *testing.T, redis, skerry *asker, names []string, known map[string]bool) {
	t.Helper()
	compared := 0
	for _, name := range names {
		got := skerry.ask("COMMAND", "INFO", name).List[0]
		if len(got.List) != 10 || string(got.List[0].Str) != name || got.List[1].Int == 0 {
			t.Errorf("COMMAND INFO %s: %s", name, infoText(got))
			continue
		}
		want := redis.ask("COMMAND", "INFO", name).List[0]
		if want.Kind == wire.KindNull {
			continue // it is Skerry's own
		}
		compared++
		subs := &want.List[9].List
		*subs = slices.DeleteFunc(*subs, func(v wire.Value) bool { return !known[subName(v)] })
		if g, w := infoText(got), infoText(want); g != w {
			t.Errorf("COMMAND INFO %s:\n got  %s\n want %s", name, g, w)
		}
	}
	if compared < 100 {
		t.Errorf("only %d commands and subcommands were compared", compared)
	}
}

// infoText formats an element of COMMAND INFO with its subcommands sorted.
func infoText(v wire.Value) string {
	parts := []string{fmt.Sprintf("%c%s%d", v.Kind, v.Str, v.Int)}
	for _, e := range v.List {
		parts = append(parts, infoText(e))
	}
	if subs := parts[1:]; len(v.List) > 0 && !slices.ContainsFunc(v.List, func(e wire.Value) bool { return len(e.List) != 10 }) {
		slices.Sort(subs)
	}
	return "(" + strings.Join(parts, " ") + ")"
}

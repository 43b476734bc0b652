package resp_test

import (
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"testing"

	"github.com/skerrydb/skerry/resp"
	"github.com/skerrydb/skerry/resp/wire"
)

// The load of the benchmarks: connections, requests in flight on each, keys.
const (
	benchConns  = 8
	benchFlight = 64
	benchKeys   = 10_000
)

// BenchmarkServer measures server and client together over loopback. The client only counts
// bytes, so most of the time is the server's.
func BenchmarkServer(b *testing.B) {
	val := make([]byte, 100)
	for name, cmd := range map[string]func(key []byte, i int) []byte{
		"PING": func([]byte, int) []byte { return wire.AppendCommandStrings(nil, "PING") },
		"GET": func(key []byte, _ int) []byte {
			return wire.AppendCommand(nil, []byte("GET"), key)
		},
		"SET": func(key []byte, _ int) []byte {
			return wire.AppendCommand(nil, []byte("SET"), key, val)
		},
		"FCALL": func(_ []byte, i int) []byte {
			return wire.AppendCommandStrings(nil, "FCALL", "vote", "0", strconv.Itoa(i*7919%benchKeys), strconv.Itoa(1+i%12), "1000000000")
		},
		"FCALL_RO": func([]byte, int) []byte {
			return wire.AppendCommandStrings(nil, "FCALL_RO", "sum", "0", "1", "2", "3")
		},
		"mixed": func(key []byte, i int) []byte {
			if i%10 == 0 {
				return wire.AppendCommand(nil, []byte("SET"), key, val)
			}
			return wire.AppendCommand(nil, []byte("GET"), key)
		},
	} {
		b.Run(name, func(b *testing.B) {
			load(b, startSkerry(b, resp.Options{}), val, cmd)
		})
	}
}

// BenchmarkForwarded measures the same load on a follower, with TLS to the leader, and on
// the leader.
func BenchmarkForwarded(b *testing.B) {
	val := make([]byte, 100)
	set := func(key []byte, _ int) []byte { return wire.AppendCommand(nil, []byte("SET"), key, val) }
	for id, name := range []string{"leader", "other"} {
		b.Run(name, func(b *testing.B) {
			load(b, startNodes(b, 2, resp.Options{}).list[id].addr, val, set)
		})
	}
}

// load fills the server with values and runs the load.
func load(b *testing.B, addr string, val []byte, cmd func(key []byte, i int) []byte) {
	b.Helper()
	fill(b, addr, val)
	b.ReportAllocs()
	b.ResetTimer()
	var wg sync.WaitGroup
	for c := range benchConns {
		wg.Go(func() { pipeline(b, addr, c, b.N/benchConns/benchFlight+1, cmd) })
	}
	wg.Wait()
}

func benchKey(i int) []byte { return fmt.Appendf(nil, "key:%012d", i%benchKeys) }

func fill(b *testing.B, addr string, val []byte) {
	b.Helper()
	a := newAsker(b, addr)
	for i := 0; i < benchKeys; {
		args := [][]byte{[]byte("MSET")}
		for ; len(args) < 2000; i++ {
			args = append(args, benchKey(i), val)
		}
		if _, err := a.nc.Write(wire.AppendCommand(nil, args...)); err != nil {
			b.Fatal(err)
		}
		if v, err := a.rd.Read(); err != nil || v.IsError() {
			b.Fatal(v, err)
		}
	}
}

// pipeline sends rounds of benchFlight commands and reads their replies. The first round
// determines their size.
func pipeline(b *testing.B, addr string, seed, rounds int, cmd func(key []byte, i int) []byte) {
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		b.Error(err)
		return
	}
	defer nc.Close()
	var out []byte
	for i := range benchFlight {
		out = append(out, cmd(benchKey((seed*benchFlight+i)*7919), i)...)
	}
	rd := wire.NewReplies(nc, &wire.Buffers{}, 0)
	nc.Write(out)
	size := 0
	for range benchFlight {
		v, err := rd.Read()
		if err != nil || v.IsError() {
			b.Error(v, err)
			return
		}
		w := wire.Writer{}
		switch v.Kind {
		case wire.KindBulk:
			w.Bulk(v.Str)
		case wire.KindInt:
			w.Int(v.Int)
		default:
			w.Simple(string(v.Str))
		}
		size += len(w.Buf)
	}
	in := make([]byte, size)
	for range rounds - 1 {
		if _, err := nc.Write(out); err != nil {
			b.Error(err)
			return
		}
		if _, err := io.ReadFull(nc, in); err != nil {
			b.Error(err)
			return
		}
	}
}

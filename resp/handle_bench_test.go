package resp

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/skerrydb/skerry/resp/wire"
)

// BenchmarkHandle measures how the server runs commands that it has read, without sockets.
func BenchmarkHandle(b *testing.B) {
	for _, words := range [][]string{{"PING"}, {"GET", "none"}} {
		for _, n := range []int{1, 64} {
			b.Run(fmt.Sprintf("%s/%d", words[0], n), func(b *testing.B) {
				c := newTrackerTest(b).c
				c.out.RESP3 = false
				in := bytes.Repeat(wire.AppendCommandStrings(nil, words...), n)
				src := bytes.NewReader(in)
				c.rd = wire.NewReader(src, &c.srv.bufs, wire.Limits{})
				b.ReportAllocs()
				for b.Loop() {
					src.Reset(in)
					clear(c.args)
					c.args = c.args[:0]
					if err := c.rd.Fill(); err != nil {
						b.Fatal(err)
					}
					c.handle()
					c.out.Buf = c.out.Buf[:0]
				}
			})
		}
	}
}

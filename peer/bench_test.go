package peer

import (
	"bytes"
	"fmt"
	"testing"
)

// BenchmarkRoundTrip: from Send to Receive at the other node and back.
func BenchmarkRoundTrip(b *testing.B) {
	ids := identities(b, 2)
	back := make(chan struct{}, 1)
	var echo *running
	a := open(b, ids[0], func(o *Options) { o.Receive = func(uint64, []byte) { back <- struct{}{} } })
	echo = open(b, ids[1], func(o *Options) { o.Receive = func(from uint64, m []byte) { echo.Send(from, bytes.Clone(m)) } })
	join(b, a, echo)
	for _, n := range []int{100, 16 << 10, 1 << 20} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			msg := make([]byte, n)
			b.ReportAllocs()
			b.SetBytes(int64(n))
			for b.Loop() {
				if !a.Send(2, msg) {
					b.Fatal("not accepted")
				}
				<-back
			}
		})
	}
}

package resp

import (
	"fmt"
	"testing"
)

// BenchmarkHandle measures how the server runs commands that it has read, without sockets.
func BenchmarkHandle(b *testing.B) {
	for _, words := range [][]string{{"PING"}, {"GET", "none"}} {
		for _, n := range []int{1, 64} {
			b.Run(fmt.Sprintf("%s/%d", words[0], n), func(b *testing.B) {
				round := roundOf(b, newTrackerTest(b).c, n, words...)
				b.ReportAllocs()
				for b.Loop() {
					round()
				}
			})
		}
	}
}

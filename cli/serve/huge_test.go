package serve

import (
	"fmt"
	"os"
	"reflect"
	"slices"
	"testing"
	"time"
)

const mib = 1 << 20

// mapsText is a process whose heap is three mappings: reserved, used, reserved.
const mapsText = `00400000-004ac000 r-xp 00000000 fe:00 9978258                            /usr/bin/skerry
0059b000-005d1000 rw-p 00000000 00:00 0 
2c82ec000000-2c82ef000000 ---p 00000000 00:00 0 
2c82ef000000-2c82f5700000 rw-p 00000000 00:00 0 
2c82f5700000-2c82f8000000 ---p 00000000 00:00 0 
7fa388700000-7fa38a800000 rw-p 00000000 00:00 0 
7fa3cf1a5000-7fa3cf1a9000 r--p 00000000 00:00 0                          [vvar]
7ffcde1bc000-7ffcde1dd000 rw-p 00000000 00:00 0                          [stack]
`

func TestHeapSpans(t *testing.T) {
	named := `c000000000-c000400000 rw-p 00000000 00:00 0                              [anon: Go: heap]
c000400000-c001000000 rw-p 00000000 00:00 0                              [anon: Go: heap]
c001000000-c004000000 ---p 00000000 00:00 0                              [anon: Go: heap reservation]
c004000000-c004400000 rw-p 00000000 00:00 0                              [anon: Go: heap]
c004400000-c004500000 rw-p 00000000 fe:00 77                             /srv/table
`
	for _, c := range []struct {
		name, maps string
		object     uintptr
		want       []span
	}{
		{"unnamed", mapsText, 0x2c82ef280000, []span{{0x2c82ef000000, 0x2c82f5700000}}},
		{"an object elsewhere", mapsText, 0x7fa388700000, []span{{0x7fa388700000, 0x7fa38a800000}}},
		{"no mapping", mapsText, 0x1000, nil},
		{"the end of a mapping", mapsText, 0x2c82f8000000, nil},
		{"a file", mapsText, 0x400000, nil},
		{"named, in several mappings", named, 0xc000000010, []span{{0xc000000000, 0xc001000000}, {0xc004000000, 0xc004400000}}},
		{"in the last one", named, 0xc004000000, []span{{0xc000000000, 0xc001000000}, {0xc004000000, 0xc004400000}}},
		{"no text", "", 0x1000, nil},
		{"another format", "heap 7\n\nc000-d000\n", 0xc000, nil},
	} {
		if got := heapSpans([]byte(c.maps), c.object); !slices.Equal(got, c.want) {
			t.Errorf("%s: %x, want %x", c.name, got, c.want)
		}
	}
}

// kernel has the heap of a process. Each attempt to collapse a page takes it a millisecond.
type kernel struct {
	pages     *hugePages
	size      uintptr          // of the heap
	holes     map[uintptr]bool // pages that are not used completely, by their number in the heap
	refuse    error
	reads     int
	attempted []int // pages by their number
	clock     time.Time
}

// newKernel is that of a process whose heap begins in the middle of a huge page, the one that has the hugePages.
func newKernel() *kernel {
	k := &kernel{holes: map[uintptr]bool{}}
	k.pages = &hugePages{
		page: 2 * mib,
		maps: func() ([]byte, error) {
			k.reads++
			return fmt.Appendf(nil, "%x-%x rw-p 00000000 00:00 0\n", k.base(), k.base()+k.size), nil
		},
		whole: func(s span) bool { return !k.holes[k.number(s)] },
		collapse: func(s span) error {
			if s.from%(2*mib) != 0 || s.to != s.from+2*mib || s.from < k.base() || s.to > k.base()+k.size {
				panic(fmt.Sprintf("collapsed %x of %x+%x", s, k.base(), k.size))
			}
			k.attempted = append(k.attempted, int(k.number(s)))
			k.clock = k.clock.Add(time.Millisecond)
			return k.refuse
		},
		now: func() time.Time { return k.clock },
	}
	return k
}

// base is the beginning of the heap: the hugePages' address, rounded to a page.
func (k *kernel) base() uintptr { return reflect.ValueOf(k.pages).Pointer() / 4096 * 4096 }

func (k *kernel) number(s span) uintptr { return s.from/(2*mib) - (k.base()+2*mib-1)/(2*mib) }

// look steps until a look at the heap has ended, and returns the pages that were tried and the steps.
func (k *kernel) look() (attempted []int, steps int) {
	k.attempted = nil
	for {
		steps++
		if k.pages.step(int64(k.size)) == hugeEvery {
			return k.attempted, steps
		}
	}
}

func TestHugePages(t *testing.T) {
	k := newKernel()
	k.size = 255 * mib
	if got, _ := k.look(); k.reads > 0 || got != nil {
		t.Fatalf("a small heap: %d reads, pages %v", k.reads, got)
	}
	k.size = 300*mib + 4096
	k.holes[1], k.holes[100] = true, true
	got, steps := k.look()
	if len(got) < 147 || len(got) > 148 || got[0] != 0 || got[1] != 2 || slices.Contains(got, 100) {
		t.Errorf("of 149 or 150 pages without 1 and 100: %v", got)
	}
	if steps != len(got)/5+1 {
		t.Errorf("%d pages took %d steps", len(got), steps)
	}
	if n := k.pages.bytes.Load(); n != int64(len(got))*2*mib {
		t.Errorf("%d pages are %d bytes", len(got), n)
	}
	k.size += 20 * mib
	delete(k.holes, 1)
	if again, _ := k.look(); len(again) != len(got)+11 || k.reads != 2 {
		t.Errorf("%d pages after 20 MiB more, %d reads", len(again), k.reads)
	}
}

// TestHugePagesGiveUp: if all attempts fail, no more are made; later failures do not matter.
func TestHugePagesGiveUp(t *testing.T) {
	k := newKernel()
	k.size, k.refuse = 400*mib, os.ErrInvalid
	first, _ := k.look()
	second, _ := k.look()
	if len(first) != hugeTries || second != nil || k.pages.bytes.Load() != 0 {
		t.Errorf("%d attempts, then %d; %d bytes are huge", len(first), len(second), k.pages.bytes.Load())
	}

	k = newKernel()
	k.size = 400 * mib
	k.look()
	k.refuse = os.ErrInvalid
	k.look()
	k.refuse = nil
	if again, _ := k.look(); len(again) < 199 {
		t.Errorf("%d attempts after failures", len(again))
	}
	k.pages.maps = func() ([]byte, error) { return nil, os.ErrPermission }
	if wait := k.pages.step(400 * mib); wait != hugeEvery {
		t.Errorf("without maps the next look is after %v", wait)
	}
}

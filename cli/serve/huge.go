package serve

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"reflect"
	"runtime/metrics"
	"strings"
	"sync/atomic"
	"time"

	"github.com/skerrydb/skerry/cli/verb"
)

// With pages of 4 KiB, random access to a large heap misses the processor's cache of addresses as well. So the memory
// of a large heap is collapsed into huge pages, a few at a time, and only where all of it is used: the process takes no
// more memory than before.
//
// The heap is not advised to have huge pages. The kernel would then also use them for new memory, which made
// recovery slower, and fill the holes where the runtime has given memory back. See docs/decisions/0044-huge-pages.md.
const (
	leastHuge = 256 << 20 // bytes: smaller heaps are left alone

	hugeEvery = 10 * time.Second       // a look at the whole heap
	hugePause = 100 * time.Millisecond // between steps
	hugeStep  = 5 * time.Millisecond   // a page takes 0.5 to 5 ms
	hugeTries = 64                     // failures before the first success
)

func hugePagesSetting(p *string) verb.Setting {
	return verb.Setting{Name: "huge-pages", Arg: "WHEN", Default: "auto", Help: "huge pages for the memory of the data: auto (on Linux 6.1 or later, from 256 MiB, unless the system forbids them) or " + verb.Off, Server: true, Set: verb.Choice(p, "auto", verb.Off)}
}

// newHugePages returns the huge pages of this process, none if the setting is off.
func (o *Options) newHugePages() *hugePages {
	if o.hugePages == verb.Off {
		return &hugePages{}
	}
	return kernelPages()
}

// span is a range of addresses.
type span struct{ from, to uintptr }

// hugePages collapses the heap of this process into huge pages. Only one goroutine uses it, except for bytes.
type hugePages struct {
	page     uintptr // size of a huge page; 0: nothing happens
	maps     func() ([]byte, error)
	whole    func(span) bool  // all of it is used
	collapse func(span) error // into one huge page, or it is one already
	now      func() time.Time

	left   []span // of the current look at the heap
	failed int
	some   bool         // has been collapsed
	huge   int64        // bytes of huge pages in the current look
	bytes  atomic.Int64 // in the last one
}

// step collapses pages for hugeStep, and returns when to call it again. The heap has heap bytes.
func (h *hugePages) step(heap int64) time.Duration {
	if len(h.left) == 0 {
		if heap < leastHuge {
			return hugeEvery
		}
		text, err := h.maps()
		if err != nil {
			return hugeEvery
		}
		h.left, h.huge = heapSpans(text, reflect.ValueOf(h).Pointer()), 0
	}
	for began := h.now(); h.now().Sub(began) < hugeStep; {
		page, ok := h.next()
		if !ok {
			h.bytes.Store(h.huge)
			return hugeEvery
		}
		h.try(page)
	}
	return hugePause
}

// next takes the next huge page from the rest of the heap.
func (h *hugePages) next() (page span, ok bool) {
	for ; len(h.left) > 0; h.left = h.left[1:] {
		s := &h.left[0]
		from := (s.from + h.page - 1) / h.page * h.page
		if s.from = from + h.page; s.from <= s.to {
			return span{from, s.from}, true
		}
	}
	return span{}, false
}

func (h *hugePages) try(page span) {
	if h.failed == hugeTries || !h.whole(page) {
		return
	}
	if h.collapse(page) == nil {
		h.huge += int64(h.page)
		h.some = true
	} else if !h.some {
		h.failed++ // this kernel cannot do it
	}
}

// run works until ctx ends.
func (h *hugePages) run(ctx context.Context) {
	if h.page == 0 {
		return
	}
	next := time.NewTimer(hugeEvery)
	defer next.Stop()
	samples := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	for {
		select {
		case <-ctx.Done():
			return
		case <-next.C:
		}
		metrics.Read(samples)
		next.Reset(h.step(int64(samples[0].Value.Uint64())))
	}
}

// heapSpans returns the memory of the Go heap, of which object is one address, from the text of a maps file. The runtime
// reserves the heap in arenas, one after the other, and makes them usable from below. So the heap is the anonymous
// mappings around object without a gap between them. Source: proc_pid_maps(5).
func heapSpans(maps []byte, object uintptr) (heap []span) {
	run, found := span{}, false
	for lines := bufio.NewScanner(bytes.NewReader(maps)); lines.Scan(); {
		var m span
		var mode, offset, device, name string
		var inode uint64
		n, _ := fmt.Sscanf(lines.Text(), "%x-%x %s %s %s %d %s", &m.from, &m.to, &mode, &offset, &device, &inode, &name)
		anonymous := n >= 6 && inode == 0 && strings.HasSuffix(mode, "p") && (name == "" || strings.HasPrefix(name, "[anon:"))
		if !anonymous || m.from != run.to {
			if found {
				return heap
			}
			run, heap = span{m.from, m.from}, nil
		}
		if !anonymous {
			continue
		}
		run.to = m.to
		found = found || m.from <= object && object < m.to
		if !strings.HasPrefix(mode, "rw") {
			continue
		}
		if last := len(heap) - 1; last >= 0 && heap[last].to == m.from {
			heap[last].to = m.to
		} else {
			heap = append(heap, m)
		}
	}
	if !found {
		return nil
	}
	return heap
}

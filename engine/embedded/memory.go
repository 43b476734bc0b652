package embedded

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"runtime"
	"runtime/metrics"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/skerrydb/skerry/engine"
)

// A read holds its snapshot, and with it the memory of everything that was overwritten
// or deleted since. This file records the reads in progress. Once a second sweep looks
// for those that take long: it logs them, and ends those that hold much for very long.
// If they hold so much that the process could run out of memory, writes are refused.

// Limits of reads.
const (
	LongHold = 10 * time.Minute // after which a read in progress is logged
	MaxHold  = time.Hour        // after which a read is ended if it may hold more than MemoryBytes/heldShare
)

const (
	heldShare = 4

	// overwriteFactor is about how many bytes of memory a snapshot holds for each byte
	// of log after it. A write replaces at most the part of the tree that has its key,
	// of some kilobytes, and takes at least some dozens of bytes in the log.
	overwriteFactor = 64

	// holdStripes is the number of locks that reads share.
	holdStripes = 16
)

// holder is one read in progress.
type holder struct {
	kind       holdKind
	stripe     uint8
	logged     bool
	ended      atomic.Bool // the read must fail when it continues
	snap       *snapshot
	fn         func(engine.Tx) error // of a View
	since      time.Time             // when sweep first saw it; zero: not yet
	written    uint64                // bytes written to the log when it began
	prev, next *holder
}

type holdKind uint8

const (
	holdView holdKind = iota
	holdBackup
	holdSave // a snapshot file being written
)

// String describes the read to operators.
func (h *holder) String() string {
	switch h.kind {
	case holdView:
		return "a read by " + runtime.FuncForPC(reflect.ValueOf(h.fn).Pointer()).Name()
	case holdBackup:
		return "a backup"
	case holdSave:
		return "a snapshot being written to disk"
	}
	panic(fmt.Sprintf("BUG: holder of kind %d", h.kind))
}

// over returns an error if the read must end. A nil holder has no end.
func (h *holder) over() error {
	if h == nil || !h.ended.Load() {
		return nil
	}
	return engine.Errorf(engine.CodeUnavailable, "the read was ended: it has held old data in memory for too long; start it again")
}

// holds is all reads in progress.
type holds struct{ stripes [holdStripes]holdStripe }

type holdStripe struct {
	mu    sync.Mutex // guards first, and of the holders in its list snap, logged, since, prev and next
	first *holder
	_     [64]byte // stripes do not share a cache line
}

// begin records that a read has begun.
func (db *DB) begin(h *holder) {
	h.written = db.counts.batchBytes.Load()
	db.holds.add(h)
}

func (a *holds) add(h *holder) {
	h.stripe = uint8(rand.Uint32N(holdStripes)) //nolint:gosec // any stripe is right
	s := &a.stripes[h.stripe]
	s.mu.Lock()
	if h.next = s.first; h.next != nil {
		h.next.prev = h
	}
	s.first = h
	s.mu.Unlock()
}

func (a *holds) remove(h *holder) {
	s := &a.stripes[h.stripe]
	s.mu.Lock()
	if h.next != nil {
		h.next.prev = h.prev
	}
	if h.prev != nil {
		h.prev.next = h.next
	} else {
		s.first = h.next
	}
	h.prev, h.next, h.snap = nil, nil, nil // the function may keep its Tx
	s.mu.Unlock()
}

// heldReads summarizes the reads that have lasted for more than a moment.
type heldReads struct {
	reads  int
	oldest time.Duration
	bytes  int64 // that they hold at most, about
}

// longRead is what sweep needs to know of a holder after it has released the lock.
type longRead struct {
	h     *holder
	snap  *snapshot
	age   time.Duration
	bytes int64
	log   bool
}

// long returns the reads in progress that the last call has seen too, the oldest first.
func (a *holds) long(now time.Time, written uint64) (all []longRead) {
	for i := range a.stripes {
		s := &a.stripes[i]
		s.mu.Lock()
		for h := s.first; h != nil; h = h.next {
			if h.since.IsZero() {
				h.since = now
				continue
			}
			l := longRead{h: h, snap: h.snap, age: now.Sub(h.since)}
			l.bytes = min(h.snap.tree.Memory(), int64(written-h.written)*overwriteFactor)
			l.log = l.age >= LongHold && !h.logged
			h.logged = h.logged || l.log
			all = append(all, l)
		}
		s.mu.Unlock()
	}
	slices.SortFunc(all, func(a, b longRead) int { return int(b.age - a.age) })
	return all
}

// sweep looks at the reads in progress.
func (db *DB) sweep() {
	all := db.holds.long(db.opts.mono(), db.counts.batchBytes.Load())
	sum, bySnapshot := heldReads{reads: len(all)}, map[*snapshot]int64{}
	for _, l := range all {
		sum.oldest = max(sum.oldest, l.age)
		bySnapshot[l.snap] = max(bySnapshot[l.snap], l.bytes)
		if l.log {
			db.opts.Logger.Warn("a read has held its snapshot for long; memory of data that is overwritten cannot be freed",
				"what", l.h.String(), "for", l.age.Round(time.Second), "position", l.snap.pos, "holds_bytes_at_most", l.bytes)
		}
		if l.age >= MaxHold && l.bytes > db.opts.MemoryBytes/heldShare {
			db.endRead(l)
		}
	}
	for _, n := range bySnapshot {
		sum.bytes += n
	}
	db.held.Store(&sum)
	db.relieve(all, sum)
}

// endRead makes a read fail when it continues.
func (db *DB) endRead(l longRead) {
	if l.h.kind == holdSave || l.h.ended.Swap(true) {
		return
	}
	db.opts.Logger.Error("a read is ended because it holds too much memory",
		"what", l.h.String(), "for", l.age.Round(time.Second), "position", l.snap.pos, "holds_bytes_at_most", l.bytes)
}

// relieve ends the oldest read and refuses writes while reads hold so much memory that
// the process takes more than twice the limit. Both must hold: what they hold is an
// estimate, and the heap may have other users.
func (db *DB) relieve(all []longRead, sum heldReads) {
	x := db.exec
	if sum.bytes <= db.opts.MemoryBytes || db.opts.liveHeap() <= 2*db.opts.MemoryBytes {
		if x.pressed.Swap(nil) != nil {
			db.opts.Logger.Info("writes are accepted again")
		}
		return
	}
	oldest := all[0]
	why := engine.Errorf(engine.CodeMemoryFull, "reads in progress hold more old data than the memory limit of %d bytes allows; the oldest is %v, for %v; nothing was written",
		db.opts.MemoryBytes, oldest.h, oldest.age.Round(time.Second))
	if x.pressed.Swap(why) == nil {
		db.opts.Logger.Error("writes are refused until reads in progress have ended, which hold too much memory",
			"oldest", oldest.h.String(), "for", oldest.age.Round(time.Second), "reads", sum.reads, "hold_bytes_at_most", sum.bytes)
	}
	db.endRead(oldest)
}

// liveHeap returns the bytes of this process that the garbage collector last found
// alive.
func liveHeap() int64 {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	return int64(sample[0].Value.Uint64()) //nolint:gosec // less than the address space
}

// memoryMetrics returns the metrics of memory.
func (db *DB) memoryMetrics() []engine.Metric {
	h := db.held.Load()
	if h == nil {
		h = &heldReads{}
	}
	refusing := 0
	if db.exec.pressed.Load() != nil {
		refusing = 1
	}
	db.exec.mu.Lock()
	tree := db.exec.size
	db.exec.mu.Unlock()
	return []engine.Metric{
		gauge("engine_tree_bytes", "Memory of the newest state: keys, values, the next two, and the tree itself.", tree.Allocated),
		gauge("engine_tree_dead_bytes", "Overwritten and deleted data in it, which goes when its part of the tree is written anew.", tree.Dead),
		gauge("engine_tree_room_bytes", "Room in it for further data, with what the allocator rounds up.", tree.Room),
		gauge("engine_history_bytes", "Memory of the committed changes kept for watches and followers.", db.history.size()),
		gauge("engine_held_snapshots", "Reads, backups and snapshots that have been in progress for more than a second.", h.reads),
		gauge("engine_held_snapshot_oldest_seconds", "How long the oldest of them has been in progress.", h.oldest.Seconds()),
		gauge("engine_held_bytes", "Memory of overwritten and deleted data that they hold, at most.", h.bytes),
		gauge("engine_held_refusing", "1 if writes are refused because they hold too much memory.", refusing),
	}
}

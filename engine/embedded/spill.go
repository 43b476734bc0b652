package embedded

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/skerrydb/skerry/btree"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/journal"
	"github.com/skerrydb/skerry/spill"
)

// valueDir is the folder of the value files inside the data folder, do not change.
const valueDir = "vals"

const (
	// spillStep is how many bytes of values are moved to a file at a time. It bounds how
	// long transactions wait for the copying, and what is not spilled yet beside
	// spillEvery.
	spillStep = 1 << 20

	// spillEvery is how long values wait if they are less than spillStep.
	spillEvery = time.Second

	// compactPause is the least time between two steps of a compaction.
	compactPause = 5 * time.Millisecond
)

// spiller moves values that are longer than limit from the tree to value files, in the
// background, and compacts the files. A committed value is in the log and in memory; a
// step of the spiller is
//
//	copy     the values, in the runner's role
//	flush    to a value file, and sync it
//	swap     each value for its reference, in the runner's role, if the tree still has it
//
// A reference becomes durable with the next snapshot file. Until then a restart finds the
// whole value in the log or in the older snapshot.
//
// Values that are still to be moved are found by their keys in due, which grows with each
// commit, and by looking at all keys after a start and after the loss of a batch that had
// overwritten such a value.
type spiller struct {
	exec  *executor
	store *spill.Store
	w     *spill.Writer
	opts  Options
	limit int                                           // bytes; 0: nothing is spilled
	fetch func(key []byte, r spill.Ref) ([]byte, error) // another node's copy of a value; nil: there is no other node

	mu     sync.Mutex           // guards the fields below
	due    map[string]struct{}  // keys that may have a value to move
	bytes  int                  // of their values
	all    bool                 // all keys must be looked at
	plan   []uint32             // files to compact
	ailing map[string]spill.Ref // damaged values, by key
	came   map[string][]uint32  // value files of received snapshots that are not installed
	// suspect are the files that were damaged at the start, until look has passed all keys
	// from from on. Only the background goroutine changes it.
	suspect map[uint32]bool

	wake  chan struct{}
	stop  chan struct{}
	ended sync.WaitGroup

	began                     bool
	from                      []byte      // where look continues
	stuck                     bool        // the last attempt to heal failed
	failing                   atomic.Bool // the last step failed
	spilled, spilledBytes     atomic.Uint64
	compacted, compactedBytes atomic.Uint64
	reads, bad, healed        atomic.Uint64
	live                      atomic.Pointer[spill.Use] // as of the last snapshot file
}

func newSpiller(o Options, store *spill.Store) *spiller {
	s := &spiller{
		store: store, w: store.NewWriter(), opts: o, limit: int(o.SpillBytes), all: o.SpillBytes > 0,
		due: map[string]struct{}{}, came: map[string][]uint32{}, ailing: map[string]spill.Ref{}, suspect: map[uint32]bool{}, wake: make(chan struct{}, 1), stop: make(chan struct{}),
	}
	s.live.Store(&spill.Use{})
	return s
}

// values returns the files as they are now.
func (s *spiller) values() *values { return &values{set: s.store.Set(), s: s} }

// start begins the background work.
func (s *spiller) start(x *executor) {
	s.exec, s.began = x, true
	s.ended.Go(s.loop)
	s.kick()
}

// close ends the background work. The files stay open.
func (s *spiller) close() {
	if s.began {
		close(s.stop)
		s.ended.Wait()
	}
}

func (s *spiller) kick() {
	select {
	case s.wake <- struct{}{}:
	default: // it will be looked at
	}
}

// note records the values to move of a committed batch.
func (s *spiller) note(batch []byte) {
	if s.limit == 0 || len(batch) <= s.limit {
		return
	}
	for c, err := range changes(batch) {
		if err != nil {
			panic("BUG: a committed batch does not decode: " + err.Error())
		}
		for _, w := range c.Writes {
			if len(w.Val) > s.limit {
				s.add(w.Key, len(w.Val))
			}
		}
	}
}

// add makes a key due. size is that of its value.
func (s *spiller) add(key []byte, size int) {
	s.mu.Lock()
	s.due[string(key)] = struct{}{}
	s.bytes += size
	full := s.bytes >= spillStep || s.opts.spillSoon
	s.mu.Unlock()
	if full {
		s.kick()
	}
}

// lookAtAll makes all keys due.
func (s *spiller) lookAtAll() {
	if s.limit == 0 {
		return
	}
	s.mu.Lock()
	s.all = true
	s.mu.Unlock()
	s.kick()
}

func (s *spiller) loop() {
	tick := time.NewTicker(spillEvery)
	defer tick.Stop()
	for {
		select {
		case <-s.stop:
			return
		case <-s.wake:
		case <-tick.C:
		}
		for healed := s.heal(); s.look() && healed; {
			healed = s.heal()
		}
		err := s.work()
		if was := s.failing.Swap(err != nil); err != nil && !was {
			s.opts.Logger.Error("values could not be moved to files and stay where they are; it will be retried", "err", err)
		}
		if err == nil {
			continue
		}
		select { // what failed is due again at once
		case <-s.stop:
			return
		case <-tick.C:
		}
	}
}

// ending reports whether close was called.
func (s *spiller) ending() bool {
	select {
	case <-s.stop:
		return true
	default:
		return false
	}
}

// work does everything that is due.
func (s *spiller) work() error {
	s.mu.Lock()
	due, all := s.due, s.all
	s.due, s.bytes, s.all = map[string]struct{}{}, 0, false
	s.mu.Unlock()
	err := s.moveAll(due)
	if err == nil && all {
		err = s.lookThrough()
	}
	if err != nil {
		s.mu.Lock()
		for key := range due {
			s.due[key] = struct{}{}
		}
		s.all = s.all || all
		s.mu.Unlock()
		return err
	}
	return s.compact()
}

// moveAll moves the values of keys, in steps.
func (s *spiller) moveAll(due map[string]struct{}) error {
	for len(due) > 0 && !s.ending() {
		var keys [][]byte
		for key := range due {
			if keys = append(keys, []byte(key)); len(keys) == maxChunk {
				break
			}
		}
		done, err := s.move(keys)
		if err != nil {
			return err
		}
		for _, key := range keys[:done] {
			delete(due, string(key))
		}
	}
	return nil
}

// lookThrough moves the values of all keys.
func (s *spiller) lookThrough() error {
	for from := []byte(nil); !s.ending(); {
		keys, next := s.longFrom(from)
		for len(keys) > 0 {
			done, err := s.move(keys)
			if err != nil {
				return err
			}
			keys = keys[done:]
		}
		if next == nil {
			return nil
		}
		from = next
	}
	return nil
}

// longFrom returns some keys from the given one on with values to move, and the key to
// continue from, nil at the end.
func (s *spiller) longFrom(from []byte) (keys [][]byte, next []byte) {
	total := 0
	next = s.scan(from, func(key []byte, val btree.Value) bool {
		if !val.Marked && len(val.Bytes) > s.limit {
			keys = append(keys, bytes.Clone(key))
			total += len(val.Bytes)
		}
		return total < spillStep && len(keys) < maxChunk
	})
	return keys, next
}

// lookKeys is how many keys are looked at while transactions wait.
const lookKeys = 4096

// scan calls look with the next keys from the given one on, while transactions wait, until
// it returns false. It returns the key to continue from, nil at the end.
func (s *spiller) scan(from []byte, look func(key []byte, val btree.Value) (more bool)) (next []byte) {
	s.exec.withTree(func(x *speculation) {
		looked := 0
		for key, val := range x.tree.Ascend(from, nil) {
			if looked == lookKeys {
				next = bytes.Clone(key)
				return
			}
			if looked++; !look(key, val) {
				next = append(bytes.Clone(key), 0)
				return
			}
		}
	})
	return next
}

// moved is a value on its way to a file.
type moved struct {
	key []byte
	was btree.Value // in the tree
}

// move moves the values of the first keys, up to spillStep bytes, and returns how many
// keys those are.
func (s *spiller) move(keys [][]byte) (done int, err error) {
	var out []moved
	s.exec.withTree(func(x *speculation) {
		total := 0
		for _, key := range keys {
			if val, ok := x.tree.Get(key); ok && !val.Marked && len(val.Bytes) > s.limit {
				out = append(out, moved{key, btree.Value{Bytes: bytes.Clone(val.Bytes)}})
				total += len(val.Bytes)
			}
			if done++; total >= spillStep {
				return
			}
		}
	})
	total := 0
	for _, m := range out {
		total += len(m.was.Bytes)
		if err := s.w.Add(m.key, m.was.Bytes); err != nil {
			s.w.Reset()
			return 0, err
		}
	}
	if err := s.place(out); err != nil {
		return 0, fmt.Errorf("spill values: %w", err)
	}
	s.spilled.Add(uint64(len(out)))
	s.spilledBytes.Add(uint64(total))
	return done, nil
}

// place flushes the writer, which has one value for each of out, and replaces each in the
// tree by its reference, unless the tree has another value by now.
func (s *spiller) place(out []moved) error {
	if len(out) == 0 {
		return nil
	}
	refs, err := s.w.Flush()
	if err != nil {
		return err
	}
	s.exec.withTree(func(x *speculation) {
		x.vals = s.values()
		for i, m := range out {
			if now, ok := x.tree.Get(m.key); ok && now.Equal(m.was) {
				x.swap(m.key, m.was, btree.Value{Bytes: refs[i].Append(nil), Marked: true})
			}
		}
	})
	if s.w.Full() {
		s.w.Seal() // all references to it are in the tree
	}
	return nil
}

// swap replaces a value by another form of itself: no transaction sees a difference.
func (x *speculation) swap(key []byte, was, now btree.Value) {
	x.tree.Set(key, now)
	x.bytes += size(key, len(now.Bytes)) - size(key, len(was.Bytes))
	x.shown = unseen
}

// unseen is the position of no clone: the tree has changed since the last one, without a
// transaction.
const unseen = ^engine.Position(0)

// saved accounts for a snapshot file, the only one in the folder now. It removes the
// value files that nothing refers to any more, and plans which to compact.
func (s *spiller) saved(set *spill.Set, uses spill.Uses) error {
	total := uses.Total()
	s.live.Store(&total)
	err := s.store.Drop(set.Unused(uses)...)
	s.mu.Lock()
	s.plan = set.Plan(uses)
	due := len(s.plan) > 0
	s.mu.Unlock()
	if due {
		s.kick()
	}
	return err
}

// compact moves the values that are still used from the planned files to the current
// one, in steps. The files are removed when a snapshot without them has been saved.
func (s *spiller) compact() error {
	for {
		s.mu.Lock()
		if len(s.plan) == 0 || s.ending() {
			s.mu.Unlock()
			return nil
		}
		file := s.plan[0]
		s.mu.Unlock()
		err := s.compactFile(file)
		if _, corrupt := errors.AsType[*journal.CorruptError](err); err != nil && !corrupt {
			return fmt.Errorf("compact value file %d: %w", file, err)
		} else if corrupt { // the file stays: what it has is not lost
			s.opts.Logger.Error("a value file could not be compacted", "err", err)
		}
		s.mu.Lock()
		if len(s.plan) > 0 && s.plan[0] == file {
			s.plan = slices.Delete(s.plan, 0, 1)
		}
		s.mu.Unlock()
		s.compacted.Add(1)
	}
}

func (s *spiller) compactFile(file uint32) error {
	set := s.store.Set()
	for at := int64(0); !s.ending(); {
		began := time.Now()
		recs, next, err := set.Records(file, at, spillStep)
		if err != nil {
			return err
		}
		if err := s.rescue(set, recs); err != nil {
			return err
		}
		if at = next; next == 0 {
			return nil
		}
		select { // at most half of the time is spent here
		case <-s.stop:
		case <-time.After(max(compactPause, time.Since(began))):
		}
	}
	return nil
}

// rescue moves those of the records that the tree refers to.
func (s *spiller) rescue(set *spill.Set, recs []spill.Record) error {
	var out, kept []moved
	var refs []spill.Ref
	s.exec.withTree(func(x *speculation) {
		for _, r := range recs {
			was := btree.Value{Bytes: r.Ref.Append(nil), Marked: true}
			if now, ok := x.tree.Get(r.Key); ok && now.Equal(was) {
				out, refs = append(out, moved{r.Key, was}), append(refs, r.Ref)
			}
		}
	})
	total := 0
	for i, m := range out {
		val, err := set.Read(m.key, refs[i])
		if _, corrupt := errors.AsType[*journal.CorruptError](err); corrupt {
			s.damaged(m.key, refs[i], err) // and stays where it is
			continue
		}
		if err == nil {
			err = s.w.Add(m.key, val)
		}
		if err != nil {
			s.w.Reset()
			return err
		}
		kept = append(kept, m)
		total += len(val)
	}
	if err := s.place(kept); err != nil {
		return err
	}
	s.compactedBytes.Add(uint64(total))
	return nil
}

// metrics returns the metrics of value files; none if there is no such file and none is
// wanted.
func (s *spiller) metrics() []engine.Metric {
	set, live := s.store.Set(), s.live.Load()
	if s.limit == 0 && set.Len() == 0 {
		return nil
	}
	s.mu.Lock()
	waiting, plan := s.bytes, len(s.plan)
	s.mu.Unlock()
	failing := 0
	if s.failing.Load() {
		failing = 1
	}
	return []engine.Metric{
		gauge("engine_spill_files", "Value files.", set.Len()),
		gauge("engine_spill_file_bytes", "Bytes of value files.", set.Bytes()),
		gauge("engine_spill_values", "Values in files, as of the newest snapshot file.", live.Values),
		gauge("engine_spill_live_bytes", "Bytes of value files that the newest snapshot file uses. The rest is dead or newer.", live.Bytes),
		gauge("engine_spill_waiting_bytes", "Bytes of long values in memory that will be moved to files.", waiting),
		gauge("engine_spill_waiting_compactions", "Value files that will be compacted.", plan),
		gauge("engine_spill_failing", "1 if values could not be moved to files the last time; they stay in memory and in the log.", failing),
		counted("engine_spill_moved_values_total", "Values moved to files.", s.spilled.Load()),
		counted("engine_spill_moved_bytes_total", "Bytes of those values.", s.spilledBytes.Load()),
		counted("engine_spill_reads_total", "Values read from files.", s.reads.Load()),
		counted("engine_spill_damaged_reads_total", "Reads of values in files that failed: damaged or unreadable.", s.bad.Load()),
		counted("engine_spill_healed_values_total", "Damaged values replaced by another node's copy.", s.healed.Load()),
		counted("engine_spill_compactions_total", "Value files compacted.", s.compacted.Load()),
		counted("engine_spill_compacted_bytes_total", "Bytes of values moved by compactions.", s.compactedBytes.Load()),
	}
}

// openValues opens the folder of value files with those that a state uses. If other nodes
// have copies, damaged files are no error: their values will be replaced.
func (db *DB) openValues(state *snapshot) error {
	store, err := spill.Open(db.opts.FS, filepath.Join(db.dir, valueDir), db.opts.valueFileBytes)
	if err != nil {
		return err
	}
	damaged := map[uint32]error{}
	if !db.offline && db.id != nil && state.roster != nil && len(state.roster.Nodes) > 1 {
		damaged, err = store.Salvage(state.uses)
	} else if err = store.Attach(state.uses); err != nil {
		err = fmt.Errorf("%w; put the file back from a copy, or restore a backup", err)
	}
	if err != nil {
		return errors.Join(err, store.Close())
	}
	db.spill = newSpiller(db.opts, store)
	for n, err := range damaged {
		db.opts.Logger.Error("a value file is damaged; other nodes' copies will replace its values", "err", err)
		db.spill.suspect[n] = true
	}
	total := state.uses.Total()
	db.spill.live.Store(&total)
	return nil
}

// closeValues closes the value files, if they are open.
func (db *DB) closeValues() error {
	if db.spill == nil {
		return nil
	}
	return db.spill.store.Close()
}

// cleanValues removes what an earlier process left unfinished. Only the given snapshot
// file refers to value files afterwards.
func (db *DB) cleanValues(name string) error {
	if db.offline {
		return nil
	}
	names, err := snapshots(db.opts.FS, db.dir)
	if err != nil {
		return err
	}
	for _, n := range names {
		if n < name {
			if err := db.opts.FS.Remove(n); err != nil {
				return fmt.Errorf("remove old snapshot: %w", err)
			}
		}
	}
	if err := db.spill.store.Clean(); err != nil && !journal.Passing(err) {
		return err
	}
	return nil
}

package resp

import (
	"bytes"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/kv"
)

// tracking is a connection's settings from CLIENT TRACKING. serve owns it; the tracker uses
// only the session.
type tracking struct {
	on       bool
	bcast    bool
	optin    bool
	optout   bool
	noloop   bool
	caching  bool // CLIENT CACHING was sent for the next command
	broken   bool // as last shown; session has the current state
	redirect int64
	prefixes []string // sorted
	session  *session
}

// session is one period of tracking of one connection. Its settings are never modified:
// another CLIENT TRACKING ON creates a new session that takes over the keys.
type session struct {
	c        *conn
	target   int64 // connection that receives the invalidations; 0: c itself
	bcast    bool
	noloop   bool
	prefixes []string

	mu        sync.Mutex // guards the fields below
	broken    bool
	own       map[int64]struct{} // times of the connection's own recent writes, in microseconds
	ring      []int64            // the same; next is the oldest
	next      int
	buffering bool // a write is being forwarded, so the connection's own changes are not known yet
	buffered  []keyChange
}

// keyChange is a change of keys that the session may have made itself.
type keyChange struct {
	keys [][]byte
	at   time.Time
}

// ownWrites is how many of its own writes a session with NOLOOP remembers. Older ones are
// reported as if another client had made them.
const ownWrites = 4096

// maxBuffered bounds the changes that are buffered while a write is forwarded. Further ones are
// reported as if another client had made them.
const maxBuffered = 4096

// wrote records a write of the connection, so that NOLOOP can recognize it. It is called
// before the write is committed, even if the commit then fails.
func (t *tracking) wrote(at time.Time) { t.wroteMicro(at.UnixMicro()) }

func (t *tracking) wroteMicro(us int64) {
	s := t.session
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.own[us]; ok {
		return
	}
	if len(s.ring) < ownWrites {
		s.ring = append(s.ring, us)
	} else {
		delete(s.own, s.ring[s.next])
		s.ring[s.next] = us
		s.next = (s.next + 1) % ownWrites
	}
	s.own[us] = struct{}{}
}

// mine reports whether a change must not be reported now: the session made it, or whether
// it did is not known yet. In the second case the change is buffered.
func (s *session) mine(keys [][]byte, at time.Time) bool {
	if !s.noloop {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.own[at.UnixMicro()]; ok {
		return true
	}
	if s.buffering && len(s.buffered) < maxBuffered {
		s.buffered = append(s.buffered, keyChange{keys, at})
		return true
	}
	return false
}

// bufferChanges begins to buffer changes until it is known who made them.
func (t *tracking) bufferChanges() {
	if t.noloop {
		t.session.mu.Lock()
		t.session.buffering = true
		t.session.mu.Unlock()
	}
}

// releaseBuffered reports the buffered changes that the connection did not make itself.
func (c *conn) releaseBuffered() {
	if !c.track.noloop {
		return
	}
	s, tr := c.track.session, &c.srv.tracker
	tr.mu.Lock()
	defer tr.mu.Unlock()
	s.mu.Lock()
	buffered := s.buffered
	s.buffering, s.buffered = false, nil
	s.mu.Unlock()
	for _, n := range buffered {
		if !s.mine(n.keys, n.at) {
			tr.invalidate(s, n.keys)
		}
	}
}

// notes reports whether the keys that cmd reads are tracked.
func (t *tracking) notes(cmd *command) bool {
	if t.bcast || t.optin && !t.caching || t.optout && t.caching {
		return false
	}
	return cmd.kind == kindExec || reads(cmd)
}

func reads(cmd *command) bool {
	return (cmd.kind == kindRead || cmd.kind == kindScan) && cmd.flags&flagUntrack == 0
}

// noteBefore announces the keys that the ops from i on are about to read, so that a
// concurrent change is not missed.
func (c *conn) noteBefore(i int) {
	if !c.track.on || c.track.bcast {
		return
	}
	tr := &c.srv.tracker
	tr.mu.Lock()
	defer tr.mu.Unlock()
	for ; i < len(c.ops); i++ {
		c.ops[i].eachRead(func(key []byte) bool {
			tr.begin(c.track.session, key)
			return true
		})
	}
}

// noteAfter records what the ops in [from, to) have read. The last of them saw the state at
// pos. An earlier one saw a state at most as many transactions before pos as there are
// writes between them.
func (c *conn) noteAfter(from, to int, pos engine.Position) {
	if !c.track.on || c.track.bcast {
		return
	}
	tr := &c.srv.tracker
	tr.mu.Lock()
	defer tr.mu.Unlock()
	for i := to - 1; i >= from; i-- {
		c.ops[i].eachRead(func(key []byte) bool {
			tr.confirm(c.track.session, key, pos)
			return true
		})
		if c.ops[i].write && pos > 0 {
			pos--
		}
	}
	tr.trim()
}

// eachRead calls fn for the keys that o reads and that are tracked for the client.
func (o *op) eachRead(fn func(key []byte) bool) {
	if !o.note {
		return
	}
	if !o.exec {
		o.cmd.eachKey(o.args, fn)
		return
	}
	for _, q := range o.queue {
		if reads(q.cmd) {
			q.cmd.eachKey(q.args, fn)
		}
	}
}

// interest is one session's interest in one key. Since the last invalidation, the
// client may have cached any version that it has read: those from first to last.
type interest struct {
	s           *session
	known       bool // it has read the key
	first, last engine.Position

	reading bool            // it is reading the key now
	changed engine.Position // the last change since it began to read
}

// tracker records which connection has read which key, and pushes invalidations. It learns
// of changes only from the feed, so it does not matter which node or face made them. Keys
// are tracked by name, regardless of their database, as in Redis.
type tracker struct {
	srv     *Server
	running sync.WaitGroup // of run

	at atomic.Uint64 // all changes up to it have been reported to clients; written under mu

	mu     sync.Mutex // guards the fields below; taken before session.mu and pushQueue.mu
	keys   map[string][]interest
	on     map[*session]struct{}
	bcast  map[*session]struct{}
	stop   chan struct{} // ends run; nil: it is not running
	closed bool

	settling []settled // replies that wait for at
}

func (tr *tracker) init(s *Server) {
	tr.srv = s
	tr.keys = map[string][]interest{}
	tr.on = map[*session]struct{}{}
	tr.bcast = map[*session]struct{}{}
}

// start registers a session and follows the feed if it is the first.
func (tr *tracker) start(s *session) error {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	if tr.closed {
		return engine.ErrClosed
	}
	if tr.stop == nil {
		sub, from, err := tr.subscribe()
		if err != nil {
			return err
		}
		tr.at.Store(uint64(from))
		tr.stop = make(chan struct{})
		stop := tr.stop
		tr.running.Go(func() { tr.run(sub, stop) })
	}
	tr.on[s] = struct{}{}
	tr.markReceiver(s)
	if s.bcast {
		tr.bcast[s] = struct{}{}
	}
	return nil
}

// replace lets the session next take over the keys of old.
func (tr *tracker) replace(old, next *session) error {
	if err := tr.start(next); err != nil {
		return err
	}
	tr.mu.Lock()
	defer tr.mu.Unlock()
	delete(tr.on, old)
	delete(tr.bcast, old)
	for _, list := range tr.keys {
		for i := range list {
			if list[i].s == old {
				list[i].s = next
			}
		}
	}
	return nil
}

// end removes a session. Its keys are removed when they change or when room is needed.
func (tr *tracker) end(s *session) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	delete(tr.on, s)
	delete(tr.bcast, s)
	if len(tr.on) == 0 {
		clear(tr.keys)
		tr.unfollow()
	}
}

// unfollow ends run. The caller holds mu.
func (tr *tracker) unfollow() {
	if tr.stop != nil {
		close(tr.stop)
		tr.stop = nil
		tr.release(^engine.Position(0))
	}
}

// drop removes a connection that has ended.
func (tr *tracker) drop(c *conn) {
	if s := c.track.session; s != nil {
		tr.end(s)
	}
}

func (tr *tracker) close() {
	tr.mu.Lock()
	tr.closed = true
	tr.unfollow()
	tr.mu.Unlock()
	tr.running.Wait()
}

// begin records that s is about to read key. The caller holds mu.
func (tr *tracker) begin(s *session, key []byte) {
	list := tr.keys[string(key)]
	for i := range list {
		if list[i].s == s {
			list[i].reading = true
			return
		}
	}
	tr.keys[string(key)] = append(list, interest{s: s, reading: true})
}

// confirm records that s has read key in the state at pos. The caller holds mu.
func (tr *tracker) confirm(s *session, key []byte, pos engine.Position) {
	list := tr.keys[string(key)]
	i := slices.IndexFunc(list, func(in interest) bool { return in.s == s })
	if i < 0 || !list[i].reading {
		return
	}
	in := &list[i]
	if in.changed > pos {
		tr.disown(s, key)
		return
	}
	if !in.known {
		in.known, in.first = true, pos
	}
	in.last = max(in.last, pos)
	in.reading, in.changed = false, 0
}

// disown invalidates key for s, whose copy may be old. The caller holds mu.
func (tr *tracker) disown(s *session, key []byte) {
	list := tr.keys[string(key)]
	i := slices.IndexFunc(list, func(in interest) bool { return in.s == s })
	if i < 0 {
		return
	}
	tr.keep(string(key), slices.Delete(list, i, i+1))
	tr.invalidate(s, [][]byte{key})
}

// keep replaces the interests in key. The caller holds mu.
func (tr *tracker) keep(key string, list []interest) {
	if len(list) == 0 {
		delete(tr.keys, key)
	} else {
		tr.keys[key] = list
	}
}

// change reports one committed transaction to all sessions that it concerns.
func (tr *tracker) change(c engine.Change) {
	var keys [][]byte
	for e := range kv.Events(c) {
		if int(e.Space) < tr.srv.opts.Databases {
			keys = append(keys, e.Key)
		}
	}
	if len(keys) == 0 {
		return
	}
	tr.mu.Lock()
	defer tr.mu.Unlock()
	for _, key := range keys {
		tr.changeKey(key, c)
	}
	slices.SortFunc(keys, bytes.Compare)
	for s := range tr.bcast {
		for _, p := range s.prefixes {
			var under [][]byte
			for _, key := range keys {
				if bytes.HasPrefix(key, []byte(p)) {
					under = append(under, key)
				}
			}
			if len(under) > 0 && !s.mine(under, c.Time) {
				tr.invalidate(s, under)
			}
		}
	}
}

func (tr *tracker) changeKey(key []byte, c engine.Change) {
	list, ok := tr.keys[string(key)]
	if !ok {
		return
	}
	kept := list[:0]
	for _, in := range list {
		if _, live := tr.on[in.s]; live && in.change(tr, key, c) {
			kept = append(kept, in)
		}
	}
	clear(list[len(kept):])
	tr.keep(string(key), kept)
}

// change reports a change of key to the session if the client may have cached an older
// version. It returns whether the interest remains, because the session may have read, or
// be reading, a newer version.
func (in *interest) change(tr *tracker, key []byte, c engine.Change) bool {
	if in.reading {
		in.changed = max(in.changed, c.Pos)
	}
	if in.known && c.Pos > in.first {
		if keys := [][]byte{key}; !in.s.mine(keys, c.Time) {
			tr.invalidate(in.s, keys)
		}
		in.known = c.Pos <= in.last
		in.first = in.last
	}
	return in.known || in.reading
}

// trim removes keys over the limit and invalidates them for the sessions that track them.
// The caller holds mu.
func (tr *tracker) trim() {
	for key, list := range tr.keys {
		if len(tr.keys) <= MaxTrackedKeys {
			return
		}
		if slices.ContainsFunc(list, tr.isReading) {
			continue
		}
		delete(tr.keys, key)
		for _, in := range list {
			if _, live := tr.on[in.s]; live {
				tr.invalidate(in.s, [][]byte{[]byte(key)})
			}
		}
	}
}

func (tr *tracker) isReading(in interest) bool {
	_, live := tr.on[in.s]
	return live && in.reading
}

// flushed invalidates all keys for all tracking clients, because the database was emptied or
// changes were missed.
func (tr *tracker) flushed() {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	for key, list := range tr.keys {
		kept := list[:0]
		for _, in := range list {
			if tr.isReading(in) {
				in.known, in.changed = false, ^engine.Position(0)
				kept = append(kept, in)
			}
		}
		tr.keep(key, kept)
	}
	for s := range tr.on {
		tr.invalidate(s, nil)
	}
}

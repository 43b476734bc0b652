package embedded

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/skerrydb/skerry/btree"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/spill"
)

// methodValue asks a node for a part of a value: valueRef → valuePart.
const methodValue = "value"

// valueRef names a value that the caller cannot read: its key, length and checksum, and
// where the part that it wants begins.
type valueRef struct {
	Key  []byte `json:"key"`
	Len  uint32 `json:"len"`
	Sum  uint32 `json:"sum"`
	From int    `json:"from"`
}

type valuePart struct {
	Data []byte `json:"data"`
}

const (
	// valuePartBytes is the most of a value in one call.
	valuePartBytes = 2 << 20

	// MaxAiling bounds the damaged values that a node remembers in order to replace
	// them. Others are remembered when they are read again.
	MaxAiling = 1024

	// healWait bounds the calls for one value.
	healWait = 10 * time.Second
)

// damaged counts a read that failed, and remembers the value to be replaced. It logs what
// it remembers, once; suspect files have been logged.
func (s *spiller) damaged(key []byte, r spill.Ref, err error) {
	s.bad.Add(1)
	s.mu.Lock()
	_, known := s.ailing[string(key)]
	noted, suspect := !known && len(s.ailing) < MaxAiling, s.suspect[r.File]
	if noted {
		s.ailing[string(key)] = r
	}
	s.mu.Unlock()
	if noted && !suspect {
		s.opts.Logger.Error("a value on disk is damaged", "err", err, "bytes", r.Len)
	}
	if noted {
		s.kick()
	}
}

// look reads the next values in suspect files and remembers those that are damaged. It
// reports whether there was anything to look at.
func (s *spiller) look() bool {
	s.mu.Lock()
	room := MaxAiling - len(s.ailing)
	suspect := maps.Clone(s.suspect)
	s.mu.Unlock()
	if len(suspect) == 0 || room == 0 {
		return false
	}
	var keys [][]byte
	var refs []spill.Ref
	s.from = s.scan(s.from, func(key []byte, val btree.Value) bool {
		if !val.Marked {
			return true
		}
		r, err := spill.ParseRef(val.Bytes)
		if err != nil {
			panic("BUG: a marked value is not a reference to a file")
		}
		if suspect[r.File] {
			keys, refs = append(keys, bytes.Clone(key)), append(refs, r)
		}
		return len(keys) < min(room, maxChunk)
	})
	set := s.store.Set()
	for i, key := range keys {
		if _, err := set.Read(key, refs[i]); err != nil {
			s.damaged(key, refs[i], err)
		}
	}
	if s.from == nil {
		s.mu.Lock()
		clear(s.suspect) // no value will be put into these files
		s.mu.Unlock()
	}
	return true
}

// heal replaces damaged values by copies of other nodes, and reports whether it got all.
// Those that it cannot get are tried again later.
func (s *spiller) heal() bool {
	if s.fetch == nil {
		return true
	}
	s.mu.Lock()
	ailing := maps.Clone(s.ailing)
	s.mu.Unlock()
	for key, r := range ailing {
		if s.ending() {
			return false
		}
		if err := s.replace([]byte(key), r); err != nil {
			if !s.stuck {
				s.opts.Logger.Warn("no other node has an intact copy of a damaged value now; it will be retried", "file", r.File, "offset", r.Off, "err", err)
			}
			s.stuck = true
			return false
		}
		s.mu.Lock()
		delete(s.ailing, key)
		s.mu.Unlock()
	}
	s.stuck = false
	return true
}

// replace puts another node's copy of a value into the tree, unless the key has another
// value by now.
func (s *spiller) replace(key []byte, r spill.Ref) error {
	was := btree.Value{Bytes: r.Append(nil), Marked: true}
	current := func(x *speculation) bool {
		now, ok := x.tree.Get(key)
		return ok && now.Equal(was)
	}
	wanted := false
	s.exec.withTree(func(x *speculation) { wanted = current(x) })
	if !wanted {
		return nil
	}
	val, err := s.fetch(key, r)
	if err != nil {
		return err
	}
	done := false
	s.exec.withTree(func(x *speculation) {
		if done = current(x); done {
			x.swap(key, was, btree.Value{Bytes: val})
		}
	})
	if done {
		s.exec.freshen()
		s.healed.Add(1)
		s.opts.Logger.Info("a damaged value was replaced by another node's copy", "file", r.File, "offset", r.Off, "bytes", r.Len)
		if len(val) > s.limit && s.limit > 0 {
			s.add(key, len(val))
		}
	}
	return nil
}

// fetchValue asks the other nodes for a value. It returns only one that has the length
// and the checksum of the reference.
func (g *group) fetchValue(key []byte, r spill.Ref) ([]byte, error) {
	ctx, cancel := context.WithTimeout(g.ctx, healWait)
	defer cancel()
	errs := []error{errors.New("there is no other node")}
	for _, n := range g.view.Load().roster.Nodes {
		if n.ID == g.self {
			continue
		}
		val, err := g.fetchFrom(ctx, n, key, r)
		if err == nil {
			return val, nil
		}
		errs = append(errs, fmt.Errorf("node %d: %w", n.ID, err))
	}
	return nil, errors.Join(errs[min(1, len(errs)-1):]...)
}

func (g *group) fetchFrom(ctx context.Context, n nodeInfo, key []byte, r spill.Ref) (val []byte, err error) {
	for uint64(len(val)) < uint64(r.Len) {
		var part valuePart
		if err := remote(g.port.Call(ctx, n.Addr, n.ID, methodValue, valueRef{key, r.Len, r.Sum, len(val)}, &part)); err != nil {
			return nil, err
		}
		if len(part.Data) == 0 {
			break
		}
		val = append(val, part.Data...)
	}
	if !r.Matches(val) {
		return nil, engine.Errorf(engine.CodeCorrupt, "the other node's copy does not have the checksum of the value")
	}
	return val, nil
}

// value handles methodValue.
func (g *group) value(ctx context.Context, in json.RawMessage) (any, error) {
	var want valueRef
	if err := json.Unmarshal(in, &want); err != nil || want.From < 0 {
		return nil, engine.Errorf(engine.CodeInvalid, "the call does not name a value")
	}
	s, err := g.db.snapshotAt(ctx, 0)
	if err != nil {
		return nil, err
	}
	held, ok := s.tree.Get(want.Key)
	if !ok {
		return nil, engine.Errorf(engine.CodeNotFound, "this node does not have the key")
	}
	val, err := s.vals.content(want.Key, held)
	if err != nil {
		return nil, err
	}
	if r := (spill.Ref{Len: want.Len, Sum: want.Sum}); !r.Matches(val) || want.From > len(val) {
		return nil, engine.Errorf(engine.CodeNotFound, "this node has another value of the key")
	}
	return valuePart{slices.Clone(val[want.From:min(len(val), want.From+valuePartBytes)])}, nil
}

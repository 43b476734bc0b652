package kv_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/skerrydb/skerry/ci/seed"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/kv"
)

// modelKey is one key of one space.
type modelKey struct {
	space uint8
	key   string
}

type modelEntry struct {
	val string
	rev kv.Revision
	exp time.Time

	mark uint8
}

// model is a reference implementation of kv as a map. used stores the greatest revision
// that each key ever had, which kv must respect without storing it.
type model struct {
	live map[modelKey]modelEntry
	used map[modelKey]kv.Revision
}

func (m *model) clone() *model {
	return &model{live: maps.Clone(m.live), used: maps.Clone(m.used)}
}

func (m *model) get(k modelKey, now time.Time) (modelEntry, bool) {
	e, ok := m.live[k]
	if ok && !e.exp.IsZero() && !now.Before(e.exp) {
		return modelEntry{}, false
	}
	return e, ok
}

func (m *model) put(t *testing.T, k modelKey, e modelEntry, now time.Time) {
	t.Helper()
	if e.rev <= m.used[k] {
		t.Fatalf("%v: revision %d after %d", k, e.rev, m.used[k])
	}
	m.used[k] = e.rev
	if m.live[k] = e; !e.exp.IsZero() && !now.Before(e.exp) {
		delete(m.live, k)
	}
}

// ceil rounds up to milliseconds.
func ceil(at time.Time) time.Time {
	at = at.UTC()
	if r := at.Truncate(time.Millisecond); r.Before(at) {
		return r.Add(time.Millisecond)
	}
	return at
}

// step runs one random operation on both and compares the results.
func (m *model) step(t *testing.T, r *rand.Rand, tx *kv.Tx) error {
	k := modelKey{uint8(r.IntN(2)) * 255, fmt.Sprintf("k%c", 'a'+r.IntN(6))}
	tx.Select(k.space)
	now := tx.Now()
	old, had := m.get(k, now)
	switch r.IntN(10) {
	case 0, 1, 2:
		return m.set(t, r, tx, k, old, had)
	case 3:
		ok, err := tx.Delete([]byte(k.key))
		if ok != had {
			t.Fatalf("delete %v: %v, want %v", k, ok, had)
		}
		if had { // Run has yet to delete an expired key, and it lives again if the clock goes back before a write
			delete(m.live, k)
		}
		return err
	case 4:
		return m.deleteIf(t, r, tx, k, old, had)
	case 5:
		return m.setExpiry(t, r, tx, k, old, had)
	case 6:
		return m.add(t, tx, k, int64(r.IntN(100)-50), old, had)
	case 7:
		return m.scan(t, tx, k.space)
	default:
		e, ok, err := tx.Get([]byte(k.key))
		if ok != had || ok && !same(e, old) {
			t.Fatalf("get %v: %+v %v, want %+v %v", k, e, ok, old, had)
		}
		return err
	}
}

func same(e kv.Entry, m modelEntry) bool {
	return string(e.Val) == m.val && e.Rev == m.rev && e.Expires.Equal(m.exp) && e.Mark == m.mark
}

func (m *model) set(t *testing.T, r *rand.Rand, tx *kv.Tx, k modelKey, old modelEntry, had bool) error {
	val := strconv.Itoa(r.IntN(1000))
	if r.IntN(3) == 0 {
		val = string(bytes.Repeat([]byte{byte(r.IntN(256))}, r.IntN(40)))
	}
	o := kv.SetOptions{OnlyNew: r.IntN(5) == 0, SkipOld: r.IntN(2) == 0, Mark: uint8(r.IntN(kv.MaxMark + 1))}
	if !o.OnlyNew {
		o.OnlyExisting = r.IntN(5) == 0
		if r.IntN(5) == 0 {
			o.IfRev = old.rev + kv.Revision(r.IntN(2))
		}
	}
	exp := time.Time{}
	switch r.IntN(6) {
	case 0:
		o.TTL = time.Duration(1+r.IntN(5_000_000)) * time.Nanosecond
		exp = ceil(tx.Now().Add(o.TTL))
	case 1:
		o.Expires = tx.Now().Add(time.Duration(r.IntN(5000)-1000) * time.Microsecond)
		exp = ceil(o.Expires)
	case 2:
		o.KeepTTL, exp = true, old.exp
	}
	res, err := tx.Set([]byte(k.key), []byte(val), o)
	if o.IfRev != 0 && (!had || o.IfRev != old.rev) {
		if !errors.Is(err, engine.ErrPreconditionFailed) {
			t.Fatalf("set %v if %d at %d: %v", k, o.IfRev, old.rev, err)
		}
		return nil
	}
	if err != nil {
		return err
	}
	if o.SkipOld && res.Old.Val == nil {
		res.Old.Val = []byte(old.val)
	}
	written := !(o.OnlyNew && had || o.OnlyExisting && !had)
	if res.Written != written || res.HadOld != had || !same(res.Old, old) {
		t.Fatalf("set %v %+v: %+v, want written %v, old %+v", k, o, res, written, old)
	}
	if written {
		m.put(t, k, modelEntry{val, res.Rev, exp, o.Mark}, tx.Now())
	}
	return nil
}

func (m *model) deleteIf(t *testing.T, r *rand.Rand, tx *kv.Tx, k modelKey, old modelEntry, had bool) error {
	rev := old.rev + kv.Revision(r.IntN(2))
	ok, err := tx.DeleteIf([]byte(k.key), rev)
	switch {
	case rev == 0:
		if ok {
			t.Fatalf("delete of nothing")
		}
		return err
	case !had || rev != old.rev:
		if !errors.Is(err, engine.ErrPreconditionFailed) {
			t.Fatalf("delete %v if %d at %d: %v", k, rev, old.rev, err)
		}
		return nil
	}
	delete(m.live, k)
	return err
}

func (m *model) setExpiry(t *testing.T, r *rand.Rand, tx *kv.Tx, k modelKey, old modelEntry, had bool) error {
	at := time.Time{}
	if r.IntN(3) > 0 {
		at = tx.Now().Add(time.Duration(r.IntN(5000)-1000) * time.Microsecond)
	}
	ok, err := tx.SetExpiry([]byte(k.key), at)
	if err != nil {
		return err
	}
	if want := had && !(at.IsZero() && old.exp.IsZero()); ok != want {
		t.Fatalf("set expiry of %v to %v: %v, want %v", k, at, ok, want)
	}
	switch at = ceil(at); {
	case !ok || at.Equal(old.exp):
	case !at.IsZero() && !at.After(tx.Now()):
		delete(m.live, k)
	default:
		e, _, err := tx.Get([]byte(k.key))
		if err != nil {
			return err
		}
		m.put(t, k, modelEntry{old.val, e.Rev, at, old.mark}, tx.Now())
	}
	return nil
}

func (m *model) add(t *testing.T, tx *kv.Tx, k modelKey, delta int64, old modelEntry, had bool) error {
	n, bad := int64(0), error(nil)
	if had {
		n, bad = strconv.ParseInt(old.val, 10, 64)
		if bad == nil && strconv.FormatInt(n, 10) != old.val {
			bad = errors.New("not in its shortest form")
		}
	}
	got, err := tx.Add([]byte(k.key), delta)
	if bad != nil {
		if !errors.Is(err, engine.ErrNotInteger) {
			t.Fatalf("add to %q: %v", old.val, err)
		}
		return nil
	}
	if err != nil {
		return err
	}
	if got != n+delta {
		t.Fatalf("add %d to %q: %d", delta, old.val, got)
	}
	e, _, err := tx.Get([]byte(k.key))
	m.put(t, k, modelEntry{strconv.FormatInt(got, 10), e.Rev, old.exp, 0}, tx.Now())
	return err
}

// scan compares a whole space.
func (m *model) scan(t *testing.T, tx *kv.Tx, space uint8) error {
	var want []string
	for k := range m.live {
		if _, ok := m.get(k, tx.Now()); ok && k.space == space {
			want = append(want, k.key)
		}
	}
	slices.Sort(want)
	var got []string
	for it, err := range tx.ScanPrefix([]byte("k")) {
		if err != nil {
			return err
		}
		got = append(got, string(it.Key))
		if e := m.live[modelKey{space, string(it.Key)}]; !same(it.Entry, e) {
			t.Fatalf("scan %q: %+v, want %+v", it.Key, it.Entry, e)
		}
	}
	if !slices.Equal(got, want) {
		t.Fatalf("scan of space %d: %q, want %q", space, got, want)
	}
	return nil
}

// TestModel runs random transactions on kv and on a map, with a clock that jumps both ways,
// transactions that are undone, and expiry in between.
func TestModel(t *testing.T) {
	r := seed.Rand(t)
	s, eng, c := open(t)
	m := &model{live: map[modelKey]modelEntry{}, used: map[modelKey]kv.Revision{}}
	undo := errors.New("undo")
	for i := range 3000 {
		switch r.IntN(50) {
		case 0:
			c.Add(-time.Duration(r.IntN(20_000)) * time.Millisecond)
		case 1:
			c.Add(time.Duration(r.IntN(20_000)) * time.Millisecond)
		default:
			c.Add(time.Duration(r.IntN(2000)) * time.Microsecond)
		}
		var next *model
		fail := r.IntN(8) == 0
		_, err := s.Update(t.Context(), 0, func(tx *kv.Tx) error {
			next = m.clone()
			for range 1 + r.IntN(6) {
				if err := next.step(t, r, tx); err != nil {
					return err
				}
			}
			if fail {
				return undo
			}
			return nil
		})
		switch {
		case fail && !errors.Is(err, undo), !fail && err != nil:
			t.Fatalf("transaction %d: %v", i, err)
		case !fail:
			m = next
		}
		if r.IntN(5) == 0 {
			if _, err := s.ExpireStep(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if i%50 == 0 {
			checkIndex(t, eng)
		}
	}
	_, last, err := s.Set(t.Context(), 7, []byte("end"), nil, kv.SetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	checkEvents(t, eng, m, last)
}

// checkEvents rebuilds the state from the events up to position last. No event may go back
// in revision.
func checkEvents(t *testing.T, eng engine.Engine, m *model, last engine.Position) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	state, used := map[modelKey]modelEntry{}, map[modelKey]kv.Revision{}
	for ch, err := range eng.Changes(ctx, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if ch.Pos == last {
			break
		}
		for e := range kv.Events(ch) {
			k := modelKey{e.Space, string(e.Key)}
			if e.Deleted {
				delete(state, k)
				continue
			}
			if e.Rev <= used[k] {
				t.Fatalf("event of %v: revision %d after %d", k, e.Rev, used[k])
			}
			used[k] = e.Rev
			state[k] = modelEntry{string(e.Val), e.Rev, e.Expires, e.Mark}
		}
	}
	_, err := eng.View(ctx, engine.Read{}, func(tx engine.Tx) error {
		now := tx.Now()
		for k, e := range m.live {
			if _, ok := m.get(k, now); ok && state[k] != e {
				t.Errorf("events lead to %v = %+v, want %+v", k, state[k], e)
			}
		}
		for k := range state {
			if _, ok := m.live[k]; !ok {
				t.Errorf("events lead to %v, which was deleted", k)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

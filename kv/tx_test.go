package kv_test

import (
	"bytes"
	"errors"
	"iter"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/kv"
)

func TestBadInput(t *testing.T) {
	s, _, _ := open(t)
	long := bytes.Repeat([]byte("k"), kv.MaxKeyBytes+1)
	big := make([]byte, kv.MaxValBytes+1)
	set := func(key, val []byte, o kv.SetOptions) func(*kv.Tx) error {
		return func(tx *kv.Tx) error { _, err := tx.Set(key, val, o); return err }
	}
	k, far := []byte("k"), time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name string
		fn   func(tx *kv.Tx) error
		code engine.Code
	}{
		{"set empty key", set(nil, k, kv.SetOptions{}), engine.CodeKeyEmpty},
		{"set long key", set(long, k, kv.SetOptions{}), engine.CodeKeyTooLarge},
		{"set large value", set(k, big, kv.SetOptions{}), engine.CodeValueTooLarge},
		{"get empty key", func(tx *kv.Tx) error { _, _, err := tx.Get(nil); return err }, engine.CodeKeyEmpty},
		{"get long key", func(tx *kv.Tx) error { _, _, err := tx.Get(long); return err }, engine.CodeKeyTooLarge},
		{"delete empty key", func(tx *kv.Tx) error { _, err := tx.Delete(nil); return err }, engine.CodeKeyEmpty},
		{"add to empty key", func(tx *kv.Tx) error { _, err := tx.Add(nil, 1); return err }, engine.CodeKeyEmpty},
		{"expiry of empty key", func(tx *kv.Tx) error { _, err := tx.SetExpiry(nil, far); return err }, engine.CodeKeyEmpty},
		{"negative ttl", set(k, k, kv.SetOptions{TTL: -1}), engine.CodeInvalid},
		{"mark over the limit", set(k, k, kv.SetOptions{Mark: kv.MaxMark + 1}), engine.CodeInvalid},
		{"two expiries", set(k, k, kv.SetOptions{TTL: 1, KeepTTL: true}), engine.CodeInvalid},
		{"new and existing", set(k, k, kv.SetOptions{OnlyNew: true, OnlyExisting: true}), engine.CodeInvalid},
		{"new at a revision", set(k, k, kv.SetOptions{OnlyNew: true, IfRev: 1}), engine.CodeInvalid},
		{"after year 9999", set(k, k, kv.SetOptions{Expires: far}), engine.CodeLimit},
		{"last int64 millisecond", set(k, k, kv.SetOptions{Expires: time.UnixMilli(math.MaxInt64)}), engine.CodeLimit},
		{"last int64 second", set(k, k, kv.SetOptions{Expires: time.Unix(1<<62, 0)}), engine.CodeLimit},
		{"at a revision, no key", set(k, k, kv.SetOptions{IfRev: 1}), engine.CodePreconditionFailed},
		{"delete at a revision, no key", func(tx *kv.Tx) error { _, err := tx.DeleteIf(k, 1); return err }, engine.CodePreconditionFailed},
	} {
		_, err := s.Update(t.Context(), 0, c.fn)
		if engine.CodeOf(err) != c.code {
			t.Errorf("%s: %v, want %s", c.name, err, c.code)
		}
	}
	if e, ok := get(t, s, "k"); ok {
		t.Errorf("a refused write left %+v", e)
	}
}

func TestAnyBytes(t *testing.T) {
	s, _, _ := open(t)
	keys := []string{"\x00", "\x00\x00", "\xff", "\xff\xff\xff", "\xc3\x28 not UTF-8", "a\x00b", strings.Repeat("\xff", kv.MaxKeyBytes)}
	for _, k := range keys {
		set(t, s, k, k, kv.SetOptions{TTL: time.Hour})
	}
	slices.Sort(keys)
	var got []string
	update(t, s, func(tx *kv.Tx) error {
		got = nil
		for it, err := range tx.Scan(nil, nil) {
			if err != nil {
				return err
			}
			if got = append(got, string(it.Key)); string(it.Val) != string(it.Key) {
				t.Errorf("%q has the value %q", it.Key, it.Val)
			}
		}
		return nil
	})
	if !slices.Equal(got, keys) {
		t.Errorf("keys %q, want %q", got, keys)
	}
	set(t, s, "empty", "", kv.SetOptions{})
	if e, ok := get(t, s, "empty"); !ok || e.Val == nil || len(e.Val) != 0 {
		t.Errorf("empty value: %+v %v", e, ok)
	}
}

// TestLargest checks that the largest allowed keys and values work, including kv's
// overhead. An engine may allow less.
func TestLargest(t *testing.T) {
	s, _, _ := open(t)
	key, n := strings.Repeat("k", kv.MaxKeyBytes), min(kv.MaxValBytes, s.Promises().MaxValBytes-64)
	set(t, s, key, strings.Repeat("v", n), kv.SetOptions{TTL: time.Hour})
	if e, ok := get(t, s, key); !ok || len(e.Val) != n {
		t.Errorf("got %d bytes, %v", len(e.Val), ok)
	}
}

func TestSpacesAreApart(t *testing.T) {
	s, _, _ := open(t)
	update(t, s, func(tx *kv.Tx) error {
		for sp := range 256 {
			tx.Select(uint8(sp))
			if _, err := tx.Set([]byte("k"), []byte(strconv.Itoa(sp)), kv.SetOptions{}); err != nil {
				return err
			}
		}
		for sp := range 256 {
			tx.Select(uint8(sp))
			n := 0
			for it, err := range tx.Scan(nil, nil) {
				if n++; err != nil || string(it.Key) != "k" || string(it.Val) != strconv.Itoa(sp) {
					t.Errorf("space %d has %q: %q (%v)", sp, it.Key, it.Val, err)
				}
			}
			if c, err := tx.Count(); n != 1 || c != 1 || err != nil {
				t.Errorf("space %d has %d keys, count %d (%v)", sp, n, c, err)
			}
		}
		return nil
	})
}

func TestExpiry(t *testing.T) {
	s, _, c := open(t)
	c.Add(300 * time.Microsecond)
	set(t, s, "k", "v", kv.SetOptions{TTL: 2 * time.Millisecond})
	e, _ := get(t, s, "k")
	at := time.UnixMicro(int64(e.Rev)).UTC() // 300 µs after start, if the engine's times are that fine
	if want := at.Add(2*time.Millisecond + 999*time.Microsecond).Truncate(time.Millisecond); !e.Expires.Equal(want) {
		t.Errorf("expires %v, want %v: rounded up to milliseconds", e.Expires, want)
	}
	c.Set(e.Expires.Add(-time.Microsecond))
	if _, ok := get(t, s, "k"); !ok {
		t.Error("expired a microsecond early")
	}
	c.Set(e.Expires)
	// Every code path, while it is still stored.
	update(t, s, func(tx *kv.Tx) error {
		k := []byte("k")
		if _, ok, _ := tx.Get(k); ok {
			t.Error("get sees an expired key")
		}
		for range tx.Scan(nil, nil) {
			t.Error("scan sees an expired key")
		}
		if _, ok, _ := tx.At(0); ok {
			t.Error("at sees an expired key")
		}
		if ok, _ := tx.Delete(k); ok {
			t.Error("delete sees an expired key")
		}
		if ok, _ := tx.SetExpiry(k, start.Add(time.Hour)); ok {
			t.Error("SetExpiry sees an expired key")
		}
		if _, err := tx.Set(k, k, kv.SetOptions{IfRev: e.Rev}); !errors.Is(err, engine.ErrPreconditionFailed) {
			t.Errorf("compare-and-set sees an expired key: %v", err)
		}
		if res, _ := tx.Set(k, k, kv.SetOptions{OnlyExisting: true}); res.Written || res.HadOld {
			t.Errorf("set sees an expired key: %+v", res)
		}
		if n, err := tx.Add(k, 5); n != 5 || err != nil {
			t.Errorf("add to an expired key: %d %v", n, err)
		}
		if e, _, _ := tx.Get(k); !e.Expires.IsZero() {
			t.Errorf("the new key has the old one's expiry: %v", e.Expires)
		}
		return nil
	})
}

func TestExpiryInThePast(t *testing.T) {
	s, _, _ := open(t)
	for _, at := range []time.Time{start, start.Add(-time.Hour), time.UnixMilli(0), time.UnixMilli(-5), time.Unix(-1<<62, 0)} {
		first := set(t, s, "k", "v", kv.SetOptions{})
		if rev := set(t, s, "k", "w", kv.SetOptions{Expires: at}); rev <= first {
			t.Errorf("set with expiry %v: revision %d after %d", at, rev, first)
		}
		if e, ok := get(t, s, "k"); ok {
			t.Errorf("set with expiry %v left %+v", at, e)
		}
		set(t, s, "k", "v", kv.SetOptions{})
		update(t, s, func(tx *kv.Tx) error {
			if ok, err := tx.SetExpiry([]byte("k"), at); !ok || err != nil {
				t.Errorf("set expiry %v: %v %v", at, ok, err)
			}
			return nil
		})
		if e, ok := get(t, s, "k"); ok {
			t.Errorf("expiry %v left %+v", at, e)
		}
	}
}

func TestExpiryFarAway(t *testing.T) {
	s, _, c := open(t)
	set(t, s, "k", "v", kv.SetOptions{Expires: kv.MaxExpires()})
	set(t, s, "l", "v", kv.SetOptions{TTL: math.MaxInt64})
	c.Add(200 * 365 * 24 * time.Hour)
	if e, ok := get(t, s, "k"); !ok || !e.Expires.Equal(kv.MaxExpires()) {
		t.Errorf("%+v %v", e, ok)
	}
	if e, ok := get(t, s, "l"); !ok || e.Expires.Year() != 2319 {
		t.Errorf("%+v %v", e, ok)
	}
}

// TestRevisions changes one key in every way, with the clock going back and with many
// changes in one transaction, which run ahead of the clock.
func TestRevisions(t *testing.T) {
	s, _, c := open(t)
	k, v := []byte("k"), []byte("v")
	last := kv.Revision(0)
	grows := func(what string, rev kv.Revision) {
		t.Helper()
		if rev <= last {
			t.Errorf("%s: revision %d after %d", what, rev, last)
		}
		last = rev
	}
	within := func(fn func(tx *kv.Tx) error) { // which may run again
		t.Helper()
		before := last
		update(t, s, func(tx *kv.Tx) error {
			last = before
			return fn(tx)
		})
	}
	grows("first", set(t, s, "k", "v", kv.SetOptions{}))
	if last != kv.Revision(start.UnixMicro()) {
		t.Errorf("first revision is %d, want the time %d", last, start.UnixMicro())
	}
	within(func(tx *kv.Tx) error {
		for range 100 {
			res, err := tx.Set(k, v, kv.SetOptions{})
			if err != nil {
				return err
			}
			grows("again", res.Rev)
		}
		_, err := tx.Delete(k)
		return err
	})
	c.Add(-time.Hour)
	grows("after deletion ahead of the clock", set(t, s, "k", "v", kv.SetOptions{}))
	within(func(tx *kv.Tx) error {
		for range 3 {
			if ok, err := tx.Delete(k); !ok || err != nil {
				t.Errorf("delete: %v %v", ok, err)
			}
			res, err := tx.Set(k, v, kv.SetOptions{OnlyNew: true})
			if err != nil {
				return err
			}
			grows("after deletion in the same transaction", res.Rev)
		}
		return nil
	})
	within(func(tx *kv.Tx) error { _, err := tx.Delete(k); return err })
	grows("after deletion", set(t, s, "k", "v", kv.SetOptions{}))
	grows("set to expire", set(t, s, "k", "v", kv.SetOptions{TTL: time.Millisecond}))
	c.Add(time.Second)
	if _, err := s.ExpireStep(t.Context()); err != nil {
		t.Fatal(err)
	}
	grows("after expiry", set(t, s, "k", "v", kv.SetOptions{}))
	within(func(tx *kv.Tx) error {
		if ok, err := tx.SetExpiry(k, start.Add(time.Hour)); !ok || err != nil {
			t.Errorf("set expiry: %v %v", ok, err)
		}
		e, _, err := tx.Get(k)
		grows("new expiry", e.Rev)
		return err
	})
}

func TestAdd(t *testing.T) {
	s, _, _ := open(t)
	for _, c := range []struct {
		val   string
		delta int64
		want  int64
		code  engine.Code
	}{
		{"0", 0, 0, ""},
		{"41", 1, 42, ""},
		{"-1", 1, 0, ""},
		{"9223372036854775806", 1, math.MaxInt64, ""},
		{"9223372036854775807", 1, 0, engine.CodeOverflow},
		{"-9223372036854775807", -1, math.MinInt64, ""},
		{"-9223372036854775808", -1, 0, engine.CodeOverflow},
		{"-9223372036854775808", math.MaxInt64, -1, ""},
		{"-1", math.MinInt64, 0, engine.CodeOverflow},
		{"0", math.MinInt64, math.MinInt64, ""},
		{"9223372036854775808", 0, 0, engine.CodeNotInteger},
		{"-9223372036854775809", 0, 0, engine.CodeNotInteger},
		{"99999999999999999999", 0, 0, engine.CodeNotInteger},
		{"", 1, 0, engine.CodeNotInteger},
		{"-", 1, 0, engine.CodeNotInteger},
		{"-0", 1, 0, engine.CodeNotInteger},
		{"01", 1, 0, engine.CodeNotInteger},
		{"+1", 1, 0, engine.CodeNotInteger},
		{" 1", 1, 0, engine.CodeNotInteger},
		{"1 ", 1, 0, engine.CodeNotInteger},
		{"1.5", 1, 0, engine.CodeNotInteger},
		{"0x10", 1, 0, engine.CodeNotInteger},
		{"text", 1, 0, engine.CodeNotInteger},
	} {
		rev := set(t, s, "n", c.val, kv.SetOptions{TTL: time.Hour})
		update(t, s, func(tx *kv.Tx) error {
			n, err := tx.Add([]byte("n"), c.delta)
			if n != c.want || engine.CodeOf(err) != c.code {
				t.Errorf("%q + %d = %d, %v; want %d, %q", c.val, c.delta, n, err, c.want, c.code)
			}
			return nil
		})
		e, _ := get(t, s, "n")
		if c.code != "" && (string(e.Val) != c.val || e.Rev != rev) {
			t.Errorf("%q + %d failed and left %q", c.val, c.delta, e.Val)
		}
		if c.code == "" && (string(e.Val) != strconv.FormatInt(c.want, 10) || e.Expires.IsZero()) {
			t.Errorf("%q + %d left %q, expires %v", c.val, c.delta, e.Val, e.Expires)
		}
	}
}

// TestOldValue checks that the old value returned by Set, and values read from the
// transaction, may be passed to the next write.
func TestOldValue(t *testing.T) {
	s, _, _ := open(t)
	update(t, s, func(tx *kv.Tx) error {
		a, b := []byte("a"), []byte("b")
		for _, v := range []string{"one", "two", "three"} {
			if _, err := tx.Set(a, []byte(v), kv.SetOptions{}); err != nil {
				return err
			}
		}
		if _, err := tx.Set(b, []byte("before"), kv.SetOptions{TTL: time.Hour}); err != nil {
			return err
		}
		res, err := tx.Set(a, []byte("four"), kv.SetOptions{TTL: time.Hour})
		if err != nil || string(res.Old.Val) != "three" {
			t.Errorf("old value %q, %v", res.Old.Val, err)
		}
		res, err = tx.Set(b, res.Old.Val, kv.SetOptions{})
		if err != nil || string(res.Old.Val) != "before" {
			t.Errorf("old value %q, %v", res.Old.Val, err)
		}
		e, _, err := tx.Get(b)
		if err != nil || string(e.Val) != "three" {
			t.Errorf("b is %q, %v", e.Val, err)
		}
		if _, err = tx.Set(a, e.Val, kv.SetOptions{}); err != nil {
			return err
		}
		if e, _, err = tx.Get(a); string(e.Val) != "three" {
			t.Errorf("a is %q", e.Val)
		}
		return err
	})
}

// faultTx fails the write with the given number and all further ones until calmed.
type faultTx struct {
	engine.Tx
	left  int
	still bool // deletes fail too
}

var errFault = engine.Errorf(engine.CodeMemoryFull, "fault")

func (f *faultTx) fails() bool { f.left--; return f.left < 0 }

func (f *faultTx) Put(key, val []byte) error {
	if f.fails() {
		return errFault
	}
	return f.Tx.Put(key, val)
}

func (f *faultTx) Delete(key []byte) error {
	if f.still && f.fails() {
		return errFault
	}
	return f.Tx.Delete(key)
}

// all returns the entire contents of a transaction.
func all(seq iter.Seq2[engine.Pair, error]) (s string) {
	for p, err := range seq {
		if err != nil {
			return err.Error()
		}
		s += strconv.Quote(string(p.Key)) + "=" + strconv.Quote(string(p.Val)) + "\n"
	}
	return s
}

// TestFailedWrite checks that wherever the engine rejects a write, either the call leaves
// nothing behind, or the Tx is broken.
func TestFailedWrite(t *testing.T) {
	s, eng, _ := open(t)
	k, v := []byte("k"), []byte("v")
	later := start.Add(time.Hour)
	for name, op := range map[string]func(*kv.Tx) error{
		"set":         func(tx *kv.Tx) error { _, err := tx.Set(k, v, kv.SetOptions{}); return err },
		"set ttl":     func(tx *kv.Tx) error { _, err := tx.Set(k, v, kv.SetOptions{TTL: time.Minute}); return err },
		"set expiry":  func(tx *kv.Tx) error { _, err := tx.SetExpiry(k, later); return err },
		"persist":     func(tx *kv.Tx) error { _, err := tx.SetExpiry(k, time.Time{}); return err },
		"set to past": func(tx *kv.Tx) error { _, err := tx.Set(k, v, kv.SetOptions{Expires: start}); return err },
		"add":         func(tx *kv.Tx) error { _, err := tx.Add(k, 1); return err },
		"delete":      func(tx *kv.Tx) error { _, err := tx.Delete(k); return err },
	} {
		for left := range 3 {
			for _, still := range []bool{false, true} {
				set(t, s, "k", "7", kv.SetOptions{TTL: time.Minute})
				undo := errors.New("undo")
				_, err := eng.Update(t.Context(), func(tx engine.Tx) error {
					before := all(tx.Scan(nil, nil))
					f := &faultTx{Tx: tx, left: left, still: still}
					w := kv.In(f, 0)
					err := op(w)
					_, _, again := w.Get(k)
					if err != nil && again == nil && all(tx.Scan(nil, nil)) != before {
						t.Errorf("%s, write %d fails: it left something behind", name, left)
					}
					if err != nil && !errors.Is(err, engine.ErrMemoryFull) {
						t.Errorf("%s, write %d fails: %v", name, left, err)
					}
					return undo
				})
				if !errors.Is(err, undo) {
					t.Fatal(err)
				}
			}
		}
	}
}

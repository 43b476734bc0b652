package kv_test

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"testing"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/kv"
)

// layoutOps are the writes of TestLayout in one transaction.
var layoutOps = []struct {
	key string
	o   kv.SetOptions
}{
	{"a", kv.SetOptions{}},
	{"b", kv.SetOptions{TTL: time.Hour}},
	{"c", kv.SetOptions{}},
	{"c", kv.SetOptions{}},
	{"d", kv.SetOptions{}},
	{"d", kv.SetOptions{TTL: time.Hour}},
	{"e", kv.SetOptions{}},
	{"f", kv.SetOptions{Mark: 1}},
	{"g", kv.SetOptions{Mark: 2, TTL: time.Hour}},
	{"h", kv.SetOptions{}},
	{"h", kv.SetOptions{Mark: 1}},
	{"i", kv.SetOptions{Mark: 1}},
	{"i", kv.SetOptions{Mark: 2, TTL: time.Hour}},
}

// TestLayout pins the bytes in the engine, because data of older versions depends on them.
func TestLayout(t *testing.T) {
	s, eng, _ := open(t)
	update(t, s, func(tx *kv.Tx) error {
		tx.Select(5)
		for _, op := range layoutOps {
			if _, err := tx.Set([]byte(op.key), []byte("V"), op.o); err != nil {
				return err
			}
		}
		_, err := tx.Delete([]byte("e"))
		return err
	})
	want := []string{
		"6b0561 = 00 REV0 56",
		"6b0562 = 01 REV0 HOUR 56",
		"6b0563 = 04 REV1 REV0 56",
		"6b0564 = 05 REV1 HOUR REV0 56",
		"6b0565 = 02 REV0",
		"6b0566 = 04 REV0 REV0 56",
		"6b0567 = 05 REV0 HOUR REV1 56",
		"6b0568 = 04 REV1 REV3 56",
		"6b0569 = 05 REV1 HOUR REV4 56",
		"78 HOUR 0562 =",
		"78 HOUR 0564 =",
		"78 HOUR 0567 =",
		"78 HOUR 0569 =",
		"79 NEXT 0565 =",
	}
	us, ms := start.UnixMicro(), start.UnixMilli()
	var names [][2]string
	for _, n := range []struct {
		name string
		v    int64
	}{{"REV0", us}, {"REV1", us + 1}, {"REV3", us + 3}, {"REV4", us + 4}, {"HOUR", ms + 3_600_000}, {"NEXT", ms + 1}} {
		b := make([]byte, 8)
		for i := range b {
			b[i] = byte(n.v >> (56 - 8*i))
		}
		names = append(names, [2]string{n.name, hex.EncodeToString(b)})
	}
	var got [][]byte
	_, err := eng.View(t.Context(), engine.Read{}, func(tx engine.Tx) error {
		got = nil
		for p, err := range tx.Scan(nil, nil) {
			if err != nil {
				return err
			}
			got = append(got, []byte(hex.EncodeToString(p.Key)+"="+hex.EncodeToString(p.Val)))
		}
		return nil
	})
	if err != nil || len(got) != len(want) {
		t.Fatalf("%d engine keys, want %d: %v", len(got), len(want), err)
	}
	for i, w := range want {
		exp := bytes.ReplaceAll([]byte(w), []byte(" "), nil)
		for _, n := range names {
			exp = bytes.ReplaceAll(exp, []byte(n[0]), []byte(n[1]))
		}
		if !bytes.Equal(got[i], exp) {
			t.Errorf("stored %s, want %s", got[i], exp)
		}
	}
}

// TestDamagedRecord checks that a record that cannot be parsed is an error, not a missing
// key.
func TestDamagedRecord(t *testing.T) {
	good := make([]byte, 9)
	for _, c := range []struct {
		raw  []byte
		code engine.Code
	}{
		{nil, engine.CodeCorrupt},
		{good[:8], engine.CodeCorrupt},
		{append([]byte{1}, make([]byte, 15)...), engine.CodeCorrupt},
		{append([]byte{4}, make([]byte, 15)...), engine.CodeCorrupt},
		{append([]byte{5}, make([]byte, 23)...), engine.CodeCorrupt},
		{append([]byte{4}, append(make([]byte, 15), 2)...), engine.CodeCorrupt}, // its time would be before 0
		{append([]byte{8}, make([]byte, 30)...), engine.CodeFormatNewer},
	} {
		tx := kv.In(&oneTx{val: c.raw}, 0)
		if _, _, err := tx.Get([]byte("k")); engine.CodeOf(err) != c.code {
			t.Errorf("get of record %x: %v, want %s", c.raw, err, c.code)
		}
		if _, err := tx.Set([]byte("k"), nil, kv.SetOptions{}); engine.CodeOf(err) != c.code {
			t.Errorf("set over record %x: %v, want %s", c.raw, err, c.code)
		}
		for _, err := range tx.Scan(nil, nil) {
			if engine.CodeOf(err) != c.code {
				t.Errorf("scan of record %x: %v, want %s", c.raw, err, c.code)
			}
		}
		if e, ok := kv.Decode(engine.Write{Key: []byte("k\x00k"), Val: c.raw}); ok {
			t.Errorf("decode of record %x: %+v", c.raw, e)
		}
	}
}

func TestDecode(t *testing.T) {
	if _, ok := kv.Decode(engine.Write{Key: []byte("x12345678\x00k")}); ok {
		t.Error("an index entry is no event")
	}
	for _, k := range []string{"", "k", "k\x00", "other"} {
		if e, ok := kv.Decode(engine.Write{Key: []byte(k), Deleted: true}); ok {
			t.Errorf("key %q: %+v", k, e)
		}
	}
	e, ok := kv.Decode(engine.Write{Key: []byte("k\x07key"), Deleted: true})
	if !ok || !e.Deleted || e.Space != 7 || string(e.Key) != "key" {
		t.Errorf("%+v %v", e, ok)
	}
}

// TestMarkForOlderVersions checks that a version of Skerry that does not know marks reads a
// marked record as the same value, revision and expiry. The time that it reads is later by
// at most 1 µs, plus 3 µs for each further change of the key in the transaction. The test
// uses the layout that such a version knows and not the package's code.
func TestMarkForOlderVersions(t *testing.T) {
	s, eng, c := open(t)
	for i := range 100 {
		key := fmt.Appendf(nil, "key %d", i)
		want, changes := kv.SetOptions{Mark: uint8(1 + i%kv.MaxMark)}, 1+i/4
		if i%4 < 2 {
			want.Expires = start.Add(time.Hour)
		}
		c.Add(time.Millisecond)
		var last kv.SetResult
		update(t, s, func(tx *kv.Tx) (err error) {
			for range changes {
				last, err = tx.Set(key, key, want)
			}
			return err
		})
		var raw []byte
		if _, err := eng.View(t.Context(), engine.Read{}, func(tx engine.Tx) error {
			b, _, err := tx.Get(append([]byte("k\x00"), key...))
			raw = bytes.Clone(b)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		head, now := []byte{4}, uint64(c.Now().UnixMicro())
		head = binary.BigEndian.AppendUint64(head, uint64(last.Rev))
		if !want.Expires.IsZero() {
			head[0] = 5
			head = binary.BigEndian.AppendUint64(head, uint64(want.Expires.UnixMilli()))
		}
		if len(raw) != len(head)+8+len(key) || !bytes.HasPrefix(raw, head) || !bytes.HasSuffix(raw, key) {
			t.Fatalf("record %x, want %x, a time and %x", raw, head, key)
		}
		if at := binary.BigEndian.Uint64(raw[len(head):]); at < now || at-now > uint64(3*(changes-1)+1) {
			t.Errorf("%d changes at %d: time of %d", changes, now, at)
		}
		if e, ok := get(t, s, string(key)); !ok || e.Mark != want.Mark || e.Rev != last.Rev || !e.Expires.Equal(want.Expires) || !bytes.Equal(e.Val, key) {
			t.Errorf("get %s: %+v %v, want %+v", key, e, ok, want)
		}
	}
}

// FuzzRecord checks that arbitrary bytes are either rejected or parsed safely.
func FuzzRecord(f *testing.F) {
	f.Add([]byte{0, 0, 0, 0, 0, 0, 0, 0, 1, 'v'})
	f.Add([]byte{4, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 9, 'v'})
	f.Add([]byte{4, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 27, 'v'})
	f.Add([]byte{4, 0, 0, 0, 0, 0, 0, 0, 9, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 'v'})
	f.Add([]byte{5, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 'v'})
	f.Fuzz(func(t *testing.T, raw []byte) {
		one := &oneTx{val: raw}
		tx := kv.In(one, 0)
		e, ok, err := tx.Get([]byte("k"))
		if err == nil && e.Mark > kv.MaxMark {
			t.Errorf("mark %d", e.Mark)
		}
		if err == nil && ok && len(e.Val) > len(raw)-9 {
			t.Errorf("value of %d bytes out of a record of %d", len(e.Val), len(raw))
		}
		if err != nil && !errors.Is(err, engine.ErrCorrupt) && !errors.Is(err, engine.ErrFormatNewer) {
			t.Errorf("record %x: %v", raw, err)
		}
	})
}

// oneTx is a transaction with one key that accepts all writes and stores none.
type oneTx struct {
	val        []byte
	gets, puts int
	deletes    int
}

func (o *oneTx) Get([]byte) ([]byte, bool, error) { o.gets++; return o.val, true, nil }
func (o *oneTx) Put(_, _ []byte) error            { o.puts++; return nil }
func (o *oneTx) Delete([]byte) error              { o.deletes++; return nil }
func (o *oneTx) Now() time.Time                   { return start }
func (o *oneTx) AsOf() time.Time                  { return start }

func (o *oneTx) Scan(_, _ []byte) iter.Seq2[engine.Pair, error] {
	return func(yield func(engine.Pair, error) bool) { yield(engine.Pair{Key: []byte("k\x00k"), Val: o.val}, nil) }
}

func (o *oneTx) ScanBack(lo, hi []byte) iter.Seq2[engine.Pair, error] { return o.Scan(lo, hi) }

// TestCost checks which engine operations the hot path uses, and that it does not allocate.
func TestCost(t *testing.T) {
	plain := append([]byte{0, 0, 0, 0, 0, 0, 0, 0, 1}, "12345678"...)
	dying := append([]byte{1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0x7f, 0, 0, 0, 0, 0}, "12345678"...)
	k, v := []byte("key"), []byte("value")
	var tx kv.Tx
	for _, c := range []struct {
		name                string
		old                 []byte
		op                  func() error
		gets, puts, deletes int
	}{
		{"get", plain, func() error { _, _, err := tx.Get(k); return err }, 1, 0, 0},
		{"get with ttl", dying, func() error { _, _, err := tx.Get(k); return err }, 1, 0, 0},
		{"set", plain, func() error { _, err := tx.Set(k, v, kv.SetOptions{}); return err }, 1, 1, 0},
		{"set, no old value", plain, func() error { _, err := tx.Set(k, v, kv.SetOptions{SkipOld: true}); return err }, 1, 1, 0},
		{"set ttl", plain, func() error { _, err := tx.Set(k, v, kv.SetOptions{TTL: time.Hour}); return err }, 1, 2, 0},
		{"set new ttl", dying, func() error { _, err := tx.Set(k, v, kv.SetOptions{TTL: time.Hour}); return err }, 1, 2, 1},
		{"set keep ttl", dying, func() error { _, err := tx.Set(k, v, kv.SetOptions{KeepTTL: true}); return err }, 1, 1, 0},
		{"set no ttl", dying, func() error { _, err := tx.Set(k, v, kv.SetOptions{}); return err }, 1, 1, 1},
		{"add", plain, func() error { _, err := tx.Add(k, 1); return err }, 1, 1, 0},
		{"delete", plain, func() error { _, err := tx.Delete(k); return err }, 1, 0, 1},
		{"delete with ttl", dying, func() error { _, err := tx.Delete(k); return err }, 1, 0, 2},
	} {
		one := &oneTx{val: c.old}
		run := func() {
			tx.Bind(one, 0)
			if err := c.op(); err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
		}
		run()
		if one.gets != c.gets || one.puts != c.puts || one.deletes != c.deletes {
			t.Errorf("%s costs %d gets, %d puts, %d deletes; want %d, %d, %d",
				c.name, one.gets, one.puts, one.deletes, c.gets, c.puts, c.deletes)
		}
		if n := testing.AllocsPerRun(100, run); n != 0 {
			t.Errorf("%s allocates %v times", c.name, n)
		}
	}
}

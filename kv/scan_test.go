package kv_test

import (
	"errors"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/kv"
)

// TestScanBack checks that a reverse scan yields the same items as the forward scan in
// reverse order, with neighbors before and after every bound and in other spaces.
func TestScanBack(t *testing.T) {
	s, _, c := open(t)
	keys := []string{"\x00", "a", "a\x00", "a\xff", "a\xff\xff", "aa", "b", "\xff", "\xff\xff", strings.Repeat("\xff", kv.MaxKeyBytes)}
	update(t, s, func(tx *kv.Tx) error {
		for _, space := range []uint8{0, 1, 2, 254, 255} {
			tx.Select(space)
			for _, k := range keys {
				if _, err := tx.Set([]byte(k), []byte{space}, kv.SetOptions{}); err != nil {
					return err
				}
			}
			if _, err := tx.Set([]byte("ab"), nil, kv.SetOptions{TTL: time.Second}); err != nil {
				return err
			}
		}
		return nil
	})
	c.Add(time.Minute) // "ab" is expired, but still stored
	bounds := [][]byte{nil}
	for _, k := range keys {
		bounds = append(bounds, []byte(k), []byte(k+"\x00"))
	}
	update(t, s, func(tx *kv.Tx) error {
		for _, space := range []uint8{0, 1, 254, 255} {
			tx.Select(space)
			all := func(seq iter.Seq2[kv.Item, error]) (list []string) {
				for it, err := range seq {
					if err != nil || len(it.Val) != 1 || it.Val[0] != space {
						t.Errorf("space %d has %q: %q (%v)", space, it.Key, it.Val, err)
					}
					list = append(list, string(it.Key))
				}
				return list
			}
			if got := all(tx.ScanBack(nil, nil)); len(got) != len(keys) {
				t.Fatalf("space %d: %q", space, got)
			}
			for _, lo := range bounds {
				for _, hi := range bounds {
					want := all(tx.Scan(lo, hi))
					slices.Reverse(want)
					if got := all(tx.ScanBack(lo, hi)); !slices.Equal(got, want) {
						t.Errorf("space %d, from %q to %q: %q, want %q", space, lo, hi, got, want)
					}
				}
				want := all(tx.ScanPrefix(lo))
				slices.Reverse(want)
				if got := all(tx.ScanPrefixBack(lo)); !slices.Equal(got, want) {
					t.Errorf("space %d, prefix %q: %q, want %q", space, lo, got, want)
				}
			}
			for it := range tx.ScanBack(nil, nil) {
				if string(it.Key) != keys[len(keys)-1] {
					t.Errorf("the last key is %q", it.Key)
				}
				break // nothing more is read
			}
		}
		return nil
	})
}

// TestScanBackDamaged checks that a damaged record is an error, and the last value.
func TestScanBackDamaged(t *testing.T) {
	tx := kv.In(&oneTx{val: []byte{1, 2, 3}}, 0)
	n := 0
	for it, err := range tx.ScanBack(nil, nil) {
		if n++; !errors.Is(err, engine.ErrCorrupt) {
			t.Errorf("%q: %v", it.Key, err)
		}
	}
	if n != 1 {
		t.Errorf("%d values", n)
	}
}

package main

import (
	"encoding/binary"

	google "github.com/google/btree"
	"github.com/skerrydb/skerry/btree"
	tidwall "github.com/tidwall/btree"
)

// ordered is one map as used by the loops of measure. Calls through it cost all contenders the same.
type ordered[K any] interface {
	get(k K) bool
	set(k K, i int)
	remove(k K) bool
	scan() int // visits all pairs, returns a sum
	clone()    // keeps the clone until the next call
}

// degree is google/btree's; 32 is its most common choice.
const degree = 32

type item[K any, V any] struct {
	key K
	val V
}

type googleStrings struct {
	t, old *google.BTreeG[item[string, value]]
}

func newGoogleStrings() ordered[string] {
	less := func(a, b item[string, value]) bool { return a.key < b.key }
	return &googleStrings{t: google.NewG(degree, less)}
}

func (g *googleStrings) get(k string) bool {
	_, ok := g.t.Get(item[string, value]{key: k})
	return ok
}
func (g *googleStrings) set(k string, i int) {
	g.t.ReplaceOrInsert(item[string, value]{k, mkValue(i)})
}
func (g *googleStrings) remove(k string) bool {
	_, ok := g.t.Delete(item[string, value]{key: k})
	return ok
}
func (g *googleStrings) clone() { g.old = g.t.Clone() }
func (g *googleStrings) scan() (sum int) {
	g.t.Ascend(func(it item[string, value]) bool {
		sum += len(it.key) + int(it.val.n)
		return true
	})
	return sum
}

type tidwallStrings struct {
	t, old *tidwall.Map[string, value]
}

func newTidwallStrings() ordered[string] {
	return &tidwallStrings{t: new(tidwall.Map[string, value])}
}

func (g *tidwallStrings) get(k string) bool {
	_, ok := g.t.Get(k)
	return ok
}
func (g *tidwallStrings) set(k string, i int) { g.t.Set(k, mkValue(i)) }
func (g *tidwallStrings) remove(k string) bool {
	_, ok := g.t.Delete(k)
	return ok
}
func (g *tidwallStrings) clone() { g.old = g.t.Copy() }
func (g *tidwallStrings) scan() (sum int) {
	g.t.Scan(func(k string, v value) bool {
		sum += len(k) + int(v.n)
		return true
	})
	return sum
}

type ourStrings struct{ t, old *btree.Pairs }

func newOurStrings() ordered[[]byte] { return &ourStrings{t: btree.NewPairs()} }

func (g *ourStrings) get(k []byte) bool {
	_, ok := g.t.Get(k)
	return ok
}
func (g *ourStrings) set(k []byte, i int) {
	var v [valueBytes]byte
	binary.NativeEndian.PutUint64(v[8:], uint64(i))
	g.t.Set(k, btree.Value{Bytes: v[:]})
}
func (g *ourStrings) remove(k []byte) bool {
	_, ok := g.t.Delete(k)
	return ok
}
func (g *ourStrings) clone() { g.old = g.t.Clone() }
func (g *ourStrings) scan() (sum int) {
	for k, v := range g.t.Ascend(nil, nil) {
		sum += len(k) + int(binary.NativeEndian.Uint64(v.Bytes[8:]))
	}
	return sum
}

type googleInts struct {
	t, old *google.BTreeG[item[int64, int64]]
}

func newGoogleInts() ordered[int64] {
	less := func(a, b item[int64, int64]) bool { return a.key < b.key }
	return &googleInts{t: google.NewG(degree, less)}
}

func (g *googleInts) get(k int64) bool {
	_, ok := g.t.Get(item[int64, int64]{key: k})
	return ok
}
func (g *googleInts) set(k int64, i int) { g.t.ReplaceOrInsert(item[int64, int64]{k, int64(i)}) }
func (g *googleInts) remove(k int64) bool {
	_, ok := g.t.Delete(item[int64, int64]{key: k})
	return ok
}
func (g *googleInts) clone() { g.old = g.t.Clone() }
func (g *googleInts) scan() (sum int) {
	g.t.Ascend(func(it item[int64, int64]) bool {
		sum += int(it.key) + int(it.val)
		return true
	})
	return sum
}

type tidwallInts struct {
	t, old *tidwall.Map[int64, int64]
}

func newTidwallInts() ordered[int64] { return &tidwallInts{t: new(tidwall.Map[int64, int64])} }

func (g *tidwallInts) get(k int64) bool {
	_, ok := g.t.Get(k)
	return ok
}
func (g *tidwallInts) set(k int64, i int) { g.t.Set(k, int64(i)) }
func (g *tidwallInts) remove(k int64) bool {
	_, ok := g.t.Delete(k)
	return ok
}
func (g *tidwallInts) clone() { g.old = g.t.Copy() }
func (g *tidwallInts) scan() (sum int) {
	g.t.Scan(func(k, v int64) bool {
		sum += int(k) + int(v)
		return true
	})
	return sum
}

type ourInts struct{ t, old *btree.Map[int64, int64] }

func newOurInts() ordered[int64] { return &ourInts{t: btree.NewMap[int64, int64]()} }

func (g *ourInts) get(k int64) bool {
	_, ok := g.t.Get(k)
	return ok
}
func (g *ourInts) set(k int64, i int) { g.t.Set(k, int64(i)) }
func (g *ourInts) remove(k int64) bool {
	_, ok := g.t.Delete(k)
	return ok
}
func (g *ourInts) clone() { g.old = g.t.Clone() }
func (g *ourInts) scan() (sum int) {
	for k, v := range g.t.All() {
		sum += int(k) + int(v)
	}
	return sum
}

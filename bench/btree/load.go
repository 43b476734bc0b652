package main

import (
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"unsafe"
)

// load is one set of keys that all contenders run with.
type load struct {
	name string
	run  func(w io.Writer, now clock, rounds int) (missed int)
}

// value is what rivals keep for string keys: one pointer and a number, like the value of a store of byte
// slices. The slice itself is not measured. Skerry's map gets values of as many bytes and keeps them itself.
type value struct {
	p *byte
	n uint64
}

const valueBytes = 16

var one byte // all values point to it: the values themselves are not measured

func mkValue(i int) value { return value{&one, uint64(i)} }

// keySet has the keys of a load in random orders. Missing keys are similar to present ones. Rivals keep
// strings; Skerry's map takes byte slices.
type keySet[K any] struct {
	insert, lookup, miss []K
}

// loads returns all loads, with scale times their numbers of keys.
func loads(scale float64) []load {
	m := int(1e6 * scale)
	return []load{
		stringLoad("1 M random strings of 16-24 bytes", m, func(r *rand.Rand, i int) []byte {
			return randomKey(r, 16+r.IntN(9))
		}),
		stringLoad("1 M composite keys with long shared prefixes", m, func(r *rand.Rand, i int) []byte {
			return fmt.Appendf(nil, "app/tenants/%06d/orders/by-customer/%010d/%04d", i/5000, i/20, i%20*2+r.IntN(2))
		}),
		stringLoad("1 M random keys of 16 bytes", m, func(r *rand.Rand, i int) []byte {
			return randomKey(r, 16)
		}),
		intLoad("100 k int64", int(1e5*scale)),
		intLoad("10 M int64", int(1e7*scale)),
	}
}

// randomKey returns n random letters and digits.
func randomKey(r *rand.Rand, n int) []byte {
	const set = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	k := make([]byte, n)
	for i := range k {
		k[i] = set[r.IntN(len(set))]
	}
	return k
}

// stringLoad makes 1.25 n different keys; every fifth is not inserted.
func stringLoad(name string, n int, gen func(r *rand.Rand, i int) []byte) load {
	return load{name, func(w io.Writer, now clock, rounds int) int {
		r := rand.New(rand.NewPCG(1, 2))
		var there, absent [][]byte
		seen := make(map[string]bool, n)
		for i := 0; len(there) < n; i++ {
			k := gen(r, i)
			if seen[string(k)] {
				continue
			}
			seen[string(k)] = true
			if i%5 == 4 {
				absent = append(absent, k)
			} else {
				there = append(there, k)
			}
		}
		var keys keySet[[]byte]
		keys.insert = packed(shuffled(r, there))
		keys.lookup = packed(shuffled(r, there))
		keys.miss = packed(shuffled(r, absent))
		strs := keySet[string]{asStrings(keys.insert), asStrings(keys.lookup), asStrings(keys.miss)}
		return compare(w, now, name, rounds, []contender{
			contend("google", strs, newGoogleStrings, cloneAll),
			contend("tidwall", strs, newTidwallStrings, cloneAll),
			contend("skerry", keys, newOurStrings, same), // copies the keys itself
		})
	}}
}

// intLoad makes n random even numbers; odd numbers are missing.
func intLoad(name string, n int) load {
	return load{name, func(w io.Writer, now clock, rounds int) int {
		r := rand.New(rand.NewPCG(3, 4))
		there := make([]int64, n)
		for i := range there {
			// An odd multiplier maps distinct numbers to distinct ones.
			there[i] = int64(uint64(i)*0x9E3779B97F4A7C15) &^ 1
		}
		var keys keySet[int64]
		keys.insert = shuffled(r, there)
		keys.lookup = shuffled(r, there)
		keys.miss = shuffled(r, there)[:max(n/4, 1)]
		for i := range keys.miss {
			keys.miss[i] |= 1
		}
		return compare(w, now, name, rounds, []contender{
			contend("google", keys, newGoogleInts, same),
			contend("tidwall", keys, newTidwallInts, same),
			contend("skerry", keys, newOurInts, same),
		})
	}}
}

// cloneAll copies strings for a rival to keep.
func cloneAll(keys []string) []string {
	out := make([]string, len(keys))
	for i, k := range keys {
		out[i] = strings.Clone(k)
	}
	return out
}

func same[K any](keys []K) []K { return keys }

func shuffled[K any](r *rand.Rand, keys []K) []K {
	out := append([]K(nil), keys...)
	r.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out
}

// packed copies the keys into one buffer in order, so that reading the keys of a loop costs every contender
// the same, and little.
func packed(keys [][]byte) [][]byte {
	var all []byte
	for _, k := range keys {
		all = binary.AppendUvarint(all, uint64(len(k)))
		all = append(all, k...)
	}
	out := make([][]byte, len(keys))
	for i := range out {
		n, w := binary.Uvarint(all)
		out[i], all = all[w:w+int(n):w+int(n)], all[w+int(n):]
	}
	return out
}

// asStrings returns strings that share the same bytes, which are never written again.
func asStrings(keys [][]byte) []string {
	out := make([]string, len(keys))
	for i, k := range keys {
		out[i] = unsafe.String(unsafe.SliceData(k), len(k))
	}
	return out
}

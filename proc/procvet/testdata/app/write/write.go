// Package write has procedures that write to variables.
package write

import (
	"encoding/json"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/skerrydb/skerry/proc"
)

type none = struct{}

type counter struct {
	n    int
	list []int
}

func (c *counter) bump()          { c.n++ }
func (c *counter) bumpTwice()     { c.bump(); c.bump() }
func (c counter) copied()         { c.n++ }
func set(m map[string]int)        { m["x"] = 1 }
func fill[T any](p *T, v T)       { *p = v }
func (c *counter) read(i int) int { return c.list[i] }

var (
	total   int
	table   = map[string]int{}
	state   counter
	current = &counter{}
	votes   atomic.Int64
	plain   int64
	text    strings.Builder
	shared  sync.Map
	decoded struct{ A int }
)

// Global writes package variables.
var Global = proc.Define("global", func(tx *proc.Tx, _ none) (int, error) {
	total++                       // want `^writes the package variable total: it is not undone`
	total = 1                     // want `writes the package variable total`
	table["x"] = 1                // want `writes the package variable table`
	delete(table, "x")            // want `writes the package variable table`
	state.n += 2                  // want `writes the package variable state`
	state.list[0] = 1             // want `writes the package variable state`
	current.bump()                // want `calls write.counter.bump, which writes the package variable current at write/write.go:\d+`
	state.bumpTwice()             // want `calls write.counter.bumpTwice → write.counter.bump, which writes the package variable state`
	set(table)                    // want `calls write.set, which writes the package variable table`
	fill(&total, 3)               // want `calls write.fill, which writes the package variable total`
	votes.Add(1)                  // want `calls sync/atomic.Int64.Add, which writes the package variable votes`
	atomic.AddInt64(&plain, 1)    // want `calls sync/atomic.AddInt64, which writes the package variable plain`
	text.WriteString("x")         // want `writes the package variable text`
	shared.Store(1, 2)            // want `writes the package variable shared`
	json.Unmarshal(nil, &decoded) // want `calls encoding/json.Unmarshal, which writes the package variable decoded`
	alias := table
	alias["y"] = 2 // want `writes the package variable table`
	p := &state
	p.n = 2               // want `writes the package variable state`
	for total = range 3 { // want `writes the package variable total`
	}
	shared.Load(1)
	return int(votes.Load()) + int(atomic.LoadInt64(&plain)) + state.read(0), nil
})

// Local writes what belongs to it.
var Local = proc.Define("local", func(tx *proc.Tx, in struct{ M map[string]int }) (int, error) {
	var c counter
	c.n = 1
	c.bump()
	p := &c
	p.bumpTwice()
	state.copied()
	m := map[string]int{}
	set(m)
	m["y"]++
	copied := state
	copied.n++
	var n atomic.Int64
	n.Add(1)
	var x int
	fill(&x, 2)
	func() { x++ }()
	add := func() { x++ }
	add()
	return x, json.Unmarshal(nil, &c)
})

// Make makes procedures that capture.
func Make() proc.Procedure {
	n := 0
	bump := func() { n++ }
	c := &counter{}
	return proc.Define("captured", func(tx *proc.Tx, _ none) (int, error) {
		n++      // want `writes the captured variable n: .*\(procedure captured\)`
		c.n = 2  // want `writes the captured variable c`
		c.bump() // want `calls write.counter.bump, which writes the captured variable c`
		bump()   // want `calls bump, which writes the captured variable n`
		return n, nil
	})
}

type app struct{ calls int }

func (a *app) vote(tx *proc.Tx, _ none) (int, error) {
	a.calls++ // want `writes what a points to \(its receiver\): .*\(procedure method\)`
	a.count() // want `calls write.app.count, which writes what a points to`
	return a.calls, nil
}

func (a *app) count() { a.calls++ }

// Method gives a method value.
func Method(a *app) proc.Procedure { return proc.Define("method", a.vote) }

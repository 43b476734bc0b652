package graph

import (
	"context"
	"errors"
	"strings"

	"github.com/skerrydb/skerry/engine"
)

// graphNumber returns the number of a graph.
func graphNumber(tx engine.Tx, name string) (uint64, error) {
	key := graphName(name)
	raw, ok, err := tx.Get(key)
	switch {
	case err != nil:
		return 0, err
	case !ok && name == Default:
		return defaultGraph, nil
	case !ok:
		return 0, engine.Errorf(CodeNoGraph, "there is no graph %q", name)
	}
	n, rest, ok := number(raw)
	if !ok || len(rest) != 0 || n == 0 {
		return 0, corrupt("number of a graph", key)
	}
	return n, nil
}

// Create adds a graph. A graph of that name that exists already is left as it is.
func (d *DB) Create(ctx context.Context, name string) error {
	if name == "" || len(name) > MaxNameBytes || strings.ContainsFunc(name, func(r rune) bool { return r < ' ' }) {
		return engine.Errorf(engine.CodeInvalid, "the name of a graph has 1 to %d bytes, without control characters", MaxNameBytes)
	}
	if name == Default {
		return nil
	}
	_, err := d.eng.Update(ctx, func(tx engine.Tx) error {
		if _, ok, err := tx.Get(graphName(name)); ok || err != nil {
			return err
		}
		next, n, err := nextGraph(tx)
		if err != nil {
			return err
		}
		if n >= MaxGraphs {
			return limit("an engine has at most %d graphs (MaxGraphs), with those that are still being removed", MaxGraphs)
		}
		return tx.Put(graphName(name), appendNumber(nil, next))
	})
	return err
}

// nextGraph returns a number that no graph has, and how many graphs have one.
func nextGraph(tx engine.Tx) (next uint64, n int, err error) {
	next = defaultGraph
	for p, err := range tx.Scan(within(graphName(""))) {
		if err != nil {
			return 0, 0, err
		}
		num, rest, ok := number(p.Val)
		if !ok || len(rest) != 0 {
			return 0, 0, corrupt("number of a graph", p.Key)
		}
		next, n = max(next, num), n+1
	}
	gone, err := allGarbage(tx)
	for _, num := range gone {
		next, n = max(next, num), n+1
	}
	return next + 1, n, err
}

// allGarbage returns the numbers of the graphs whose keys are to be removed.
func allGarbage(tx engine.Tx) (nums []uint64, err error) {
	prefix := append(graphPrefix(0), roomGarbage)
	for p, err := range tx.Scan(within(prefix)) {
		if err != nil {
			return nil, err
		}
		num, rest, ok := number(p.Key[len(prefix):])
		if !ok || len(rest) != 0 {
			return nil, corrupt("number of a graph", p.Key)
		}
		nums = append(nums, num)
	}
	return nums, nil
}

// Names returns the names of all graphs, sorted, with Default first.
func (d *DB) Names(ctx context.Context) (names []string, err error) {
	_, err = d.eng.View(ctx, engine.Read{}, func(tx engine.Tx) error {
		names = []string{Default}
		prefix := graphName("")
		for p, err := range tx.Scan(within(prefix)) {
			if err != nil {
				return err
			}
			if name := string(p.Key[len(prefix):]); name != Default {
				names = append(names, name)
			}
		}
		return nil
	})
	return names, err
}

// Drop removes a graph at once, and then its keys in batches. Default stays, empty,
// with the definitions of its indexes and its schema. A name without a graph is CodeNoGraph. If Drop
// is interrupted, the graph is gone, and Resume removes the remaining keys.
func (d *DB) Drop(ctx context.Context, name string) error {
	var num uint64
	_, err := d.eng.Update(ctx, func(tx engine.Tx) (err error) {
		if num, err = graphNumber(tx, name); err != nil {
			return err
		}
		if name == Default {
			err = replace(tx, num)
		} else {
			err = tx.Delete(graphName(name))
		}
		if err != nil {
			return err
		}
		return tx.Put(garbage(num), nil)
	})
	if err != nil {
		return err
	}
	return d.sweep(ctx, num)
}

// replace gives Default a new number, in place of num, with the same indexes and schema.
func replace(tx engine.Tx, num uint64) error {
	next, _, err := nextGraph(tx)
	if err != nil {
		return err
	}
	all, err := begin(tx, num, true).Indexes()
	if err != nil {
		return err
	}
	t := begin(tx, next, true)
	if err := t.takeSchema(begin(tx, num, true)); err != nil {
		return err
	}
	for _, ix := range all {
		o, err := t.DefineIndex(Index{On: ix.On, Label: ix.Label, Keys: ix.Keys, Unique: ix.Unique})
		if err != nil {
			return err
		}
		o.Filling = false // there is nothing to fill it with
		if err := t.putIndex(o); err != nil {
			return err
		}
	}
	return tx.Put(graphName(Default), appendNumber(nil, next))
}

// sweep removes the keys of a graph that is garbage.
func (d *DB) sweep(ctx context.Context, num uint64) error {
	for done := false; !done; {
		if _, err := d.eng.Update(ctx, func(tx engine.Tx) error {
			_, ok, err := tx.Get(garbage(num))
			if !ok || err != nil {
				done = true // another process has removed it
				return err
			}
			t := begin(tx, num, true)
			if done, err = t.deleteAll(t.prefix, d.batch); err != nil || !done {
				return err
			}
			return tx.Delete(garbage(num))
		}); err != nil {
			return err
		}
	}
	return nil
}

// deleteAll deletes the keys that begin with prefix, as many as a batch can, and
// reports whether these were all.
func (t *Tx) deleteAll(prefix []byte, batch int) (done bool, err error) {
	var keys [][]byte
	size := 0
	lo, hi := within(prefix)
	for p, err := range t.tx.Scan(lo, hi) {
		if err != nil {
			return false, err
		}
		if len(keys) == batchWrites || size >= batch {
			break
		}
		keys = append(keys, append([]byte{}, p.Key...))
		size += len(p.Key)
	}
	for _, key := range keys {
		if err := t.delete(key); err != nil {
			return false, err
		}
	}
	return len(keys) < batchWrites && size < batch, nil
}

// Resume finishes what interrupted calls of Drop, RemoveVertex and RemoveIndex have
// begun. It can run at any time, also while such calls run.
func (d *DB) Resume(ctx context.Context) error {
	var gone []uint64
	if _, err := d.eng.View(ctx, engine.Read{}, func(tx engine.Tx) (err error) {
		gone, err = allGarbage(tx)
		return err
	}); err != nil {
		return err
	}
	for _, num := range gone {
		if err := d.sweep(ctx, num); err != nil {
			return err
		}
	}
	names, err := d.Names(ctx)
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := d.resume(ctx, name); err != nil && !errors.Is(err, &engine.Error{Code: CodeNoGraph}) {
			return err
		}
	}
	return nil
}

// resume finishes removals in one graph.
func (d *DB) resume(ctx context.Context, name string) error {
	var vertices, indexes []uint64
	if _, err := d.View(ctx, engine.Read{}, name, func(t *Tx) error {
		vertices = nil
		leaving, err := t.leavers()
		if err != nil {
			return err
		}
		for num := range leaving {
			vertices = append(vertices, num)
		}
		_, err = t.Indexes()
		indexes = t.dropped
		return err
	}); err != nil {
		return err
	}
	for _, num := range vertices {
		if err := d.batches(ctx, name, func(t *Tx) (bool, error) { return t.takeAway(num, d.batch) }); err != nil {
			return err
		}
	}
	for _, num := range indexes {
		if err := d.batches(ctx, name, func(t *Tx) (bool, error) { return t.emptyIndex(num, d.batch) }); err != nil {
			return err
		}
	}
	return nil
}

// batches runs fn in transactions of their own until it is done.
func (d *DB) batches(ctx context.Context, name string, fn func(*Tx) (done bool, err error)) error {
	for done := false; !done; {
		if _, err := d.Update(ctx, name, func(t *Tx) (err error) {
			done, err = fn(t)
			return err
		}); err != nil {
			return err
		}
	}
	return nil
}

// full reports whether a batch has written enough.
func (t *Tx) full(batch int) bool { return t.version >= batchWrites || t.written >= batch }

// Unavailable returns a DB all of whose methods fail with err.
func Unavailable(err error) *DB { return &DB{eng: engine.Unavailable(err)} }

package enginetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/skerrydb/skerry/engine"
)

// breakerCase breaks transactions, which must then not commit.
func breakerCase(e *env) {
	own := errors.New("half written")
	offered := true
	run := func(undo bool) error {
		_, err := e.eng.Update(e.ctx, func(tx engine.Tx) error {
			b, ok := tx.(engine.Breaker)
			if offered = ok; !ok {
				return nil
			}
			if err := putAll(tx, "kept", "1"); err != nil {
				return err
			}
			sp, can := tx.(engine.Savepointer)
			mark := 0
			if can {
				mark = sp.Savepoint()
			}
			if err := putAll(tx, "half", "1"); err != nil {
				return err
			}
			b.Break(own)
			if undo && can {
				return sp.RollbackTo(mark)
			}
			return nil
		})
		return err
	}
	err := run(false)
	if !offered {
		e.Skipf("skipped: the transactions are no engine.Breaker")
	}
	e.is("an update that was broken", err, own)
	e.lacks("kept", "half")
	if err := run(true); err == nil {
		e.has("kept", "1")
	} else {
		e.is("an update that was broken", err, own) // it could not be undone
		e.lacks("kept")
	}
	e.lacks("half")
}

// backuperCase backs up during writes. It checks the contents if an engine can be opened
// from the backup.
func backuperCase(e *env) {
	b := optional[engine.Backuper](e, "Backuper")
	before := e.put("before", "1")
	writing := make(chan error, 1)
	go func() { writing <- e.increments("n", 200) }()
	var buf bytes.Buffer
	pos, err := b.Backup(e.ctx, &buf)
	if err := receive(e, "writers beside a backup", writing); err != nil {
		e.Fatalf("write beside a backup: %v", err)
	}
	if err != nil || buf.Len() == 0 {
		e.Fatalf("backup: %d bytes, %v", buf.Len(), err)
	}
	if last := e.put("after", "1"); pos < before || pos >= last {
		e.Fatalf("a backup begun at %d and ended before %d is of position %d", before, last, pos)
	}
	if e.o.Restore == nil {
		e.Logf("Options.Restore is not set")
		return
	}
	e.close()
	e.adopt(e.o.Restore(e.T, &buf))
	e.has("before", "1")
	e.lacks("after")
}

// failingWriter fails after some bytes.
type failingWriter struct {
	left int
	err  error
}

func (w *failingWriter) Write(p []byte) (int, error) {
	if w.left -= len(p); w.left < 0 {
		return 0, w.err
	}
	return len(p), nil
}

func backuperFails(e *env) {
	b := optional[engine.Backuper](e, "Backuper")
	e.put("a", "1")
	full := errors.New("no room")
	_, err := b.Backup(e.ctx, &failingWriter{4, full})
	e.is("a backup whose writer fails", err, full)
	ctx, cancel := context.WithCancel(e.ctx)
	cancel()
	_, err = b.Backup(ctx, &bytes.Buffer{})
	e.is("a backup whose ctx has ended", err, context.Canceled)
	e.has("a", "1")
}

// stopperCase checks that a healthy engine has not stopped, and that Close does not count
// as a stop.
func stopperCase(e *env) {
	s := optional[engine.Stopper](e, "Stopper")
	healthy := func(when string) {
		e.Helper()
		select {
		case <-s.Stopped():
			e.Fatalf("%s the engine has stopped by itself: %v", when, s.Err())
		default:
		}
		if err := s.Err(); err != nil {
			e.Fatalf("%s Err is %v, and Stopped is open", when, err)
		}
	}
	healthy("at first")
	e.put("a", "1")
	healthy("after a write")
	e.close()
	healthy("after Close")
}

// cluster returns the engine's cluster, or skips the case.
func (e *env) cluster() engine.Cluster {
	e.Helper()
	c := optional[engine.Clustered](e, "Clustered").Cluster()
	if c == nil {
		e.Skipf("skipped: the engine runs alone")
	}
	return c
}

// clusteredCase checks that the node that accepts writes is the leader that its cluster
// names.
func clusteredCase(e *env) {
	c := e.cluster()
	ctx, cancel := context.WithTimeout(e.ctx, e.o.Wait)
	defer cancel()
	leader, err := c.AwaitLeader(ctx)
	if err != nil {
		e.Fatalf("await a leader: %v", err)
	}
	st := c.State()
	if n, ok := st.Node(leader.ID); !ok || !n.Voter {
		e.Fatalf("the leader %d is no voter of %+v", leader.ID, st)
	}
	if leader.ID == st.Self {
		e.put("a", "1")
		return
	}
	ran := false
	_, err = e.eng.Update(e.ctx, func(engine.Tx) error { ran = true; return nil })
	e.is("an update on a node that does not lead", err, engine.ErrNotLeader)
	if ran {
		e.Fatalf("a node that does not lead ran a function")
	}
}

func advertiserCase(e *env) {
	a := optional[engine.Advertiser](e, "Advertiser")
	a.Advertise("127.0.0.1:1", "") // nothing, if the engine runs alone
	c := e.cluster()
	e.eventually("the advertised addresses", func() bool {
		st := c.State()
		n, _ := st.Node(st.Self)
		return n.HTTP == "127.0.0.1:1" && n.RESP == ""
	})
}

func handOverCase(e *env) {
	h := optional[engine.HandOverer](e, "HandOverer")
	e.within(e.o.Wait, "HandOver", h.HandOver) // nothing, if the engine runs alone
	c := e.cluster()
	ctx, cancel := context.WithTimeout(e.ctx, e.o.Wait)
	defer cancel()
	if _, err := c.AwaitLeader(ctx); err != nil {
		e.Fatalf("await a leader: %v", err)
	}
	e.within(e.o.Wait, "HandOver", h.HandOver)
	if len(c.State().Nodes) == 1 {
		e.put("a", "1") // no other node can lead
	}
}

// expirerCase checks that a key is there until its time, and that a later write removes
// that time.
func expirerCase(e *env) {
	offered := true
	putUntil := func(key string, until time.Time) {
		e.Helper()
		e.update(func(tx engine.Tx) error {
			x, ok := tx.(engine.Expirer)
			if offered = ok; !ok {
				return nil
			}
			return x.PutUntil([]byte(key), []byte("1"), until)
		})
		if !offered {
			e.Skipf("skipped: the transactions are no engine.Expirer")
		}
	}
	now := time.Now()
	putUntil("hour", now.Add(time.Hour))
	putUntil("far", now.AddDate(600, 0, 0)) // further than a time.Duration
	e.has("hour", "1")
	putUntil("replaced", now.Add(20*time.Millisecond))
	e.put("replaced", "2")
	putUntil("longer", now.Add(20*time.Millisecond))
	putUntil("longer", now.Add(time.Hour))
	putUntil("gone", now.Add(-time.Hour)) // at once, later or never
	time.Sleep(60 * time.Millisecond)
	e.has("hour", "1", "far", "1", "replaced", "2", "longer", "1")
	e.update(func(tx engine.Tx) error { return tx.Delete([]byte("longer")) })
	e.lacks("longer")
}

// manyCase compares GetMany with Get, in views and among a transaction's own writes.
func manyCase(e *env) {
	m := model{}
	offered := true
	compare := func(tx engine.Tx) error {
		g, ok := tx.(engine.ManyGetter)
		if offered = ok; !ok {
			return nil
		}
		var keys [][]byte
		for range 20 { // with duplicates
			keys = append(keys, []byte(randomKey(e.rng)))
		}
		vals, err := g.GetMany(keys)
		if err != nil || len(vals) != len(keys) {
			return fmt.Errorf("GetMany of %d keys: %d values, %w", len(keys), len(vals), err)
		}
		for i, key := range keys {
			want, ok, err := tx.Get(key)
			if err != nil {
				return err
			}
			if (vals[i] != nil) != ok || !bytes.Equal(vals[i], want) {
				return fmt.Errorf("GetMany: %q = %q (nil %t); Get returns %q, %t", key, vals[i], vals[i] == nil, want, ok)
			}
		}
		return nil
	}
	e.put("\x00", "", "a", "") // empty values
	m["\x00"], m["a"] = "", ""
	for range 20 {
		ops := randomOps(e.rng, 1+e.rng.IntN(8))
		e.update(func(tx engine.Tx) error {
			if _, err := m.apply(tx, ops); err != nil {
				return err
			}
			return compare(tx)
		})
		e.view(compare)
		if !offered {
			e.Skipf("skipped: the transactions are no engine.ManyGetter")
		}
		m = e.held()
	}
}

// expecterCase announces keys of all kinds before, during and after transactions. What
// these see, and what they leave, stays that of the model.
func expecterCase(e *env) {
	m := model{}
	var ended engine.Expecter
	announce := func(tx engine.Tx) {
		x, ok := tx.(engine.Expecter)
		if !ok {
			return
		}
		ended = x
		keys := [][]byte{nil, {}, make([]byte, e.p.MaxKeyBytes+1)}
		for range e.rng.IntN(200) {
			keys = append(keys, []byte(randomKey(e.rng)))
		}
		x.Expects()
		x.Expect(keys[e.rng.IntN(4):])
		for _, key := range keys {
			clear(key) // it keeps none
		}
	}
	for range max(20, e.o.Steps/50) {
		ops := randomOps(e.rng, 1+e.rng.IntN(8))
		var after model
		e.update(func(tx engine.Tx) (err error) {
			after = m
			for _, o := range ops {
				announce(tx)
				if after, err = after.apply(tx, []op{o}); err != nil {
					return err
				}
			}
			announce(tx)
			return after.check(tx)
		})
		if ended == nil {
			e.Skipf("skipped: the transactions are no engine.Expecter")
		}
		ended.Expect([][]byte{[]byte("a"), []byte("b")})
		m = after
		e.view(func(tx engine.Tx) error {
			announce(tx)
			return m.check(tx)
		})
		ended.Expect([][]byte{[]byte("a"), []byte("b")})
	}
}

// held returns the data of a new view.
func (e *env) held() model {
	e.Helper()
	var m model
	e.view(func(tx engine.Tx) error {
		m = model{}
		for p, err := range tx.Scan(nil, nil) {
			if err != nil {
				return err
			}
			m[string(p.Key)] = string(p.Val)
		}
		return nil
	})
	return m
}

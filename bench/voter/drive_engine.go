package main

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/skerrydb/skerry/bench/rig"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/embedded"
	"github.com/skerrydb/skerry/examples/voter"
	"github.com/skerrydb/skerry/proc"
)

// newEngine is the procedure on the engine within the load generator, which has
// one core (GOMAXPROCS=1).
func newEngine(name, dir string) *system {
	return &system{
		name: name, version: "engine and procedure in the load generator, on one core", dir: dir + "/" + name,
		lanes: []lane{
			{"in process, 1 × 64 calls", "in-process", 1, 64},
			{"in process, 8 × 64 calls", "in-process", 8, 8 * 64},
		},
	}
}

// driveEngine hands calls to the engine as the RESP face does with what one read
// of a connection has brought: Conns goroutines, each with Flight/Conns calls.
func driveEngine(m *meter) (err error) {
	ctx := context.Background()
	db, err := embedded.Open(m.Dir, embedded.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	set, err := proc.New(db, proc.Options{}, voter.Procedures()...)
	if err != nil {
		return err
	}
	if _, _, err := voter.Initialize.Call(ctx, set, voter.InitializeIn{Contestants: voter.MaxContestants}); err != nil {
		return err
	}
	before, _, err := voter.Check.Call(ctx, set, struct{}{})
	if err != nil {
		return err
	}
	errs := make([]error, m.Conns)
	m.start = time.Now()
	var wg sync.WaitGroup
	for i := range m.Conns {
		b, h := m.ballot(i), m.hist()
		wg.Go(func() { errs[i] = m.pipeline(ctx, db, set, b, h, m.Flight/m.Conns) })
	}
	m.window()
	wg.Wait()
	after, _, err := voter.Check.Call(ctx, set, struct{}{})
	if n := after.ByContestant - before.ByContestant; err == nil && (n != m.votes.Load() || !after.Agree()) {
		err = errors.New("the engine has counted " + strconv.FormatInt(n, 10) + " votes, not as many as it acknowledged")
	}
	return errors.Join(append(errs, err)...)
}

// pipeline calls n times in one hand-over, again and again. Arguments come as
// text and are read as a face reads them.
func (m *meter) pipeline(ctx context.Context, db *embedded.DB, set *proc.Set, b *ballot, h *rig.Hist, n int) error {
	calls := make([]*proc.Call, n)
	var phone, contestant [20]byte
	limit := strconv.AppendInt(nil, maxVotes, 10)
	args := make([][]byte, 3)
	name := []byte("vote")
	for !m.done.Load() {
		counts, from := m.count.Load(), time.Now()
		for i := range calls {
			var err error
			if calls[i], err = set.Begin(name); err != nil {
				return err
			}
			p, c := b.next()
			args[0], args[1], args[2] = strconv.AppendInt(phone[:0], p, 10), strconv.AppendInt(contestant[:0], int64(c), 10), limit
			if err := calls[i].Arguments(args); err != nil {
				return err
			}
		}
		var failed error
		_, err := engine.UpdateEach(ctx, db, n, func(tx engine.Tx, i int) error {
			err := calls[i].Run(tx)
			if err != nil {
				failed = err
			}
			return err
		})
		if err = errors.Join(err, failed); err != nil {
			return err
		}
		for _, c := range calls {
			c.End()
		}
		m.votes.Add(int64(n))
		if counts && m.count.Load() {
			h.Add(time.Since(from))
		}
	}
	return nil
}

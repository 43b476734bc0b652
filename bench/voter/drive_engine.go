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
	"github.com/skerrydb/skerry/kv"
	"github.com/skerrydb/skerry/proc"
)

// newEngine is the procedure on an engine inside the load generator, which has one core (GOMAXPROCS=1).
func newEngine(name, dir string) *system {
	return &system{
		name: name, version: "engine and procedure in the load generator, on one core", dir: dir + "/" + name,
		lanes: []lane{
			{"in process, 1 × 64 calls", "in-process", 1, 64},
			{"in process, 8 × 64 calls", "in-process", 8, 8 * 64},
		},
	}
}

// driveEngine passes calls to the engine in batches, as the RESP face does with the commands of one read:
// Conns goroutines, each with Flight/Conns calls.
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
		p, h := newPipeline(set, m.ballot(i), m.Flight/m.Conns), m.hist()
		wg.Go(func() { errs[i] = p.drive(ctx, db, m, h) })
	}
	m.window()
	wg.Wait()
	after, _, err := voter.Check.Call(ctx, set, struct{}{})
	if n := after.ByContestant - before.ByContestant; err == nil && (n != m.votes.Load() || !after.Agree()) {
		err = errors.New("the engine has counted " + strconv.FormatInt(n, 10) + " votes, not as many as it acknowledged")
	}
	return errors.Join(append(errs, err)...)
}

// pipeline calls n times in one batch. Arguments come as text and are parsed as by a face.
type pipeline struct {
	set               *proc.Set
	b                 *ballot
	calls             []*proc.Call
	ahead             kv.Tx
	name              []byte
	args              [][]byte
	phone, contestant [20]byte
	failed            error
}

func newPipeline(set *proc.Set, b *ballot, n int) *pipeline {
	p := &pipeline{set: set, b: b, calls: make([]*proc.Call, n), name: []byte("vote"), args: make([][]byte, 3)}
	p.args[2] = strconv.AppendInt(nil, maxVotes, 10)
	return p
}

// run makes all calls once.
func (p *pipeline) run(ctx context.Context, db engine.Engine) (err error) {
	for i := range p.calls {
		if p.calls[i], err = p.set.Begin(p.name); err != nil {
			return err
		}
		phone, contestant := p.b.next()
		p.args[0], p.args[1] = strconv.AppendInt(p.phone[:0], phone, 10), strconv.AppendInt(p.contestant[:0], int64(contestant), 10)
		if err := p.calls[i].Arguments(p.args); err != nil {
			return err
		}
	}
	_, err = engine.UpdateEach(ctx, db, len(p.calls), p.one)
	for _, c := range p.calls {
		c.End()
	}
	return errors.Join(err, p.failed)
}

func (p *pipeline) one(tx engine.Tx, i int) error {
	if i%kv.MaxExpected == 0 {
		p.expect(tx, p.calls[i:])
	}
	err := p.calls[i].Run(tx)
	if err != nil {
		p.failed = err
	}
	return err
}

// expect announces the keys of the next calls.
func (p *pipeline) expect(tx engine.Tx, calls []*proc.Call) {
	if p.ahead.Bind(tx, 0); !p.ahead.Expects() {
		return
	}
	for _, c := range calls {
		if !c.Expect(&p.ahead) {
			break
		}
	}
	p.ahead.Announce()
}

// drive makes calls until the window is over.
func (p *pipeline) drive(ctx context.Context, db engine.Engine, m *meter, h *rig.Hist) error {
	for !m.done.Load() {
		counts, from := m.count.Load(), time.Now()
		if err := p.run(ctx, db); err != nil {
			return err
		}
		m.votes.Add(int64(len(p.calls)))
		if counts && m.count.Load() {
			h.Add(time.Since(from))
		}
	}
	return nil
}

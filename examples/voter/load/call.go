package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/skerrydb/skerry/client"
	"github.com/skerrydb/skerry/client/sqldriver"
	"github.com/skerrydb/skerry/examples/meter"
	"github.com/skerrydb/skerry/examples/voter"
)

// call votes in the chosen mode until ctx ends, and returns when all calls have ended.
func (o *options) call(ctx context.Context, c *client.Client, m *meter.Meter) error {
	switch o.mode {
	case "blocking":
		return o.blocking(ctx, c, m)
	case "async":
		return o.async(ctx, c, m)
	case "sql":
		return o.sql(ctx, c, m)
	}
	return fmt.Errorf("there is no mode %q: blocking, async or sql", o.mode)
}

// voters generates random calls; it must be used by one goroutine.
func (o *options) voters(id int) func() (phone int64, contestant int) {
	rnd := rand.New(rand.NewPCG(o.seed, uint64(id)))
	return func() (int64, int) { return voter.Phone(rnd.Uint64N(o.phones)), 1 + rnd.IntN(o.contestants) }
}

// blocking runs one goroutine per caller; each waits for its reply.
func (o *options) blocking(ctx context.Context, c *client.Client, m *meter.Meter) error {
	return o.callers(ctx, m, func(phone int64, contestant int) error {
		if !o.once {
			_, err := c.Call(context.Background(), "vote", phone, contestant, o.maxVotes)
			return err
		}
		// A call that the client gave up on can be repeated: because of the key, the vote counts once.
		for key := client.NewKey(); ; {
			_, err := c.CallOnce(context.Background(), key, "vote", phone, contestant, o.maxVotes)
			if outcome(err) != meter.Unknown || ctx.Err() != nil {
				return err
			}
		}
	})
}

// async is one goroutine that makes calls without waiting. Once -inflight calls are under way, CallAsync
// blocks until one has a reply.
func (o *options) async(ctx context.Context, c *client.Client, m *meter.Meter) error {
	next := o.voters(0)
	var out sync.WaitGroup
	for ctx.Err() == nil {
		phone, contestant := next()
		from := time.Now()
		done := func(_ client.Result, err error) {
			m.End(outcome(err), time.Since(from), err)
			out.Done()
		}
		m.Begin()
		out.Add(1)
		var err error
		if o.once {
			err = c.CallOnceAsync(context.Background(), done, client.NewKey(), "vote", phone, contestant, o.maxVotes)
		} else {
			err = c.CallAsync(context.Background(), done, "vote", phone, contestant, o.maxVotes)
		}
		if err != nil {
			done(client.Result{}, err)
		}
	}
	out.Wait()
	return nil
}

// sql is blocking through database/sql, whose connections share one client.
func (o *options) sql(ctx context.Context, c *client.Client, m *meter.Meter) error {
	db := sql.OpenDB(sqldriver.NewConnector(c, sqldriver.Options{Once: o.once}))
	defer db.Close()
	db.SetMaxOpenConns(o.clients)
	db.SetMaxIdleConns(o.clients)
	return o.callers(ctx, m, func(phone int64, contestant int) error {
		var cast int64
		// No prepared statement: the driver caches parsed statements.
		return db.QueryRow("CALL vote(?, ?, ?)", phone, contestant, o.maxVotes).Scan(&cast)
	})
}

// callers runs the goroutines of a blocking mode.
func (o *options) callers(ctx context.Context, m *meter.Meter, call func(phone int64, contestant int) error) error {
	var wg sync.WaitGroup
	for id := range o.clients {
		wg.Go(func() {
			next := o.voters(id)
			for ctx.Err() == nil {
				phone, contestant := next()
				m.Begin()
				from := time.Now()
				err := call(phone, contestant)
				m.End(outcome(err), time.Since(from), err)
			}
		})
	}
	wg.Wait()
	return nil
}

// outcome returns what an error means for the vote.
func outcome(err error) meter.Outcome {
	e, ok := errors.AsType[*client.Error](err)
	switch {
	case err == nil:
		return meter.Done
	case errors.Is(err, client.ErrOutcomeUnknown), !ok:
		return meter.Unknown
	case e.Code == string(voter.CodeTooManyVotes), e.Code == string(voter.CodeUnknownContestant):
		return meter.Refused
	}
	return meter.Failed
}

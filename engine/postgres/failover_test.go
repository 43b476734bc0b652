package postgres

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/skerrydb/skerry/ci/pgserver"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/enginetest"
)

// hosts returns the URL of a database that may be on either server, where it can be written to.
func hosts(at string, servers ...*pgserver.Server) string {
	u, _ := url.Parse(at)
	var list []string
	for _, s := range servers {
		list = append(list, s.Addr())
	}
	u.Host = strings.Join(list, ",")
	q := u.Query()
	q.Set("target_session_attrs", "read-write")
	q.Set("connect_timeout", "2")
	u.RawQuery = q.Encode()
	return u.String()
}

func put(t *testing.T, d *DB, key, val string) engine.Position {
	t.Helper()
	pos, err := d.Update(t.Context(), func(tx engine.Tx) error { return tx.Put([]byte(key), []byte(val)) })
	if err != nil {
		t.Fatalf("put %s: %v", key, err)
	}
	return pos
}

func get(ctx context.Context, d *DB, r engine.Read, key string) (val string, pos engine.Position, err error) {
	pos, err = d.View(ctx, r, func(tx engine.Tx) error {
		v, _, err := tx.Get([]byte(key))
		val = string(v)
		return err
	})
	return val, pos, err
}

func wantCode(t *testing.T, err error, code engine.Code, text string) {
	t.Helper()
	if engine.CodeOf(err) != code || !strings.Contains(fmt.Sprint(err), text) {
		t.Errorf("want %s with %q, got %s: %v", code, text, engine.CodeOf(err), err)
	}
}

func closeAfter(t *testing.T, d *DB) *DB {
	t.Helper()
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// collect reads changes until it has the one of last, or an error.
func collect(t *testing.T, d *DB, after, last engine.Position) (list []engine.Position, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for c, err := range d.Changes(ctx, after) {
		if err != nil {
			return list, err
		}
		if list = append(list, c.Pos); c.Pos >= last {
			return list, nil
		}
	}
	return list, ctx.Err()
}

// TestStandby reads from a hot standby, promotes it when it lacks commits, and lets the old primary come back.
func TestStandby(t *testing.T) {
	t.Parallel()
	one := pgserver.Start(t)
	one.Exec(t, "CREATE DATABASE app")
	at := one.URL("app")
	first := open(enginetest.Adapt(t), at, Options{})
	put(t, first, "a", "1")
	two := one.Standby(t, "two")
	follower := openT(t, two.URL("app"), Options{})
	kept := put(t, first, "a", "2")
	val, pos, err := get(t.Context(), follower, engine.Read{Level: engine.Session, AtLeast: kept}, "a")
	if val != "2" || pos != kept || err != nil {
		t.Fatalf("the standby has %q at %d, %v; want position %d", val, pos, err, kept)
	}
	if list, err := collect(t, follower, 0, kept); err != nil || !slices.Equal(list, []engine.Position{1, 2}) {
		t.Errorf("changes on the standby: %v, %v", list, err)
	}
	_, err = follower.Update(t.Context(), func(engine.Tx) error { return nil })
	wantCode(t, err, engine.CodeReadOnly, "send writes to the primary")
	_, _, err = get(t.Context(), follower, engine.Read{Level: engine.Linearizable}, "a")
	wantCode(t, err, engine.CodeUnsupported, "a standby may be behind")
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}

	two.Stop(t) // what is committed now is lost in the failover
	both := openT(t, hosts(at, one, two), Options{Patience: 30 * time.Second})
	var lost engine.Position
	for i := range 3 {
		lost = put(t, both, "a", fmt.Sprint("lost ", i))
	}
	one.Kill(t)
	two.Restart(t)
	two.Promote(t)
	afterFailover(t, both, kept, lost)

	one.Restart(t) // it takes itself for a primary, and is the first in the URL
	oldPrimary(t, at, both, lost)
}

// afterFailover checks an engine that saw commits which the promoted server does not have.
func afterFailover(t *testing.T, d *DB, kept, lost engine.Position) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	val, pos, err := get(ctx, d, engine.Read{Level: engine.Local}, "a") // without any write
	if val != "2" || pos <= lost || err != nil {
		t.Fatalf("after the failover: %q at %d, %v; want a position after %d", val, pos, err, lost)
	}
	next := put(t, d, "b", "1")
	if next <= lost || next>>epochBits != 1 {
		t.Errorf("position %d after the failover; %d was lost", next, lost)
	}
	_, _, err = get(ctx, d, engine.Read{AtLeast: lost}, "a")
	wantCode(t, err, engine.CodeTruncated, "was lost in a failover")
	_, err = collect(t, d, lost, next)
	wantCode(t, err, engine.CodeTruncated, "was lost in a failover")
	if list, err := collect(t, d, kept, next); err != nil || list[len(list)-1] != next || !slices.IsSorted(list) {
		t.Errorf("changes from the fork: %v, %v", list, err)
	}
}

// oldPrimary checks that an engine which knows the new primary does not go back to the old one.
func oldPrimary(t *testing.T, at string, both *DB, lost engine.Position) {
	t.Helper()
	cut(enginetest.Adapt(t), at) // not the sessions of the new primary
	before := put(t, both, "c", "1")
	both.views.purge()
	both.work.purge()
	if val, pos, err := get(t.Context(), both, engine.Read{}, "a"); val != "2" || pos < before || err != nil {
		t.Errorf("the old primary was read: %q at %d, %v", val, pos, err)
	}

	// A process that knows only the old one is not held back: operators must.
	alone := openT(t, at, Options{Patience: 100 * time.Millisecond})
	if pos := put(t, alone, "a", "split"); pos <= lost || pos >= before {
		t.Errorf("position %d on the old primary", pos)
	}
	// But not if it has seen the new epoch.
	alone.advance(before)
	_, err := alone.Update(t.Context(), func(tx engine.Tx) error { return tx.Put([]byte("a"), nil) })
	wantCode(t, err, engine.CodeUnavailable, "an old primary")
	_, _, err = get(t.Context(), alone, engine.Read{}, "a")
	wantCode(t, err, engine.CodeUnavailable, "an old primary")
	_, err = collect(t, alone, lost, before)
	wantCode(t, err, engine.CodeUnavailable, "an old primary")
}

// TestRaiseAfterFailover: positions from before a raise may be asked for, also those that a failover had lost. Those that a later
// failover loses may not.
func TestRaiseAfterFailover(t *testing.T) {
	t.Parallel()
	server := pgserver.Shared(t)
	at := server.Database(t)
	failOver := func() *DB {
		c, err := pgx.Connect(t.Context(), at)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close(t.Context())
		if _, err := c.Exec(t.Context(), "UPDATE skerry.pos SET timeline = timeline - 1"); err != nil {
			t.Fatal(err)
		}
		return openT(t, at, Options{})
	}
	last := put(t, openT(t, at, Options{}), "a", "1")
	d := failOver()
	_, _, err := get(t.Context(), d, engine.Read{AtLeast: last + 1}, "a")
	wantCode(t, err, engine.CodeTruncated, "was lost in a failover")
	raised, err := d.Raise(t.Context(), 5<<epochBits)
	if err != nil {
		t.Fatal(err)
	}
	d = failOver()
	for at, lost := range map[engine.Position]bool{last: false, last + 1: false, raised - 1: false, raised: false, raised + 1: true} {
		if _, _, err := get(t.Context(), d, engine.Read{AtLeast: at}, "a"); errors.Is(err, engine.ErrTruncated) != lost || err != nil && !lost {
			t.Errorf("a view of position %d, after positions were raised to %d: %v", at, raised, err)
		}
	}
	if list, err := collect(t, d, raised, put(t, d, "a", "2")); err != nil {
		t.Errorf("changes after the raised position: %v, %v", list, err)
	}
	_, err = collect(t, d, last, raised)
	wantCode(t, err, engine.CodeTruncated, "before the positions were raised")
}

// bank adds to counters until ctx ends, and returns how many additions were acknowledged, and of how many the outcome
// is not known.
func bank(ctx context.Context, d *DB, key string, added func()) (acked, unknown int, err error) {
	for ctx.Err() == nil {
		_, err := d.Update(context.WithoutCancel(ctx), func(tx engine.Tx) error {
			v, _, err := tx.Get([]byte(key))
			if err != nil {
				return err
			}
			return tx.Put([]byte(key), fmt.Append(nil, number(v)+1))
		})
		switch {
		case err == nil:
			acked++
			added()
		case errors.Is(err, engine.ErrOutcomeUnknown):
			unknown++
		case engine.CodeOf(err) != engine.CodeUnavailable:
			return acked, unknown, err
		}
	}
	return acked, unknown, nil
}

func number(v []byte) (n int) {
	_, _ = fmt.Sscan(string(v), &n) // nothing is 0
	return n
}

func openT(t *testing.T, at string, o Options) *DB {
	t.Helper()
	return closeAfter(t, open(enginetest.Adapt(t), at, o))
}

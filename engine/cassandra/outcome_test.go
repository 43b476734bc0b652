package cassandra

import (
	"bytes"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/apache/cassandra-gocql-driver/v2"

	"github.com/skerrydb/skerry/ci/cassandraserver"
	"github.com/skerrydb/skerry/engine"
)

// TestStamps: a stamp says what became of a commit, as long as it names what the commit follows.
func TestStamps(t *testing.T) {
	id, other := []byte("mine-id."), []byte("other-id")
	long := []byte{}
	for range stampIDs {
		long = follow(long, newID())
	}
	for _, c := range []struct {
		name      string
		now, base []byte
		want      outcome
	}{
		{"applied", follow(long, id), long, committed},
		{"applied, then another", follow(follow(long, id), other), long, committed},
		{"not yet", long, long, pending},
		{"not yet, the first", nil, nil, pending},
		{"another one", follow(long, other), long, lost},
		{"another one first", follow(nil, other), nil, lost},
		{"many others", long, follow(nil, other), forgotten},
		{"many others first", long, nil, forgotten},
		{"expired", nil, long, forgotten},
	} {
		if got := settle(c.now, c.base, id); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
	if s := follow(long, id); len(s) != stampIDs*idBytes || !bytes.HasSuffix(s, id) || names(s, long[:idBytes]) {
		t.Errorf("a stamp of %d bytes follows one of %d", len(s), len(long))
	}
}

// TestLostAnswers loses answers of batches, which were applied or not. Each change is made once, and none is unknown.
func TestLostAnswers(t *testing.T) {
	s := cassandraserver.Shared(t)
	keyspace, done := cassandraserver.Keyspace(t, "meta")
	defer done()
	lose, sent := "", 0
	late := []func() error{}
	eng := open1(t, s.URL(keyspace), Options{through: func(send func() error) error {
		sent++
		was := lose
		lose = ""
		switch was {
		case "answer":
			return errors.Join(send(), gocql.ErrConnectionClosed)
		case "request":
			return gocql.ErrTimeoutNoResponse
		case "delayed":
			late = append(late, send)
			return gocql.ErrTimeoutNoResponse
		}
		return send()
	}})
	defer eng.Close()
	p := &pairs{eng: eng}
	for i, how := range []string{"answer", "request", "delayed", "", "answer", "delayed"} {
		lose = how
		if err := p.add(t.Context(), 0); err != nil {
			t.Fatalf("%d, %q is lost: %v", i, how, err)
		}
		for _, send := range late { // the fence keeps it from being applied
			_ = send()
		}
		if n, err := p.look(t.Context(), engine.Read{}, 0); err != nil || n != int64(i+1) {
			t.Fatalf("%d, %q is lost: %d, %v", i, how, n, err)
		}
	}
	if n := eng.(*db).settled.Load(); n != 5 {
		t.Errorf("%d outcomes were found out, want 5", n)
	}
}

// TestUnknownOutcome loses an answer and everything after it.
func TestUnknownOutcome(t *testing.T) {
	s := cassandraserver.Shared(t)
	keyspace, done := cassandraserver.Keyspace(t, "meta")
	defer done()
	eng := open1(t, s.URL(keyspace), Options{patience: 100 * time.Millisecond, through: func(func() error) error { return gocql.ErrTimeoutNoResponse }})
	defer eng.Close()
	_, err := eng.Update(t.Context(), func(tx engine.Tx) error { return tx.Put([]byte("a"), nil) })
	if !errors.Is(err, engine.ErrOutcomeUnknown) {
		t.Error(err)
	}
}

// TestLimits writes as much as one transaction may.
func TestLimits(t *testing.T) {
	s := cassandraserver.Shared(t)
	keyspace, done := cassandraserver.Keyspace(t, "meta")
	defer done()
	eng := open1(t, s.URL(keyspace), Options{})
	defer eng.Close()
	a, b := []byte("{p}a"), []byte("{p}b")
	largest := bytes.Repeat([]byte("v"), MaxValBytes)
	put := func(over int) error {
		_, err := eng.Update(t.Context(), func(tx engine.Tx) error {
			if err := tx.Put(a, largest[:MaxValBytes-len(a)]); err != nil {
				return err
			}
			return tx.Put(b, largest[:MaxValBytes-len(b)+over])
		})
		return err
	}
	if err := put(0); err != nil {
		t.Error(err)
	}
	if err := put(1); !errors.Is(err, engine.ErrTxTooLarge) {
		t.Errorf("one byte more: %v", err)
	}
	many := func(n int) error {
		_, err := eng.Update(t.Context(), func(tx engine.Tx) error {
			for i := range n {
				if err := tx.Put(slices.Concat(a, []byte{byte(i >> 8), byte(i)}), nil); err != nil {
					return err
				}
			}
			return nil
		})
		return err
	}
	if err := many(MaxTxKeys); err != nil {
		t.Error(err)
	}
	if err := many(MaxTxKeys + 1); !errors.Is(err, engine.ErrTxTooLarge) {
		t.Errorf("one key more: %v", err)
	}
}

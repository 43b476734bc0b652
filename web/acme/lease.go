package acme

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/kv"
)

// unlockWithin bounds Unlock, which certmagic calls with a context that never ends.
const unlockWithin = 10 * time.Second

// lease is a lock that this Storage holds or waits for.
type lease struct {
	free chan struct{} // closed by Unlock: the next one here may try

	// Set once it is held, under Storage.mu.
	holder []byte // the key's value: random, so that nobody else's is taken for it
	cancel context.CancelFunc
	done   chan struct{} // closed when renewing has ended
	ending bool          // somebody unlocks it
}

// Lock waits until nobody holds the lock called name, and takes it. It returns
// ctx's error, or engine.ErrNotLeader on a node that does not lead.
func (s *Storage) Lock(ctx context.Context, name string) error {
	_, err := s.lock(ctx, name, true)
	return err
}

// TryLock takes the lock if nobody holds it.
func (s *Storage) TryLock(ctx context.Context, name string) (bool, error) {
	return s.lock(ctx, name, false)
}

// lock takes turns within the process first: a lock whose lease has run out is
// still held here until its holder unlocks it, so that Unlock always means the
// lock that was taken last.
func (s *Storage) lock(ctx context.Context, name string, wait bool) (bool, error) {
	if name == "" {
		return false, engine.Errorf(engine.CodeInvalid, "certificates: a lock has no name")
	}
	l := &lease{free: make(chan struct{})}
	for {
		s.mu.Lock()
		other := s.held[name]
		if other == nil {
			s.held[name] = l
		}
		s.mu.Unlock()
		if other == nil {
			break
		}
		if !wait {
			return false, nil
		}
		select {
		case <-other.free:
		case <-ctx.Done():
			return false, fmt.Errorf("lock %s: %w", name, ctx.Err())
		}
	}
	ok, err := s.take(ctx, name, l, wait)
	if !ok {
		s.drop(name, l)
	}
	if err != nil {
		return false, fmt.Errorf("lock %s: %w", name, err)
	}
	return ok, nil
}

// drop lets the next one in this process try.
func (s *Storage) drop(name string, l *lease) {
	s.mu.Lock()
	delete(s.held, name)
	s.mu.Unlock()
	close(l.free)
}

// take writes the lock's key, which is there as long as somebody holds it.
func (s *Storage) take(ctx context.Context, name string, l *lease, wait bool) (bool, error) {
	var id [16]byte
	_, _ = rand.Read(id[:])
	holder := []byte(hex.EncodeToString(id[:]))
	pause := max(min(s.lease/10, time.Second), time.Millisecond)
	for {
		// It is there already if an earlier try was committed without our knowing.
		ok, err := s.write(ctx, name, holder, true)
		switch {
		case err != nil && (ctx.Err() != nil || !errors.Is(err, engine.ErrOutcomeUnknown)):
			return false, err
		case err == nil && ok:
			renewing, cancel := context.WithCancel(context.Background())
			s.mu.Lock()
			l.holder, l.cancel, l.done = holder, cancel, make(chan struct{})
			s.mu.Unlock()
			go s.renew(renewing, name, l)
			return true, nil
		case err == nil && !wait:
			return false, nil
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
}

// write lets the lock's key live for a lease from now on, if it is the holder's or,
// if it may be new, nobody's. It reports whether it has.
func (s *Storage) write(ctx context.Context, name string, holder []byte, mayBeNew bool) (ok bool, err error) {
	key := []byte(leasePrefix + name)
	_, err = s.store.Update(ctx, s.space, func(t *kv.Tx) error {
		old, there, err := t.Get(key)
		if err != nil {
			return err
		}
		if ok = there && bytes.Equal(old.Val, holder) || !there && mayBeNew; !ok {
			return nil
		}
		_, err = t.Set(key, holder, kv.SetOptions{TTL: s.lease, SkipOld: true})
		return err
	})
	return ok && err == nil, err
}

// renew keeps the lock's key from expiring until ctx ends or it is too late.
func (s *Storage) renew(ctx context.Context, name string, l *lease) {
	defer close(l.done)
	end := time.Now().Add(s.lease)
	every := time.NewTicker(s.lease / 3)
	defer every.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-every.C:
		}
		ok, err := s.write(ctx, name, l.holder, false)
		switch {
		case err == nil && ok:
			end = time.Now().Add(s.lease)
		case ctx.Err() != nil:
			return
		case err == nil:
			s.log.Warn("certificate lock lost: its lease expired", "lock", name)
			return
		case time.Now().After(end):
			s.log.Warn("certificate lock lost: its lease could not be renewed", "lock", name, "error", err)
			return
		}
	}
}

// Unlock gives the lock back. If that cannot be written, as on a node that leads
// no more, the error says so and the lease ends the lock. A lock that was lost is
// no error: it is not held any more.
func (s *Storage) Unlock(ctx context.Context, name string) error {
	s.mu.Lock()
	l := s.held[name]
	held := l != nil && l.done != nil && !l.ending
	if held {
		l.ending = true
	}
	s.mu.Unlock()
	if !held {
		return engine.Errorf(engine.CodeInvalid, "certificates: unlock %s, which is not locked here", name)
	}
	l.cancel()
	<-l.done
	defer s.drop(name, l)
	ctx, cancel := context.WithTimeout(ctx, unlockWithin)
	defer cancel()
	key := []byte(leasePrefix + name)
	_, err := s.store.Update(ctx, s.space, func(t *kv.Tx) error {
		e, there, err := t.Get(key)
		if err != nil || !there || !bytes.Equal(e.Val, l.holder) {
			return err
		}
		_, err = t.Delete(key)
		return err
	})
	if err != nil {
		return fmt.Errorf("unlock %s: %w", name, err)
	}
	return nil
}

// settle waits until every lock is given back, so that a program that stops leaves
// none behind, but not for long.
func (s *Storage) settle() {
	for end := time.Now().Add(unlockWithin); time.Now().Before(end); time.Sleep(time.Millisecond) {
		s.mu.Lock()
		n := len(s.held)
		s.mu.Unlock()
		if n == 0 {
			return
		}
	}
}

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

// lease is a lock that this Storage has or waits for.
type lease struct {
	free chan struct{} // closed by Unlock: the next waiter in this process may try

	// Set once the lock is taken, under Storage.mu.
	holder []byte // the key's value: random, so that it is nobody else's
	cancel context.CancelFunc
	done   chan struct{} // closed when renewing has ended
	ending bool          // Unlock has begun
}

// Lock waits until the lock called name is free, and takes it. It returns ctx's error, or engine.ErrNotLeader
// on a node that does not lead.
func (s *Storage) Lock(ctx context.Context, name string) error {
	_, err := s.lock(ctx, name, true)
	return err
}

// TryLock takes the lock if it is free.
func (s *Storage) TryLock(ctx context.Context, name string) (bool, error) {
	return s.lock(ctx, name, false)
}

// lock first takes turns within the process. A lock whose lease has expired stays taken here until its holder
// unlocks it, so that Unlock always refers to the lock that was taken last.
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

// drop lets the next waiter in this process try.
func (s *Storage) drop(name string, l *lease) {
	s.mu.Lock()
	delete(s.held, name)
	s.mu.Unlock()
	close(l.free)
}

// take writes the lock's key, which exists as long as the lock is taken.
func (s *Storage) take(ctx context.Context, name string, l *lease, wait bool) (bool, error) {
	var id [16]byte
	_, _ = rand.Read(id[:])
	holder := []byte(hex.EncodeToString(id[:]))
	pause := max(min(s.lease/10, time.Second), time.Millisecond)
	for {
		// It already exists if an earlier try was committed without a response.
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

// write extends the lease of the lock's key, if the key is the holder's or, if mayBeNew is set, does not
// exist. It reports whether it did.
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

// renew keeps the lock's key from expiring until ctx ends or the lease is lost.
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

// Unlock releases the lock. If that cannot be written, for example because this node no longer leads, Unlock
// returns an error and the lock expires with its lease. Unlocking a lost lock is not an error.
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

// settle waits briefly until all locks are released, so that a program leaves none behind when it stops.
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

package auth

import (
	"context"
	"time"
)

// Hashes returns how many password hashes were computed.
func (a *Auth) Hashes() uint64 { return a.hash.computed.Load() }

// Hold has fn called by every hash while it holds its place.
func (a *Auth) Hold(fn func()) { a.hash.held = fn }

// Waiting returns how many hashes wait for a place.
func (a *Auth) Waiting() int { return int(a.hash.waiting.Load()) }

// StepOf returns the step of TOTP that a time falls into.
func StepOf(at time.Time) uint64 { return uint64(at.Unix()) / totpPeriod }

// Bump lets a user's password count as changed and leaves the tokens alone.
func (a *Auth) Bump(ctx context.Context, user string) error {
	return a.update(ctx, "bump", func(t tx) error {
		u, err := t.mustUser(user)
		if err != nil {
			return err
		}
		u.Epoch++
		return t.put(u)
	})
}

package auth

import (
	"context"
	"crypto/rand"
	"fmt"
)

// Passwords hashes and checks passwords that something else stores, as Auth does with those of users. It computes
// DefaultMaxHashing hashes at once; more wait, and too many are engine.CodeQueueFull. It is safe for concurrent use.
// None of its methods may be called within a transaction.
type Passwords struct{ hash *hasher }

// NewPasswords returns Passwords whose hashes cost p.
func NewPasswords(p Params) (*Passwords, error) {
	o := withDefaults(Options{Argon2: p, Rand: rand.Reader})
	if err := o.Argon2.check(); err != nil {
		return nil, fmt.Errorf("auth: %w", err)
	}
	return &Passwords{newHasher(o)}, nil
}

// Hash returns a new hash of a password.
func (p *Passwords) Hash(ctx context.Context, password string) (string, error) {
	return p.hash.make(ctx, password)
}

// Matches reports whether hash, which Hash has made, is of the password.
func (p *Passwords) Matches(ctx context.Context, password, hash string) (bool, error) {
	right, _, err := p.hash.verify(ctx, password, hash)
	return right, err
}

package auth

import (
	"context"
	"crypto/rand"
	"fmt"
)

// PasswordHash returns a function that hashes passwords as Auth does, for passwords that something else stores. It
// computes DefaultMaxHashing hashes at once, and must not be called within a transaction.
func PasswordHash(p Params) (func(ctx context.Context, password string) (string, error), error) {
	o := withDefaults(Options{Argon2: p, Rand: rand.Reader})
	if err := o.Argon2.check(); err != nil {
		return nil, fmt.Errorf("auth: %w", err)
	}
	return newHasher(o).make, nil
}

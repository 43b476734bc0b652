package session

import (
	"context"
	"crypto/sha256"
	"fmt"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/kv"
)

// MaxSCSTokenBytes is the longest token of an SCS; alexedwards/scs makes ones of
// 43. A longer one is not found, and cannot be committed: CodeLimit.
const MaxSCSTokenBytes = 1 << 10

// SCS keeps the sessions of an alexedwards/scs SessionManager: it has the methods
// of that module's Store and CtxStore. The manager makes the tokens, encodes the
// values and decides on the expiry; SCS keeps its bytes as this package keeps its
// own: hashed token, expiring key, replicated. It is not an IterableStore, as that
// asks for the tokens, which are not kept. It is safe for concurrent use.
type SCS struct {
	kv *kv.Store
	o  SCSOptions
}

// SCSOptions configure an SCS. The zero value works.
type SCSOptions struct {
	Space     uint8       // as in Options
	Namespace string      // as in Options; sessions of an SCS are apart from those of a Store of the same name
	Read      engine.Read // how new what Find sees must be; the zero value is linearizable
}

// NewSCS returns an SCS that keeps its sessions in store; see New.
func NewSCS(store *kv.Store, o SCSOptions) (*SCS, error) {
	all, err := Options{Space: o.Space, Namespace: o.Namespace}.withDefaults()
	if err != nil {
		return nil, err
	}
	o.Space = all.Space
	return &SCS{kv: store, o: o}, nil
}

// FindCtx returns a copy of what was committed under token; found is false for
// one that is unknown, malformed or expired.
func (c *SCS) FindCtx(ctx context.Context, token string) (b []byte, found bool, err error) {
	key, ok := c.key(token)
	if !ok {
		return nil, false, nil
	}
	e, ok, _, err := c.kv.Get(ctx, c.o.Read, c.o.Space, key)
	if err == nil && ok {
		err = checkVersion(e.Val)
	}
	if err != nil {
		return nil, false, fmt.Errorf("find session: %w", err)
	}
	if !ok {
		return nil, false, nil
	}
	return e.Val[1:], true, nil
}

// CommitCtx keeps b, of at most MaxSessionBytes, under token until expiry, in the
// place of what was there. If expiry has passed, nothing is kept.
func (c *SCS) CommitCtx(ctx context.Context, token string, b []byte, expiry time.Time) error {
	key, ok := c.key(token)
	switch {
	case !ok:
		return engine.Errorf(engine.CodeLimit, "commit session: a token of %d bytes is over the limit of %d", len(token), MaxSCSTokenBytes)
	case len(b) > MaxSessionBytes:
		return engine.Errorf(engine.CodeLimit, "commit session: it has %d bytes, over the limit of %d", len(b), MaxSessionBytes)
	}
	if expiry.IsZero() { // no expiry to kv, and long past to scs
		expiry = time.Unix(0, 0)
	}
	val := append(append(make([]byte, 0, 1+len(b)), version), b...)
	if _, _, err := c.kv.Set(ctx, c.o.Space, key, val, kv.SetOptions{Expires: expiry, SkipOld: true}); err != nil {
		return fmt.Errorf("commit session: %w", err)
	}
	return nil
}

// DeleteCtx removes what is kept under token; nothing there is no error.
func (c *SCS) DeleteCtx(ctx context.Context, token string) error {
	key, ok := c.key(token)
	if !ok {
		return nil
	}
	if _, _, err := c.kv.Delete(ctx, c.o.Space, key, 0); err != nil {
		return fmt.Errorf("delete session: %w", err)
	}
	return nil
}

// Find is FindCtx without a limit in time.
func (c *SCS) Find(token string) (b []byte, found bool, err error) {
	return c.FindCtx(context.Background(), token)
}

// Commit is CommitCtx without a limit in time.
func (c *SCS) Commit(token string, b []byte, expiry time.Time) error {
	return c.CommitCtx(context.Background(), token, b, expiry)
}

// Delete is DeleteCtx without a limit in time.
func (c *SCS) Delete(token string) error { return c.DeleteCtx(context.Background(), token) }

// key returns the key of a token; ok is false if that is too long to be one.
func (c *SCS) key(token string) (key []byte, ok bool) {
	if len(token) > MaxSCSTokenBytes {
		return nil, false
	}
	return appendIDKey(nil, scsPrefix, c.o.Namespace, sha256.Sum256([]byte(token))), true
}

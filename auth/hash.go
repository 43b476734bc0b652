package auth

import (
	"cmp"
	"context"
	"crypto/subtle"
	"encoding/base64"
	"fmt"
	"io"
	"strings"
	"sync/atomic"

	"golang.org/x/crypto/argon2"

	"github.com/skerrydb/skerry/engine"
)

const (
	// DefaultMaxHashing is how many password hashes are computed at once by
	// default. Each needs Params.MemoryKiB while it runs.
	DefaultMaxHashing = 4
	// DefaultMaxWaiting is how many more hashes wait for that by default; a
	// call that needs another one fails with CodeQueueFull.
	DefaultMaxWaiting = 64
	// MaxMemoryKiB is the largest memory parameter of a hash, in KiB.
	MaxMemoryKiB = 1 << 20
	// MaxPasses is the maximum number of passes over that memory.
	MaxPasses = 64
)

const (
	saltBytes   = 16 // RFC 9106, 3.1
	digestBytes = 32
)

// Params is the cost of an argon2id hash. The defaults are the minimum of OWASP's Password Storage Cheat
// Sheet: 19 MiB, 2 passes, 1 lane.
type Params struct {
	MemoryKiB uint32 // 0 means 19456
	Passes    uint32 // 0 means 2
	Lanes     uint8  // 0 means 1
}

func (p Params) withDefaults() Params {
	return Params{cmp.Or(p.MemoryKiB, 19456), cmp.Or(p.Passes, 2), cmp.Or(p.Lanes, 1)}
}

func (p Params) check() error {
	switch {
	case p.Passes == 0 || p.Passes > MaxPasses:
		return engine.Errorf(engine.CodeInvalid, "argon2: %d passes, must be from 1 to %d", p.Passes, MaxPasses)
	case p.Lanes == 0:
		return engine.Errorf(engine.CodeInvalid, "argon2: no lanes")
	case p.MemoryKiB < 8*uint32(p.Lanes) || p.MemoryKiB > MaxMemoryKiB:
		return engine.Errorf(engine.CodeInvalid, "argon2: %d KiB, must be from %d to %d", p.MemoryKiB, 8*uint32(p.Lanes), MaxMemoryKiB)
	}
	return nil
}

// weaker reports whether p takes less memory than q, or the same memory and fewer passes.
func (p Params) weaker(q Params) bool {
	return p.MemoryKiB < q.MemoryKiB || p.MemoryKiB == q.MemoryKiB && p.Passes < q.Passes
}

// hasher computes a bounded number of hashes at once. It must not be used inside a transaction: that would
// block the whole engine.
type hasher struct {
	params   Params
	rand     io.Reader
	running  chan struct{} // has one value for each running computation
	waiting  atomic.Int64
	most     int64         // of waiting
	computed atomic.Uint64 // hashes so far; tests count the work with it
	held     func()        // called while a hash is computed; nil except in tests
}

func newHasher(o Options) *hasher {
	return &hasher{params: o.Argon2, rand: o.Rand, running: make(chan struct{}, o.MaxHashing), most: int64(o.MaxWaiting)}
}

// digest waits for its turn and computes one hash.
func (h *hasher) digest(ctx context.Context, password string, salt []byte, p Params) ([]byte, error) {
	select {
	case h.running <- struct{}{}:
	default:
		if err := h.wait(ctx); err != nil {
			return nil, err
		}
	}
	defer func() { <-h.running }()
	if h.held != nil {
		h.held()
	}
	h.computed.Add(1)
	return argon2.IDKey([]byte(password), salt, p.Passes, p.MemoryKiB, p.Lanes, digestBytes), nil
}

func (h *hasher) wait(ctx context.Context) error {
	defer h.waiting.Add(-1)
	if h.waiting.Add(1) > h.most {
		return engine.Errorf(engine.CodeQueueFull, "%d password checks are waiting already; try again later", h.most)
	}
	select {
	case h.running <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// make returns the stored form of a new hash of password.
func (h *hasher) make(ctx context.Context, password string) (string, error) {
	salt := make([]byte, saltBytes)
	if _, err := io.ReadFull(h.rand, salt); err != nil {
		return "", fmt.Errorf("read random bytes: %w", err)
	}
	sum, err := h.digest(ctx, password, salt, h.params)
	if err != nil {
		return "", err
	}
	return formatHash(h.params, salt, sum), nil
}

// verify reports whether password matches the stored hash, and whether that hash is weaker than a new one
// would be.
func (h *hasher) verify(ctx context.Context, password, stored string) (right, weak bool, err error) {
	p, salt, want, err := parseHash(stored)
	if err != nil {
		return false, false, err
	}
	sum, err := h.digest(ctx, password, salt, p)
	if err != nil {
		return false, false, err
	}
	return subtle.ConstantTimeCompare(sum, want) == 1, p.weaker(h.params), nil
}

// formatHash writes the PHC string format, as other argon2 programs do.
func formatHash(p Params, salt, sum []byte) string {
	b64 := base64.RawStdEncoding
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=%d$%s$%s", argon2.Version, p.MemoryKiB, p.Passes, p.Lanes,
		b64.EncodeToString(salt), b64.EncodeToString(sum))
}

// parseHash parses the format of formatHash, and no other.
func parseHash(s string) (p Params, salt, sum []byte, err error) {
	corrupt := engine.Errorf(engine.CodeCorrupt, "read password: it is not an argon2id hash")
	parts := strings.Split(s, "$")
	if len(parts) != 6 {
		return p, nil, nil, corrupt
	}
	if _, err := fmt.Sscanf(parts[3], "m=%d,t=%d,p=%d", &p.MemoryKiB, &p.Passes, &p.Lanes); err != nil || p.check() != nil {
		return p, nil, nil, corrupt
	}
	b64 := base64.RawStdEncoding.Strict()
	if salt, err = b64.DecodeString(parts[4]); err != nil {
		return p, nil, nil, corrupt
	}
	if sum, err = b64.DecodeString(parts[5]); err != nil {
		return p, nil, nil, corrupt
	}
	if len(salt) != saltBytes || len(sum) != digestBytes || formatHash(p, salt, sum) != s {
		return p, nil, nil, corrupt
	}
	return p, salt, sum, nil
}

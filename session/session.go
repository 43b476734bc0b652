// Package session stores server-side sessions as expiring keys in kv, so they are
// replicated, backed up and removed like all other keys.
//
// It knows how a session is issued, checked, rotated, renewed, listed and revoked, and how
// concurrent requests change one session without losing changes; it must not know cookies,
// headers or HTTP, nor how users authenticate. DESIGN.md has the layout and the invariants.
package session

import (
	"cmp"
	"crypto/rand"
	"io"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/keyspace"
	"github.com/skerrydb/skerry/kv"
)

// DefaultSpace is the kv space of sessions if Options.Space is 0.
const DefaultSpace = keyspace.Sessions

// Defaults of Options.
const (
	// DefaultIdle is Options.Idle if that is 0.
	DefaultIdle = 24 * time.Hour
	// DefaultAbsolute is Options.Absolute if that is 0.
	DefaultAbsolute = 30 * 24 * time.Hour
	// DefaultPerUser is Options.PerUser if that is 0.
	DefaultPerUser = 100

	defaultRenewShare = 0.1
)

// Limits. Going over one is CodeLimit unless it says otherwise.
const (
	// MaxTokenBytes is the length of the longest token of this package. Tokens have 43 bytes,
	// or 64 on engines that are atomic over one partition; one of another length is unknown.
	MaxTokenBytes = 64
	// MaxNamespaceBytes is the longest name of a namespace.
	MaxNamespaceBytes = 64
	// MaxUserBytes is the longest name or number of a user.
	MaxUserBytes = 255
	// MaxLabelBytes is the longest description of a client; a longer one is truncated.
	MaxLabelBytes = 255
	// MaxKeyBytes is the longest name of a value.
	MaxKeyBytes = 64
	// MaxValueBytes is the longest value, as JSON.
	MaxValueBytes = 64 << 10
	// MaxValues is the maximum number of values in one session.
	MaxValues = 128
	// MaxSessionBytes is the size limit of one session as stored.
	MaxSessionBytes = 256 << 10
	// MaxPerUser is the maximum of Options.PerUser, and so of the sessions of one user that
	// List returns.
	MaxPerUser = 1000
	// MaxIdle is the longest idle lifetime that can be configured; more is CodeInvalid.
	MaxIdle = MaxAbsolute
	// MaxAbsolute is the longest absolute lifetime; more is CodeInvalid.
	MaxAbsolute = 10 * 365 * 24 * time.Hour
	// MinIdle is the shortest idle life: clocks of nodes differ by less.
	MinIdle = time.Second
)

// Codes of this package, in addition to those of engine.
const (
	CodeNoSession engine.Code = "no_session"
	CodeValueType engine.Code = "session_value_type"
)

// Catalog returns this package's codes, sorted.
func Catalog() []engine.Meaning {
	return []engine.Meaning{
		{Code: CodeNoSession, Kind: engine.KindCredentials, Text: "the session does not exist: it has ended, or was revoked or rotated; nothing was written"},
		{Code: CodeValueType, Kind: engine.KindInternal, Text: "a value of the session is not of the requested type"},
	}
}

// Sentinels for errors.Is.
var (
	ErrNoSession = &engine.Error{Code: CodeNoSession, Msg: "there is no such session"}
	ErrValueType = &engine.Error{Code: CodeValueType, Msg: "a value of the session is of another type"}
)

// Options configure a Store. The zero value works.
type Options struct {
	// Space is the kv space; 0 means DefaultSpace. Clients should not have write access to
	// it.
	Space uint8

	// Namespace separates sessions: a token of one namespace is unknown in all others.
	// Applications with the same namespace share their sessions. It consists of letters,
	// digits and "._-", at most MaxNamespaceBytes; "" is a valid namespace.
	Namespace string

	// Idle is how long an unused session lives, from MinIdle to MaxIdle; 0 means
	// DefaultIdle.
	Idle time.Duration

	// Absolute is the maximum life of a session after it began or its user logged in,
	// regardless of use: from Idle to MaxAbsolute. 0 means DefaultAbsolute, or Idle if that
	// is longer. A shorter value also applies to existing sessions, a longer one only to
	// new sessions.
	Absolute time.Duration

	// RenewShare is the fraction of Idle that must pass before a use of the session is
	// recorded, so that most requests that only read write nothing. An idle session may
	// therefore end earlier by up to that fraction. The range is above 0 to 0.5; 0 means
	// 0.1.
	RenewShare float64

	// PerUser is the maximum number of sessions per user, up to MaxPerUser; 0 means
	// DefaultPerUser. A login beyond it ends the least recently used sessions.
	PerUser int

	// Rand is the source of tokens and handles; nil means crypto/rand.
	Rand io.Reader
}

// withDefaults returns o with defaults applied, or CodeInvalid or CodeLimit.
func (o Options) withDefaults() (Options, error) {
	o.Space = cmp.Or(o.Space, DefaultSpace)
	o.Idle = cmp.Or(o.Idle, DefaultIdle)
	o.Absolute = cmp.Or(o.Absolute, max(DefaultAbsolute, o.Idle))
	o.RenewShare = cmp.Or(o.RenewShare, defaultRenewShare)
	o.PerUser = cmp.Or(o.PerUser, DefaultPerUser)
	if o.Rand == nil {
		o.Rand = rand.Reader
	}
	switch {
	case o.Space == kv.OnceSpace:
		return o, engine.Errorf(engine.CodeInvalid, "session: space %d is reserved for idempotency keys", o.Space)
	case o.Idle < MinIdle || o.Idle > MaxIdle:
		return o, engine.Errorf(engine.CodeInvalid, "session: Idle is %v, must be from %v to %v", o.Idle, MinIdle, MaxIdle)
	case o.Absolute < o.Idle || o.Absolute > MaxAbsolute:
		return o, engine.Errorf(engine.CodeInvalid, "session: Absolute is %v, must be from Idle (%v) to %v", o.Absolute, o.Idle, MaxAbsolute)
	case !(o.RenewShare > 0 && o.RenewShare <= 0.5):
		return o, engine.Errorf(engine.CodeInvalid, "session: RenewShare is %v, must be above 0 and at most 0.5", o.RenewShare)
	case o.PerUser < 0 || o.PerUser > MaxPerUser:
		return o, engine.Errorf(engine.CodeInvalid, "session: PerUser is %d, must be from 1 to %d", o.PerUser, MaxPerUser)
	}
	return o, checkNamespace(o.Namespace)
}

func checkNamespace(name string) error {
	if len(name) > MaxNamespaceBytes {
		return engine.Errorf(engine.CodeLimit, "session: a namespace of %d bytes is over the limit of %d", len(name), MaxNamespaceBytes)
	}
	for _, c := range []byte(name) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '.', c == '_', c == '-':
		default:
			return engine.Errorf(engine.CodeInvalid, "session: namespace %q has other characters than letters, digits, '.', '_' and '-'", name)
		}
	}
	return nil
}

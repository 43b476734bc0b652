package session

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/skerrydb/skerry/engine"
)

// Session is one session as one request sees it: the state when it was loaded, and the
// request's changes, which are invisible to others before Save. It is used by one goroutine
// at a time.
type Session struct {
	st     *Store
	stored bool            // a session is, or was, stored under key
	key    []byte          // of the stored session
	part   part            // likewise
	rec    record          // the stored session as of now; zero if none
	now    int64           // milliseconds since 1970, of the transaction that read rec
	pos    engine.Position // of the last write

	// Pending changes of the request.
	rotate  bool
	drop    bool // the stored session ends, and nothing of it is kept
	login   bool
	user    string // if login
	label   string
	labeled bool // label replaces the stored one
	changes []change
	reads   []read
	bad     error // error that Save returns

	keyBuf [2 + 16 + 2 + 22 + idBytes]byte // large enough for most namespaces
}

// change is a value that the request set, or deleted if raw is nil.
type change struct {
	name string
	raw  []byte
}

// read is a stored value that the request has seen; ok is false if it did not exist.
type read struct {
	name string
	raw  []byte
	ok   bool
}

// Stored reports whether the session was stored when it was loaded or saved. A session that
// was never saved has no token.
func (s *Session) Stored() bool { return s.stored && !s.drop }

// Changed reports whether Save would write anything other than that the session was used.
func (s *Session) Changed() bool {
	if s.stored && (s.rotate || s.drop) {
		return true
	}
	return s.login || len(s.changes) > 0
}

// NeedsSave reports whether Save would write: the session was changed, or a use is due to
// be recorded.
func (s *Session) NeedsSave() bool {
	return s.Changed() || s.bad != nil || s.stored && s.st.due(&s.rec, s.now)
}

// Rotate gives the session a new token at Save; the old one is unknown from the same
// transaction on. It has no effect on a session that is not stored. Call Rotate whenever
// the rights of the session change; Login includes it.
func (s *Session) Rotate() { s.rotate = true }

// Login makes this a session of user, with a new token, handle and absolute life. The
// values of an anonymous session, or of one of the same user, are kept; a session of
// another user ends as with Logout. If user is empty or longer than MaxUserBytes, Save
// returns an error.
func (s *Session) Login(user string) {
	if err := checkUser(user); err != nil {
		s.bad = fmt.Errorf("log in: %w", err)
		return
	}
	if now := s.User(); now != "" && now != user {
		s.Logout()
	}
	s.login, s.user = true, user
}

// Logout ends the session: Save removes the stored session, and all values are gone at
// once. Values that are set afterwards belong to a new, anonymous session with its own
// token.
func (s *Session) Logout() {
	s.drop = s.stored
	s.login, s.user = false, ""
	s.changes, s.reads = nil, nil
}

// Ended reports whether the session was logged out and no new one replaces it. The token is
// then of no further use.
func (s *Session) Ended() bool { return s.drop && !s.begins() }

// begins reports whether Save would store something.
func (s *Session) begins() bool { return s.login || len(s.changes) > 0 || s.stored && !s.drop }

// User returns the logged-in user, or "" if there is none.
func (s *Session) User() string {
	switch {
	case s.login:
		return s.user
	case s.drop:
		return ""
	}
	return string(s.rec.user)
}

// Handle returns the public name of the session, by which List and Revoke identify it. It
// gives no access. Rotate keeps it, Login sets a new one. It is "" until the session is
// stored.
func (s *Session) Handle() string {
	if !s.Stored() {
		return ""
	}
	return s.st.text.EncodeToString(s.rec.handle[:])
}

// Created returns when the session began or its user logged in; zero until it is stored.
func (s *Session) Created() time.Time { return s.at(s.rec.created) }

// LastSeen returns the last recorded use; see Options.RenewShare.
func (s *Session) LastSeen() time.Time { return s.at(s.rec.seen) }

// Expires returns when the session ends if it is not used again.
func (s *Session) Expires() time.Time { return s.at(s.st.expires(&s.rec)) }

func (s *Session) at(ms int64) time.Time {
	if !s.Stored() {
		return time.Time{}
	}
	return timeOf(ms)
}

// Label returns the description of the client.
func (s *Session) Label() string {
	if s.labeled {
		return s.label
	}
	if s.drop {
		return ""
	}
	return string(s.rec.label)
}

// Describe sets the description of the client, for example browser and address, for the
// list of a user's sessions. It is written only together with another change. Bytes that
// are not text are removed, and text over MaxLabelBytes is cut.
func (s *Session) Describe(label string) {
	label = strings.ToValidUTF8(label, "")
	if len(label) > MaxLabelBytes {
		n := MaxLabelBytes
		for !utf8.RuneStart(label[n]) {
			n--
		}
		label = label[:n]
	}
	s.label, s.labeled = label, true
}

// lookup returns the value with the given name as the request sees it, and records that the
// request has seen the stored value.
func (s *Session) lookup(name string) ([]byte, bool) {
	for i := range s.changes {
		if s.changes[i].name == name {
			return s.changes[i].raw, s.changes[i].raw != nil
		}
	}
	for i := range s.reads {
		if s.reads[i].name == name {
			return s.reads[i].raw, s.reads[i].ok
		}
	}
	if !s.stored || s.drop {
		return nil, false
	}
	raw, ok := value(s.rec.values, name)
	s.reads = append(s.reads, read{name, raw, ok})
	return raw, ok
}

// set records a change; nil deletes.
func (s *Session) set(name string, raw []byte) error {
	i := slices.IndexFunc(s.changes, func(c change) bool { return c.name == name })
	switch {
	case raw == nil && (!s.stored || s.drop): // there is no stored value to delete
		if i >= 0 {
			s.changes = slices.Delete(s.changes, i, i+1)
		}
	case i >= 0:
		s.changes[i].raw = raw
	case len(s.changes) >= 2*MaxValues: // as many deletions as sets
		s.bad = tooMany()
		return s.bad
	default:
		s.changes = append(s.changes, change{name, raw})
	}
	return nil
}

func tooMany() error {
	return engine.Errorf(engine.CodeLimit, "the session has more values than the limit of %d", MaxValues)
}

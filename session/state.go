package session

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/skerrydb/skerry/engine"
)

// Session is one session as one request sees it: what was stored when it was
// loaded, and what the request changes, which nobody else sees before Save. It
// is used by one goroutine at a time.
type Session struct {
	st     *Store
	stored bool            // there is, or was, something under key
	key    []byte          // of what is stored
	rec    record          // what was stored at now; zero if nothing
	now    int64           // milliseconds since 1970, of the transaction that rec is from
	pos    engine.Position // of the last write

	// What the request asks for.
	rotate  bool
	drop    bool // what is stored ends, and nothing of it is kept
	login   bool
	user    string // if login
	label   string
	labeled bool // label is to replace the stored one
	changes []change
	reads   []read
	bad     error // what Save answers

	keyBuf [2 + 16 + idBytes]byte // of namespaces that are not very long
}

// change is a value that the request set, or deleted if raw is nil.
type change struct {
	name string
	raw  []byte
}

// read is a stored value that the request has seen; ok is false if there was none.
type read struct {
	name string
	raw  []byte
	ok   bool
}

// Stored reports whether the session was stored when it was loaded or saved: a
// session that was never saved has no token.
func (s *Session) Stored() bool { return s.stored && !s.drop }

// Changed reports whether the request has asked for something that Save would
// write, other than that the session was used.
func (s *Session) Changed() bool {
	if s.stored && (s.rotate || s.drop) {
		return true
	}
	return s.login || len(s.changes) > 0
}

// NeedsSave reports whether Save would write: the session was changed, or it is
// time to write down that it was used.
func (s *Session) NeedsSave() bool {
	return s.Changed() || s.bad != nil || s.stored && s.st.due(&s.rec, s.now)
}

// Rotate gives the session a new token at Save; the old one is unknown from the
// same transaction on. Of a session that is not stored it does nothing. Rotate
// whenever the rights of the session change; Login does.
func (s *Session) Rotate() { s.rotate = true }

// Login makes the session one of user, with a new token, handle and absolute
// life. What was in an anonymous session, or one of the same user, is kept; a
// session of somebody else ends as by Logout. No user at all, or one longer
// than MaxUserBytes, is an error of Save.
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

// Logout ends the session: Save removes what is stored of it, and every value is
// gone at once. What is set afterwards is in a new, anonymous session with a
// token of its own.
func (s *Session) Logout() {
	s.drop = s.stored
	s.login, s.user = false, ""
	s.changes, s.reads = nil, nil
}

// Ended reports whether the session was logged out and nothing stands in its
// place: a face has no more use for the token.
func (s *Session) Ended() bool { return s.drop && !s.begins() }

// begins reports whether Save would store something.
func (s *Session) begins() bool { return s.login || len(s.changes) > 0 || s.stored && !s.drop }

// User returns who is logged in, "" for nobody.
func (s *Session) User() string {
	switch {
	case s.login:
		return s.user
	case s.drop:
		return ""
	}
	return string(s.rec.user)
}

// Handle returns the public name of the session, by which List and Revoke know
// it; it proves nothing. Rotate keeps it, Login gives a new one. It is "" until
// the session is stored.
func (s *Session) Handle() string {
	if !s.Stored() {
		return ""
	}
	return s.st.text.EncodeToString(s.rec.handle[:])
}

// Created is when the session began or its user logged in; zero until it is stored.
func (s *Session) Created() time.Time { return s.at(s.rec.created) }

// LastSeen is the last use that was written down; see Options.RenewShare.
func (s *Session) LastSeen() time.Time { return s.at(s.rec.seen) }

// Expires is when the session ends if it is not used again.
func (s *Session) Expires() time.Time { return s.at(s.st.expires(&s.rec)) }

func (s *Session) at(ms int64) time.Time {
	if !s.Stored() {
		return time.Time{}
	}
	return timeOf(ms)
}

// Label returns how the client was described.
func (s *Session) Label() string {
	if s.labeled {
		return s.label
	}
	if s.drop {
		return ""
	}
	return string(s.rec.label)
}

// Describe says what the client is, for the list of a user's sessions: browser,
// address. It is written when the session is written for another reason, not by
// itself. What is no text is left out, and what is longer than MaxLabelBytes cut.
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

// lookup returns the value of that name as the request sees it, and remembers
// that it has seen what is stored.
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

// set puts a change down; nil deletes.
func (s *Session) set(name string, raw []byte) error {
	i := slices.IndexFunc(s.changes, func(c change) bool { return c.name == name })
	switch {
	case raw == nil && (!s.stored || s.drop): // nothing is stored that could be deleted
		if i >= 0 {
			s.changes = slices.Delete(s.changes, i, i+1)
		}
	case i >= 0:
		s.changes[i].raw = raw
	case len(s.changes) >= 2*MaxValues: // as many deleted as set
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

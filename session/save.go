package session

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/kv"
)

// Save writes what NeedsSave says, in one transaction. It reads what is stored
// again and applies only what this request changed, so that what others changed
// meanwhile stays. The token is the new one of a session that was stored for the
// first time, rotated or logged in, and "" if the token is as before or of no
// use any more, see Ended. The position is that of the last write of this
// Session, 0 if there was none.
//
// ErrNoSession: the session has ended meanwhile, by whatever it was. A login is
// never that: it begins a session without the old values. ErrConflict: a
// value that this request got and then set was changed by another one between.
// Nothing is written then, as with every error but ErrOutcomeUnknown, and what
// the request asked for is kept.
func (s *Session) Save(ctx context.Context) (token string, pos engine.Position, err error) {
	if !s.NeedsSave() {
		return "", s.pos, nil
	}
	var out saved
	pos, err = s.st.kv.Update(ctx, s.st.o.Space, func(t *kv.Tx) (err error) {
		out, err = s.write(t)
		return err
	})
	if err != nil {
		return "", 0, fmt.Errorf("save session: %w", err)
	}
	if s.adopt(&out); out.wrote {
		s.pos = max(s.pos, pos)
	}
	return out.token, s.pos, nil
}

// SaveIn is Save inside the caller's transaction. The token must not be given out
// before that is committed, and committed be called then, unless the Session is
// not used any more; until then the Session still asks for what it did, so that
// a transaction that runs again does the same.
func (s *Session) SaveIn(tx engine.Tx) (token string, committed func(pos engine.Position), err error) {
	if !s.NeedsSave() {
		return "", func(engine.Position) {}, nil
	}
	t := s.st.kv.In(tx, s.st.o.Space)
	out, err := s.write(t)
	if err = cmp.Or(err, t.Broken()); err != nil {
		return "", nil, fmt.Errorf("save session: %w", err)
	}
	return out.token, func(pos engine.Position) {
		if s.adopt(&out); out.wrote {
			s.pos = max(s.pos, pos)
		}
	}, nil
}

// saved is what a Save leaves behind once its transaction is committed.
type saved struct {
	stored bool
	wrote  bool
	token  string
	key    []byte // new one, if token is not empty
	rec    record // in memory of its own
	now    int64
}

// write is Save's transaction. It changes nothing of s: it may run again.
func (s *Session) write(t *kv.Tx) (saved, error) {
	if s.bad != nil {
		return saved{}, s.bad
	}
	if err := s.st.kv.Lacks(); err != nil && (s.login || s.stored && s.rotate) {
		return saved{}, err
	}
	out := saved{wrote: true, now: t.Now().UnixMilli()}
	cur, have, err := s.current(t)
	if err != nil {
		return saved{}, err
	}
	switch {
	case !s.begins():
		return out, s.end(t)
	case have && !s.Changed() && !s.st.due(&cur, out.now):
		out.wrote = false // another request has written it down
		out.stored = true
		return out, parseRecord(&out.rec, bytes.Clone(cur.raw))
	}
	isNew := !s.stored || s.drop || s.rotate || s.login
	next, err := s.next(&cur, have, out.now)
	if err != nil {
		return saved{}, err
	}
	for _, c := range s.changes {
		if err := s.conflict(cur.values, c); err != nil && have {
			return saved{}, err
		}
	}
	val, err := encode(&next, cur.values, s.changes)
	if err != nil {
		return saved{}, err
	}
	if err := parseRecord(&out.rec, val); err != nil {
		return saved{}, err
	}
	out.stored = true
	if !isNew {
		return out, s.st.put(t, s.key, val, &out.rec, false)
	}
	return out, s.issue(t, &out, val)
}

// current returns the stored session that is to be gone on from, if there is
// one, or ErrNoSession if there should be.
func (s *Session) current(t *kv.Tx) (cur record, have bool, err error) {
	if !s.stored || s.drop {
		return record{}, false, nil
	}
	have, err = s.st.get(t, s.key, &cur)
	switch {
	case err != nil:
		return record{}, false, err
	case have:
		return cur, true, nil
	case s.login:
		// Two logins from one page, or a change of the password that revoked all
		// sessions. Whoever logs in has just proved who they are, and nothing of
		// the old session comes back.
		return record{}, false, nil
	}
	return record{}, false, ErrNoSession
}

// next returns the session to be stored, without its values; it aliases cur and s.
func (s *Session) next(cur *record, have bool, now int64) (r record, err error) {
	if r = *cur; !have || s.login {
		r.created, r.absolute = now, now+s.st.o.Absolute.Milliseconds()
		if r.handle, err = s.st.newHandle(); err != nil {
			return record{}, err
		}
	}
	if s.login {
		r.user = []byte(s.user)
	}
	if s.labeled {
		r.label = []byte(s.label)
	}
	r.seen = max(r.seen, now)
	return r, nil
}

// issue stores the session of val and out.rec under a new token, in the place
// of the one that s was.
func (s *Session) issue(t *kv.Tx, out *saved, val []byte) (err error) {
	var of id
	if out.token, of, err = s.st.issue(); err != nil {
		return err
	}
	out.key = appendIDKey(nil, sessionPrefix, s.st.o.Namespace, of)
	if err := s.end(t); err != nil {
		return err
	}
	if s.login {
		if err := s.st.makeRoom(t, out.rec.user); err != nil {
			return err
		}
	}
	if err := s.st.put(t, out.key, val, &out.rec, true); err != nil {
		return err
	}
	if len(out.rec.user) == 0 {
		return nil
	}
	return s.st.enter(t, &out.rec, of)
}

// end removes what is stored of s: under its token, and, if that was rotated
// meanwhile, under the one that its user's list names.
func (s *Session) end(t *kv.Tx) error {
	if !s.stored {
		return nil
	}
	if _, err := t.Delete(s.key); err != nil {
		return err
	}
	if len(s.rec.user) == 0 {
		return nil
	}
	_, err := s.st.strike(t, userKey(s.st.o.Namespace, s.rec.user, s.rec.handle))
	return err
}

// conflict is CodeConflict if the request has read what c changes and somebody
// else has changed it since.
func (s *Session) conflict(stored []byte, c change) error {
	for _, seen := range s.reads {
		if seen.name != c.name {
			continue
		}
		if raw, ok := value(stored, c.name); ok != seen.ok || !bytes.Equal(raw, seen.raw) {
			return engine.Errorf(engine.CodeConflict, "the session's value %q was changed by another request since this one read it; load the session anew and try again", c.name)
		}
	}
	return nil
}

// encode returns the stored form of r with the values of stored as changes
// change them, or CodeLimit.
func encode(r *record, stored []byte, changes []change) ([]byte, error) {
	size := recordHead + len(r.user) + len(r.label) + len(stored)
	for _, c := range changes {
		size += len(c.name) + len(c.raw) + 4
	}
	b, n := appendRecord(make([]byte, 0, size), r), 0
	for len(stored) > 0 {
		name, raw, rest, _ := nextValue(stored)
		if stored = rest; !slices.ContainsFunc(changes, func(c change) bool { return c.name == string(name) }) {
			b, n = appendValue(b, string(name), raw), n+1
		}
	}
	for _, c := range changes {
		if c.raw != nil {
			b, n = appendValue(b, c.name, c.raw), n+1
		}
	}
	switch {
	case n > MaxValues:
		return nil, tooMany()
	case len(b) > MaxSessionBytes:
		return nil, engine.Errorf(engine.CodeLimit, "the session has %d bytes, over the limit of %d", len(b), MaxSessionBytes)
	}
	return b, nil
}

// adopt makes s what was committed.
func (s *Session) adopt(out *saved) {
	if !out.stored || s.drop {
		s.reads = nil
	}
	for _, c := range s.changes {
		s.saw(c.name, c.raw)
	}
	s.stored, s.rec, s.now = out.stored, out.rec, out.now
	if out.token != "" {
		s.key = out.key
	}
	s.rotate, s.drop, s.login, s.user = false, false, false, ""
	s.label, s.labeled = "", false
	s.changes = nil
}

// saw makes raw what the request has seen last of a value that it has read.
func (s *Session) saw(name string, raw []byte) {
	for i := range s.reads {
		if s.reads[i].name == name {
			s.reads[i].raw, s.reads[i].ok = raw, raw != nil
		}
	}
}

// update is Key.Update on the stored form.
func (s *Session) update(ctx context.Context, name string, fn func(raw []byte, ok bool) ([]byte, error)) error {
	if !s.stored || s.drop {
		raw, ok := s.lookup(name)
		raw, err := fn(raw, ok)
		if err != nil {
			return err
		}
		return s.set(name, raw)
	}
	var out saved
	pos, err := s.st.kv.Update(ctx, s.st.o.Space, func(t *kv.Tx) (err error) {
		out, err = s.writeOne(t, name, fn)
		return err
	})
	if err != nil {
		return fmt.Errorf("update session value %q: %w", name, err)
	}
	s.rec, s.now, s.pos = out.rec, out.now, max(s.pos, pos)
	raw, _ := value(s.rec.values, name)
	s.saw(name, raw)
	s.changes = slices.DeleteFunc(s.changes, func(c change) bool { return c.name == name })
	return nil
}

// writeOne is update's transaction. It changes nothing of s: it may run again.
func (s *Session) writeOne(t *kv.Tx, name string, fn func(raw []byte, ok bool) ([]byte, error)) (saved, error) {
	var cur record
	have, err := s.st.get(t, s.key, &cur)
	if err != nil {
		return saved{}, err
	}
	if !have {
		return saved{}, ErrNoSession
	}
	raw, ok := value(cur.values, name)
	for _, c := range s.changes {
		if c.name != name {
			continue
		}
		if err := s.conflict(cur.values, c); err != nil {
			return saved{}, err
		}
		raw, ok = c.raw, c.raw != nil
	}
	if raw, err = fn(raw, ok); err != nil {
		return saved{}, err
	}
	now := t.Now().UnixMilli()
	next := cur
	next.seen = max(cur.seen, now)
	val, err := encode(&next, cur.values, []change{{name, raw}})
	if err != nil {
		return saved{}, err
	}
	out := saved{now: now}
	if err := parseRecord(&out.rec, val); err != nil {
		return saved{}, err
	}
	return out, s.st.put(t, s.key, val, &out.rec, false)
}

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

// Save writes the pending changes (see NeedsSave) in one transaction. It reads the stored
// session again and applies only what this request changed, so changes of other requests
// are preserved.
//
// The token is not empty if the session was stored for the first time, rotated or logged
// in. It is "" if the token has not changed or is no longer of use; see Ended. The position
// is that of the last write of this Session, or 0 if there was none.
//
// ErrNoSession means that the session has ended in the meantime, for whatever reason. A
// login never returns it: it begins a session without the old values. ErrConflict means
// that this request read and then set a value that another request changed in between.
// After any error but ErrOutcomeUnknown, nothing has been written, and the pending changes
// are kept.
func (s *Session) Save(ctx context.Context) (token string, pos engine.Position, err error) {
	if !s.NeedsSave() {
		return "", s.pos, nil
	}
	var out saved
	if pos, err = s.commit(ctx, &out); err != nil {
		return "", 0, fmt.Errorf("save session: %w", err)
	}
	if s.adopt(&out); out.wrote {
		s.pos = max(s.pos, pos)
	}
	return out.token, s.pos, nil
}

// commit runs Save's transaction, or two if the session moves to another partition. The old
// session ends first: if the second one fails, there is no session, and never are there two.
func (s *Session) commit(ctx context.Context, out *saved) (engine.Position, error) {
	if !s.moves() {
		return s.st.kv.UpdateOf(ctx, s.st.o.Space, s.key, func(t *kv.Tx) (err error) {
			*out, err = s.write(t)
			return err
		})
	}
	if _, err := s.st.kv.Update(ctx, s.st.o.Space, func(t *kv.Tx) (err error) {
		*out, err = s.leave(t)
		return err
	}); err != nil {
		return 0, err
	}
	pos, err := s.st.kv.Update(ctx, s.st.o.Space, func(t *kv.Tx) error { return s.enter(t, out) })
	if err != nil {
		return 0, moved(err)
	}
	return pos, nil
}

// SaveIn is like Save in the caller's transaction. After the transaction commits, and only
// then, the caller may use the token, and must call committed if it continues to use the
// Session. Until then the changes stay pending, so that a transaction that runs again has
// the same effect.
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

// saved is the result of a Save after its transaction is committed.
type saved struct {
	stored bool
	wrote  bool
	token  string // a new one; the fields up to val are then set
	key    []byte
	at     place
	val    []byte // to be stored
	rec    record // in its own memory
	now    int64
}

// write is Save's transaction. It does not modify s, because it may run again.
func (s *Session) write(t *kv.Tx) (saved, error) {
	out, err := s.leave(t)
	if err == nil && out.token != "" {
		err = s.enter(t, &out)
	}
	return out, err
}

// leave is the first part of write, and all of it unless the session gets a new token. It
// then ends the stored session, and leaves it to enter to store the new one.
func (s *Session) leave(t *kv.Tx) (saved, error) {
	if s.bad != nil {
		return saved{}, s.bad
	}
	if err := s.st.lacks; err != nil && (s.login || s.stored && s.rotate) {
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
		out.wrote = false // another request has recorded this use
		out.stored = true
		return out, parseRecord(&out.rec, bytes.Clone(cur.raw))
	}
	next, err := s.next(&cur, have, out.now)
	if err != nil {
		return saved{}, err
	}
	for _, c := range s.changes {
		if err := s.conflict(cur.values, c); err != nil && have {
			return saved{}, err
		}
	}
	if out.val, err = encode(&next, cur.values, s.changes); err != nil {
		return saved{}, err
	}
	if err := parseRecord(&out.rec, out.val); err != nil {
		return saved{}, err
	}
	out.stored = true
	if isNew := !s.stored || s.drop || s.rotate || s.login; !isNew {
		return out, s.st.put(t, s.key, out.val, &out.rec, false)
	}
	p, err := s.goal()
	if err != nil {
		return saved{}, err
	}
	if out.token, out.at, err = s.st.issue(p); err != nil {
		return saved{}, err
	}
	out.key = s.st.appendKey(nil, out.at)
	return out, s.end(t)
}

// goal returns the partition of the session that a Save begins or rotates.
func (s *Session) goal() (p part, err error) {
	switch {
	case !s.st.parted:
		return part{}, nil
	case s.login:
		return s.st.partOf([]byte(s.user)), nil
	case s.stored && !s.drop:
		return s.part, nil
	}
	return p, s.st.random(p[:])
}

// moves reports whether Save ends a session in one partition and begins one in another.
func (s *Session) moves() bool {
	if !s.st.parted || !s.stored || !s.begins() {
		return false
	}
	return s.login && s.part != s.st.partOf([]byte(s.user)) || s.drop && !s.login
}

// current returns the stored session to continue from, and whether there is one. It returns
// ErrNoSession if there should be one.
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
		// Two logins from one page, or a password change that revoked all sessions. The
		// user has just authenticated, and nothing of the old session is restored.
		return record{}, false, nil
	}
	return record{}, false, ErrNoSession
}

// next returns the session to store, without its values; it aliases cur and s.
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

// enter is the second part of write. It stores the session of out under its new token.
func (s *Session) enter(t *kv.Tx, out *saved) error {
	if s.login {
		if err := s.st.makeRoom(t, out.rec.user); err != nil {
			return err
		}
	}
	if err := s.st.put(t, out.key, out.val, &out.rec, true); err != nil {
		return err
	}
	if len(out.rec.user) == 0 {
		return nil
	}
	return s.st.enter(t, &out.rec, out.at.id)
}

// end removes the stored session under its token and, if another request rotated it in the
// meantime, under the key in its user's list.
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
	_, err := s.st.strike(t, s.rec.user, s.rec.handle)
	return err
}

// conflict returns CodeConflict if the request has read the value that c changes and
// another request has changed it since.
func (s *Session) conflict(stored []byte, c change) error {
	for _, seen := range s.reads {
		if seen.name != c.name {
			continue
		}
		if raw, ok := value(stored, c.name); ok != seen.ok || !bytes.Equal(raw, seen.raw) {
			return engine.Errorf(engine.CodeConflict, "the session's value %q was changed by another request after this one read it; load the session again and retry", c.name)
		}
	}
	return nil
}

// encode returns the stored form of r, with changes applied to the stored values, or
// CodeLimit.
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

// adopt updates s to the committed state.
func (s *Session) adopt(out *saved) {
	if !out.stored || s.drop {
		s.reads = nil
	}
	for _, c := range s.changes {
		s.saw(c.name, c.raw)
	}
	s.stored, s.rec, s.now = out.stored, out.rec, out.now
	if out.token != "" {
		s.key, s.part = out.key, out.at.part
	}
	s.rotate, s.drop, s.login, s.user = false, false, false, ""
	s.label, s.labeled = "", false
	s.changes = nil
}

// saw records raw as the last stored value that the request has seen under name.
func (s *Session) saw(name string, raw []byte) {
	for i := range s.reads {
		if s.reads[i].name == name {
			s.reads[i].raw, s.reads[i].ok = raw, raw != nil
		}
	}
}

// update implements Key.Update on encoded values.
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
	pos, err := s.st.kv.UpdateOf(ctx, s.st.o.Space, s.key, func(t *kv.Tx) (err error) {
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

// writeOne is update's transaction. It does not modify s, because it may run again.
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

package session

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/kv"
)

// Info describes one session to its user.
type Info struct {
	Handle   string // public name, for Revoke; gives no access
	Label    string // as set by Describe
	Created  time.Time
	LastSeen time.Time // last recorded use
	Expires  time.Time // if it is not used again
}

// listed is an entry of a user's list of sessions.
type listed struct {
	handle handle
	key    []byte // of the session
	seen   int64  // last recorded use; -1 if the session has ended
	info   Info
}

// List returns user's live sessions, at most MaxPerUser, most recently used first. It is a
// linearizable read.
func (st *Store) List(ctx context.Context, user string) ([]Info, error) {
	if err := checkUser(user); err != nil {
		return nil, err
	}
	var all []listed
	read := func(t *kv.Tx) (err error) {
		all, err = st.sessions(t, []byte(user))
		return err
	}
	var err error
	if st.parted { // a view need not be one state
		_, err = st.kv.Update(ctx, st.o.Space, read)
	} else {
		_, err = st.kv.View(ctx, engine.Read{}, st.o.Space, read)
	}
	if err != nil {
		return nil, fmt.Errorf("list sessions: %w", err)
	}
	infos := make([]Info, 0, len(all))
	for _, l := range all {
		if l.seen >= 0 {
			infos = append(infos, l.info)
		}
	}
	slices.SortStableFunc(infos, func(a, b Info) int {
		return cmp.Or(b.LastSeen.Compare(a.LastSeen), b.Created.Compare(a.Created))
	})
	return infos, nil
}

// Revoke ends user's session with the given handle: its token is unknown from the returned
// position on. If user has no such session, it returns ErrNoSession.
func (st *Store) Revoke(ctx context.Context, user, handle string) (engine.Position, error) {
	if err := checkUser(user); err != nil {
		return 0, err
	}
	h, ok := st.parseHandle(handle)
	if !ok {
		return 0, ErrNoSession
	}
	pos, err := st.kv.Update(ctx, st.o.Space, func(t *kv.Tx) error {
		n, err := st.strike(t, []byte(user), h)
		if err == nil && n == 0 {
			return ErrNoSession
		}
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("revoke session: %w", err)
	}
	return pos, nil
}

// RevokeAll ends all sessions of user in one transaction, except those with the given
// handles. It returns the number of sessions that it ended.
func (st *Store) RevokeAll(ctx context.Context, user string, except ...string) (n int, pos engine.Position, err error) {
	pos, err = st.kv.Update(ctx, st.o.Space, func(t *kv.Tx) (err error) {
		n, err = st.revokeAll(t, user, except)
		return err
	})
	if err != nil {
		return 0, 0, fmt.Errorf("revoke sessions: %w", err)
	}
	return n, pos, nil
}

// RevokeAllIn ends all sessions of user in the caller's transaction. For example, a change
// of the password and the revocation are then committed together or not at all.
func (st *Store) RevokeAllIn(tx engine.Tx, user string) error {
	return st.RevokeOthersIn(tx, user, "")
}

// RevokeOthersIn is like RevokeAllIn but spares the session with the given handle.
func (st *Store) RevokeOthersIn(tx engine.Tx, user, handle string) error {
	t := st.kv.In(tx, st.o.Space)
	_, err := st.revokeAll(t, user, []string{handle})
	if err = cmp.Or(err, t.Broken()); err != nil {
		return fmt.Errorf("revoke sessions: %w", err)
	}
	return nil
}

func (st *Store) revokeAll(t *kv.Tx, user string, except []string) (n int, err error) {
	if err := checkUser(user); err != nil {
		return 0, err
	}
	all, err := st.sessions(t, []byte(user))
	if err != nil {
		return 0, err
	}
	var hs []handle
	for _, l := range all {
		if !slices.Contains(except, l.info.Handle) {
			hs = append(hs, l.handle)
		}
	}
	return st.strike(t, []byte(user), hs...)
}

// entries returns the entries of user's list, with their handles and keys.
func (st *Store) entries(t *kv.Tx, user []byte) ([]listed, error) {
	if st.parted {
		return st.entriesParted(t, user)
	}
	prefix := appendUserPrefix(nil, st.o.Namespace, user)
	var all []listed
	for it, err := range t.ScanPrefix(prefix) {
		if err != nil {
			return nil, err
		}
		key, err := st.entryOf(it.Val)
		if err != nil {
			return nil, err
		}
		all = append(all, listed{handle: handle(it.Key[len(prefix):]), key: key})
	}
	return all, nil
}

// sessions returns the entries of user's list, including those of ended sessions.
func (st *Store) sessions(t *kv.Tx, user []byte) ([]listed, error) {
	all, err := st.entries(t, user)
	if err != nil {
		return nil, err
	}
	for i := range all {
		l := &all[i]
		l.seen, l.info.Handle = -1, st.text.EncodeToString(l.handle[:])
		var r record
		live, err := st.get(t, l.key, &r)
		if err != nil {
			return nil, err
		}
		if live {
			l.seen = r.seen
			l.info.Label, l.info.Created = string(r.label), timeOf(r.created)
			l.info.LastSeen, l.info.Expires = timeOf(r.seen), timeOf(st.expires(&r))
		}
	}
	return all, nil
}

// makeRoom ends sessions of user until one more is within the limit. It removes entries of
// ended sessions first, then the least recently used sessions.
func (st *Store) makeRoom(t *kv.Tx, user []byte) error {
	all, err := st.entries(t, user)
	if err != nil || len(all) < st.o.PerUser {
		return err
	}
	if all, err = st.sessions(t, user); err != nil {
		return err
	}
	slices.SortStableFunc(all, func(a, b listed) int { return cmp.Compare(a.seen, b.seen) })
	var hs []handle
	for _, l := range all[:len(all)+1-st.o.PerUser] {
		hs = append(hs, l.handle)
	}
	_, err = st.strike(t, user, hs...)
	return err
}

// enter adds the session r, stored under of, to its user's list. The entry expires when the
// session reaches its absolute end; makeRoom handles sessions that end earlier.
func (st *Store) enter(t *kv.Tx, r *record, of id) error {
	if st.parted {
		return st.enterParted(t, r, of)
	}
	val := append(append(make([]byte, 0, 1+idBytes), version), of[:]...)
	_, err := t.Set(userKey(st.o.Namespace, r.user, r.handle), val, kv.SetOptions{Expires: timeOf(r.absolute), SkipOld: true})
	return err
}

// strike removes the entries with the given handles from user's list, and the sessions that
// they name. It returns how many sessions existed.
func (st *Store) strike(t *kv.Tx, user []byte, hs ...handle) (n int, err error) {
	if st.parted {
		return st.strikeParted(t, user, hs)
	}
	for _, h := range hs {
		entry := userKey(st.o.Namespace, user, h)
		e, ok, err := t.Get(entry)
		if err != nil {
			return 0, err
		}
		if !ok {
			continue
		}
		key, err := st.entryOf(e.Val)
		if err != nil {
			return 0, err
		}
		ended, err := t.Delete(key)
		if err != nil {
			return 0, err
		}
		if ended {
			n++
		}
		if _, err = t.Delete(entry); err != nil {
			return 0, err
		}
	}
	return n, nil
}

// entryOf returns the key of the session that an entry's value names.
func (st *Store) entryOf(val []byte) ([]byte, error) {
	if err := checkVersion(val); err != nil {
		return nil, err
	}
	if len(val) != 1+idBytes {
		return nil, damaged("an entry of its user's list has %d bytes", len(val))
	}
	return st.appendKey(nil, place{id: id(val[1:])}), nil
}

func (st *Store) parseHandle(text string) (h handle, ok bool) {
	raw, err := st.text.DecodeString(text)
	if err != nil || len(raw) != handleBytes {
		return h, false
	}
	return handle(raw), true
}

func checkUser(user string) error {
	switch {
	case user == "":
		return engine.Errorf(engine.CodeInvalid, "the user has no name")
	case len(user) > MaxUserBytes:
		return engine.Errorf(engine.CodeLimit, "the name of the user has %d bytes, over the limit of %d", len(user), MaxUserBytes)
	}
	return nil
}

package session

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/kv"
)

// On an engine whose transactions stay in one partition, a partition holds all sessions of
// one user with their list, or one anonymous session. Tokens name the partition. A Store is
// then called parted.

type part [partBytes]byte

// place is where a session is stored.
type place struct {
	part part // zero if the Store is not parted
	id   id
}

// tokenRaw is how many bytes tokens encode.
func (st *Store) tokenRaw() int {
	if st.parted {
		return partBytes + secretBytes
	}
	return secretBytes
}

// partOf returns the partition of a user's sessions. It is a hash, so that neither keys nor
// tokens contain the user.
func (st *Store) partOf(user []byte) part {
	sum := sha256.Sum256(appendUserPrefix(nil, st.o.Namespace, user))
	return part(sum[:partBytes])
}

// appendKey appends the key of a session.
func (st *Store) appendKey(b []byte, at place) []byte {
	if !st.parted {
		return append(appendNamespace(b, sessionPrefix, st.o.Namespace), at.id[:]...)
	}
	return append(st.appendTag(b, partedPrefix, at.part), at.id[:]...)
}

// appendTag appends the beginning of the keys of a partition: see engine.Partition.
func (st *Store) appendTag(b []byte, prefix byte, p part) []byte {
	b = st.text.AppendEncode(append(appendNamespace(b, prefix, st.o.Namespace), '{'), p[:])
	return append(b, '}')
}

// roll is the list of a user's sessions in a parted Store: one value, because a partition
// cannot be scanned. It has at most MaxPerUser entries, of rollEntry bytes.
type roll struct {
	key     []byte
	entries []byte // handle, id, absolute end
}

const rollEntry = handleBytes + idBytes + 8

func (st *Store) readRoll(t *kv.Tx, user []byte) (roll, error) {
	l := roll{key: st.appendTag(nil, rollPrefix, st.partOf(user))}
	e, ok, err := t.Get(l.key)
	if err != nil || !ok {
		return l, err
	}
	if err := checkVersion(e.Val); err != nil {
		return l, err
	}
	if l.entries = bytes.Clone(e.Val[1:]); len(l.entries)%rollEntry != 0 {
		return l, damaged("the list of its user has %d bytes", len(e.Val))
	}
	return l, nil
}

// without returns the entries for which gone is false.
func (l *roll) without(gone func(entry []byte) bool) (kept []byte) {
	for b := l.entries; len(b) > 0; b = b[rollEntry:] {
		if !gone(b[:rollEntry]) {
			kept = append(kept, b[:rollEntry]...)
		}
	}
	return kept
}

// writeRoll replaces the entries of l. The list expires with its last session.
func (st *Store) writeRoll(t *kv.Tx, l *roll, entries []byte) (err error) {
	if len(entries) == 0 {
		_, err = t.Delete(l.key)
		return err
	}
	end := int64(0)
	for b := entries; len(b) > 0; b = b[rollEntry:] {
		end = max(end, endOf(b))
	}
	_, err = t.Set(l.key, append([]byte{version}, entries...), kv.SetOptions{Expires: timeOf(end), SkipOld: true})
	return err
}

func endOf(entry []byte) int64 { return int64(binary.BigEndian.Uint64(entry[handleBytes+idBytes:])) }

// enterParted is enter in a parted Store.
func (st *Store) enterParted(t *kv.Tx, r *record, of id) error {
	l, err := st.readRoll(t, r.user)
	if err != nil {
		return err
	}
	now := t.Now().UnixMilli()
	kept := l.without(func(e []byte) bool { return endOf(e) <= now })
	kept = append(append(kept, r.handle[:]...), of[:]...)
	return st.writeRoll(t, &l, binary.BigEndian.AppendUint64(kept, uint64(r.absolute)))
}

// entriesParted is entries in a parted Store.
func (st *Store) entriesParted(t *kv.Tx, user []byte) ([]listed, error) {
	l, err := st.readRoll(t, user)
	if err != nil {
		return nil, err
	}
	var all []listed
	for b := l.entries; len(b) > 0; b = b[rollEntry:] {
		at := place{st.partOf(user), id(b[handleBytes:])}
		all = append(all, listed{handle: handle(b), key: st.appendKey(nil, at)})
	}
	return all, nil
}

// strikeParted is strike in a parted Store.
func (st *Store) strikeParted(t *kv.Tx, user []byte, hs []handle) (n int, err error) {
	l, err := st.readRoll(t, user)
	if err != nil {
		return 0, err
	}
	gone := make(map[handle]bool, len(hs))
	for _, h := range hs {
		gone[h] = true
	}
	var keys [][]byte
	kept := l.without(func(e []byte) bool {
		if !gone[handle(e)] {
			return false
		}
		keys = append(keys, st.appendKey(nil, place{st.partOf(user), id(e[handleBytes:])}))
		return true
	})
	for _, key := range keys {
		ended, err := t.Delete(key)
		if err != nil {
			return 0, err
		}
		if ended {
			n++
		}
	}
	if len(keys) == 0 {
		return 0, nil
	}
	return n, st.writeRoll(t, &l, kept)
}

// moved is the error of a login whose second transaction failed.
func moved(err error) error {
	return engine.Errorf(engine.CodeOutcomeUnknown, "the session before it has ended, and the new one may not exist: %w", err)
}

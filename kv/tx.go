package kv

import (
	"time"

	"github.com/skerrydb/skerry/engine"
)

// Tx is one engine transaction seen as plain keys of one space. Several Tx may
// be bound to the same engine.Tx. It is used by one goroutine at a time.
//
// A failed write leaves everything as it was before that call, so the
// transaction may go on. If that could not be brought about, every further
// call returns the error and the transaction must not be committed; Store's
// methods see to that.
type Tx struct {
	tx     engine.Tx
	plain  plain // stays from one Bind to the next
	space  uint8
	stays  bool   // see Stay
	us     uint64 // the transaction's time; 0: not asked yet
	asOf   int64  // the millisecond at which what expires is gone; 0: not asked yet
	broken error  // a write was left half done

	// Scratch, kept from one Bind to the next.
	key, idx, val, old []byte
	num                [20]byte
}

// keepScratch is the largest buffer in bytes that a Tx keeps for its next Bind.
const keepScratch = 64 << 10

// In returns tx, a transaction of an engine that promises all of Needs, as plain keys of
// space. See Store.In for others.
func In(tx engine.Tx, space uint8) *Tx {
	t := new(Tx)
	t.Bind(tx, space)
	return t
}

// Bind makes t work on tx and space, and keeps its buffers: a Tx that is bound
// again and again allocates nothing of its own. A nil tx lets go of the last one.
func (t *Tx) Bind(tx engine.Tx, space uint8) {
	t.tx, t.space, t.stays, t.us, t.asOf, t.broken = tx, space, false, 0, 0, nil
	if cap(t.val) > keepScratch {
		t.val = nil
	}
	if cap(t.old) > keepScratch {
		t.old = nil
	}
}

// Broken returns the error that every further call of t returns, if there is
// one: a write was left half done, or a Select was refused, and the transaction
// must not be committed. Undoing the write and binding t anew mends it. A
// transaction that is an engine.Breaker has been told.
func (t *Tx) Broken() error { return t.broken }

// Engine returns the transaction that t is bound to, for capabilities that work
// in the same one.
func (t *Tx) Engine() engine.Tx { return t.tx }

// Select makes t work on another space of the same transaction, unless t is to
// Stay in its own.
func (t *Tx) Select(space uint8) {
	if t.stays && space != t.space {
		_ = t.breaks(engine.Errorf(engine.CodeInvalid, "these are the keys of space %d, shared: they cannot be made those of space %d", t.space, space))
		return
	}
	t.space = space
}

// Stay makes t refuse to Select another space until it is bound again: for one
// that several share. A refused Select leaves t broken with CodeInvalid, see Broken.
func (t *Tx) Stay() { t.stays = true }

// Space returns the space that t works on.
func (t *Tx) Space() uint8 { return t.space }

// Now is the time of the transaction. An entry lives while AsOf is before its
// Expires: in a cluster, at levels Session and Local, that can be a little later.
func (t *Tx) Now() time.Time { return t.tx.Now() }

// AsOf is the time by which the transaction judges what has expired, see engine.Tx.
func (t *Tx) AsOf() time.Time { return t.tx.AsOf() }

// Get returns the entry of key, and whether there is one. An expired key is absent.
func (t *Tx) Get(key []byte) (Entry, bool, error) {
	rec, live, err := t.load(key)
	if err != nil || !live {
		return Entry{}, false, err
	}
	return rec.entry(), true, nil
}

// getMany calls each with the entry of each key, in their order; Rev is 0 where there is
// none. It reads them at once where the engine can.
func (t *Tx) getMany(keys [][]byte, each func(i int, e Entry) error) error {
	many, ok := t.tx.(engine.ManyGetter)
	if !ok || t.broken != nil {
		for i, key := range keys {
			e, _, err := t.Get(key)
			if err == nil {
				err = each(i, e)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
	stored := make([][]byte, len(keys))
	for i, key := range keys {
		if err := checkKey(key); err != nil {
			return err
		}
		stored[i] = appendDataKey(nil, t.space, key)
	}
	raws, err := many.GetMany(stored)
	if err != nil {
		return err
	}
	for i, raw := range raws {
		var e Entry
		if raw != nil {
			rec, err := parseRecord(raw)
			if err != nil {
				return err
			}
			if t.live(&rec) {
				e = rec.entry()
			}
		}
		if err := each(i, e); err != nil {
			return err
		}
	}
	return nil
}

// Set writes key if the conditions in o are met; see SetResult. If they are
// not: OnlyNew and OnlyExisting leave Written false, and IfRev returns
// ErrPreconditionFailed, also when there is no such key. Options that
// contradict each other and a negative TTL are CodeInvalid.
func (t *Tx) Set(key, val []byte, o SetOptions) (SetResult, error) {
	if err := o.check(val); err != nil {
		return SetResult{}, err
	}
	old, live, err := t.load(key)
	if err != nil {
		return SetResult{}, err
	}
	res := SetResult{HadOld: live}
	if live {
		if res.Old = old.entry(); o.SkipOld {
			res.Old.Val = nil
		}
	}
	if o.IfRev != 0 && (!live || old.rev != o.IfRev) {
		return SetResult{}, engine.ErrPreconditionFailed
	}
	if o.OnlyNew && live || o.OnlyExisting && !live {
		return res, nil
	}
	ms, err := t.expiryOf(&o, &old, live)
	if err != nil {
		return SetResult{}, err
	}
	if err := t.put(old, record{ms: ms, mark: o.Mark, data: val}, live && !o.SkipOld); err != nil {
		return SetResult{}, err
	}
	if live && !o.SkipOld {
		res.Old.Val = t.old
	}
	res.Written, res.Rev = true, t.next(old.rev)
	return res, nil
}

// Delete removes key and reports whether there was one.
func (t *Tx) Delete(key []byte) (bool, error) { return t.DeleteIf(key, 0) }

// DeleteIf removes key if it is at revision rev, else it returns
// ErrPreconditionFailed, also when there is no such key. With rev 0 it is Delete.
func (t *Tx) DeleteIf(key []byte, rev Revision) (bool, error) {
	old, live, err := t.load(key)
	if err != nil {
		return false, err
	}
	if rev != 0 && (!live || old.rev != rev) {
		return false, engine.ErrPreconditionFailed
	}
	if !live {
		return false, nil
	}
	return true, t.remove(old)
}

// SetExpiry lets key expire at the given time, rounded up to milliseconds; the
// zero time means never, and one that is not after Now deletes the key at
// once. It reports whether there is such a key and something changed: a key
// that never expired and shall not is left alone. A change of the expiry is a
// change of the key: it has a new revision.
func (t *Tx) SetExpiry(key []byte, at time.Time) (bool, error) {
	old, live, err := t.load(key)
	if err != nil || !live {
		return false, err
	}
	ms, err := roundUp(at)
	if err != nil {
		return false, err
	}
	if ms != 0 && ms <= t.nowMS() {
		return true, t.remove(old)
	}
	if ms == old.ms {
		return ms != 0, nil
	}
	return true, t.put(old, record{ms: ms, mark: old.mark, data: old.data}, false)
}

// load reads the record of key and leaves its engine key in t.key. live is
// false if there is none, if it has expired or is a tombstone; rec then still
// holds what is stored, with revision 0 if nothing is.
func (t *Tx) load(key []byte) (rec record, live bool, err error) {
	if t.broken != nil {
		return record{}, false, t.broken
	}
	if err := checkKey(key); err != nil {
		return record{}, false, err
	}
	t.key = appendDataKey(t.key[:0], t.space, key)
	return t.loadKey()
}

// loadKey is load for the engine key in t.key.
func (t *Tx) loadKey() (rec record, live bool, err error) {
	raw, ok, err := t.tx.Get(t.key)
	if err != nil || !ok {
		return record{}, false, err
	}
	if rec, err = parseRecord(raw); err != nil {
		return record{}, false, err
	}
	return rec, t.live(&rec), nil
}

func (t *Tx) live(r *record) bool {
	if r.tomb || r.ms == 0 {
		return !r.tomb
	}
	if t.asOf == 0 {
		t.asOf = max(1, t.tx.AsOf().UnixMilli())
	}
	return r.ms > t.asOf
}

// put replaces old, the record of t.key, by rec with the next revision. An
// expiry that has passed makes it a tombstone, so that the revision which the
// caller learns stays used. If keepOld, old's value is left in t.old.
func (t *Tx) put(old, rec record, keepOld bool) error {
	rec.rev, rec.at = t.next(old.rev), t.now()
	if rec.ms != 0 && rec.ms <= t.nowMS() {
		rec = record{rev: rec.rev, at: rec.at, tomb: true}
	}
	// In this order: rec.data may be t.old, and both may alias the engine's
	// memory, which is valid until the first write.
	t.val = appendRecord(t.val[:0], rec)
	if keepOld {
		t.old = append(t.old[:0], old.data...)
	}
	return t.store(old, rec)
}

// remove deletes old, the record of t.key. A revision that the clock has not
// passed yet is kept in a tombstone, or the key could begin anew below it.
func (t *Tx) remove(old record) error {
	if uint64(old.rev) < t.now() && !t.plain.graves {
		if err := t.tx.Delete(t.key); err != nil {
			return err
		}
		return t.apart(t.unindex(old))
	}
	if old.tomb {
		return nil
	}
	rec := record{rev: old.rev, at: t.now(), tomb: true}
	t.val = appendRecord(t.val[:0], rec)
	return t.store(old, rec)
}

// store writes t.val, the stored form of rec, over old at t.key and moves the
// index entry if it has to.
func (t *Tx) store(old, rec record) error {
	if t.plain.noIndex {
		return t.storePlain(rec)
	}
	oldIn, oldDue := old.due()
	in, due := rec.due()
	if in == oldIn && due == oldDue {
		return t.tx.Put(t.key, t.val)
	}
	// The new index entry comes first: if one of the two puts fails, what has
	// to be undone is a put of a new key, which a delete can always do.
	if in != 0 {
		t.idx = appendIndexKey(t.idx[:0], in, due, t.key[1], t.key[2:])
		if err := t.tx.Put(t.idx, nil); err != nil {
			return err
		}
	}
	if err := t.tx.Put(t.key, t.val); err != nil {
		if in != 0 {
			if undo := t.tx.Delete(t.idx); undo != nil {
				return t.apart(undo)
			}
		}
		return err
	}
	return t.apart(t.unindex(old))
}

// unindex deletes the index entry of r, the record that was at t.key.
func (t *Tx) unindex(r record) error {
	in, due := r.due()
	if in == 0 || t.plain.noIndex {
		return nil
	}
	t.idx = appendIndexKey(t.idx[:0], in, due, t.key[1], t.key[2:])
	return t.tx.Delete(t.idx)
}

// graveLife is how long a tombstone stays, where only the engine removes it: longer than
// clocks of processes differ.
const graveLife = 24 * time.Hour

// storePlain writes t.val, the stored form of rec, without an index.
func (t *Tx) storePlain(rec record) error {
	x, ok := t.tx.(engine.Expirer)
	if !ok || rec.ms == 0 && !rec.tomb {
		return t.tx.Put(t.key, t.val)
	}
	until := time.UnixMilli(rec.ms)
	if rec.tomb {
		until = time.UnixMicro(int64(max(uint64(rec.rev), t.now())))
	}
	if rec.tomb || t.plain.graves {
		until = until.Add(graveLife) // so that the revision does not begin anew
	}
	return x.PutUntil(t.key, t.val, until)
}

// apart says that a record and its index came apart, if err is not nil.
func (t *Tx) apart(err error) error {
	if err == nil {
		return nil
	}
	return t.breaks(engine.Errorf(engine.CodeOf(err), "write record: its index could not follow: %w", err))
}

// breaks makes err what every further call returns, and tells the transaction.
func (t *Tx) breaks(err error) error {
	t.broken = err
	if b, ok := t.tx.(engine.Breaker); ok {
		b.Break(err)
	}
	return err
}

// next is the revision of a change made now to a key that was at old.
func (t *Tx) next(old Revision) Revision { return max(old+1, Revision(t.now())) }

// now is the transaction's time in microseconds since 1970, at least 1.
func (t *Tx) now() uint64 {
	if t.us == 0 {
		t.us = uint64(max(1, t.tx.Now().UnixMicro()))
	}
	return t.us
}

func (t *Tx) nowMS() int64 { return int64(t.now() / 1000) }

// expiryOf returns the expiry in milliseconds that o asks for, 0 for never.
func (t *Tx) expiryOf(o *SetOptions, old *record, live bool) (int64, error) {
	switch {
	case o.KeepTTL && live:
		return old.ms, nil
	case o.TTL != 0:
		return roundUp(time.UnixMicro(int64(t.now())).Add(o.TTL))
	}
	return roundUp(o.Expires)
}

// roundUp returns at in milliseconds since 1970, 0 for the zero time. What lies
// before 1970 becomes the first millisecond of it: long past.
func roundUp(at time.Time) (int64, error) {
	if at.IsZero() {
		return 0, nil
	}
	// Seconds first: milliseconds of a far year do not fit into an int64.
	if at.Unix() > maxExpiresMS/1000 {
		return 0, engine.Errorf(engine.CodeLimit, "expiry is after the year 9999")
	}
	if at.Unix() < 0 {
		return 1, nil
	}
	ms := at.Unix()*1000 + (int64(at.Nanosecond())+999_999)/1e6
	return min(max(1, ms), maxExpiresMS), nil
}

func (o *SetOptions) check(val []byte) error {
	ways := 0
	for _, set := range [...]bool{o.TTL != 0, !o.Expires.IsZero(), o.KeepTTL} {
		if set {
			ways++
		}
	}
	switch {
	case ways > 1:
		return engine.Errorf(engine.CodeInvalid, "at most one of TTL, Expires and KeepTTL can be given")
	case o.TTL < 0:
		return engine.Errorf(engine.CodeInvalid, "time to live of %v is not positive", o.TTL)
	case o.OnlyNew && (o.OnlyExisting || o.IfRev != 0):
		return engine.Errorf(engine.CodeInvalid, "a key cannot be both new and existing")
	case o.Mark > MaxMark:
		return engine.Errorf(engine.CodeInvalid, "mark %d is over the limit of %d", o.Mark, MaxMark)
	case len(val) > MaxValBytes:
		return engine.Errorf(engine.CodeValueTooLarge, "value of %d bytes is over the limit of %d", len(val), MaxValBytes)
	}
	return nil
}

func checkKey(key []byte) error {
	switch {
	case len(key) == 0:
		return engine.ErrKeyEmpty
	case len(key) > MaxKeyBytes:
		return engine.Errorf(engine.CodeKeyTooLarge, "key of %d bytes is over the limit of %d", len(key), MaxKeyBytes)
	}
	return nil
}

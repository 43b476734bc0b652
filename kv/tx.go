package kv

import (
	"context"
	"time"

	"github.com/skerrydb/skerry/engine"
)

// Tx is a view of one engine transaction as plain keys of one space. Several Tx may be
// bound to the same engine.Tx. A Tx must be used by one goroutine at a time.
//
// A failed write leaves everything as it was before the call, so the transaction may
// continue. If that cannot be guaranteed, every further call returns the error and the
// transaction must not be committed. The methods of Store ensure this.
type Tx struct {
	tx     engine.Tx
	plain  plain // kept across Bind
	space  uint8
	stays  bool            // see Stay
	us     uint64          // the transaction's time; 0: not read yet
	asOf   int64           // expiries up to this millisecond have passed; 0: not read yet
	broken error           // a write was left half done
	ctx    context.Context // of the Store's call; nil: t was bound by In or Bind

	// Scratch buffers, kept across Bind.
	key, idx, val, old []byte
	num                [20]byte
	ahead              ahead
}

// keepScratch is the size in bytes of the largest buffer that a Tx keeps across Bind.
const keepScratch = 64 << 10

// In wraps tx, a transaction of an engine that promises all of Needs, as a Tx on space. For
// other engines, use Store.In.
func In(tx engine.Tx, space uint8) *Tx {
	t := new(Tx)
	t.Bind(tx, space)
	return t
}

// Bind binds t to tx and space and keeps t's buffers, so a Tx that is bound repeatedly does
// not allocate. A nil tx releases the last one.
func (t *Tx) Bind(tx engine.Tx, space uint8) {
	t.tx, t.space, t.stays, t.us, t.asOf, t.broken, t.ctx = tx, space, false, 0, 0, nil, nil
	t.ahead.buf, t.ahead.keys = t.ahead.buf[:0], t.ahead.keys[:0]
	if cap(t.val) > keepScratch {
		t.val = nil
	}
	if cap(t.old) > keepScratch {
		t.old = nil
	}
}

// Broken returns the error that every further call of t returns, or nil. It is set if a
// write was left half done or a Select was rejected; the transaction must then not be
// committed. Undoing the write and binding t again clears it. If the transaction is an
// engine.Breaker, it has been marked as broken.
func (t *Tx) Broken() error { return t.broken }

// Engine returns the engine transaction that t is bound to, for capabilities that use the
// same one.
func (t *Tx) Engine() engine.Tx { return t.tx }

// Select switches t to another space of the same transaction, unless Stay was called.
func (t *Tx) Select(space uint8) {
	if t.stays && space != t.space {
		_ = t.breaks(engine.Errorf(engine.CodeInvalid, "select space %d: a shared transaction stays in space %d", t.space, space))
		return
	}
	t.space = space
}

// Stay makes t reject a Select of another space until it is bound again. It is for a
// transaction that several users share. A rejected Select breaks t with CodeInvalid; see
// Broken.
func (t *Tx) Stay() { t.stays = true }

// Space returns t's space.
func (t *Tx) Space() uint8 { return t.space }

// Now returns the time of the transaction. An entry is live while AsOf is before its
// Expires. In a cluster, reads at levels Session and Local may see it a little longer.
func (t *Tx) Now() time.Time { return t.tx.Now() }

// AsOf returns the time against which the transaction checks expiries; see engine.Tx.
func (t *Tx) AsOf() time.Time { return t.tx.AsOf() }

// Get returns the entry of key, and whether it exists. An expired key is absent.
func (t *Tx) Get(key []byte) (Entry, bool, error) {
	var rec record
	live, err := t.load(key, &rec)
	if err != nil || !live {
		return Entry{}, false, err
	}
	return rec.entry(), true, nil
}

// getMany calls each with the entry of each key, in order; Rev is 0 for a missing key. It
// reads all keys in one call if the engine supports it.
func (t *Tx) getMany(keys [][]byte, each func(i int, e Entry) error) error {
	many, ok := t.tx.(engine.ManyGetter)
	if !ok || t.broken != nil {
		for i, key := range keys {
			if i%MaxExpected == 0 && t.Expects() {
				for j := i; j < len(keys) && t.Expect(t.space, keys[j]); j++ {
				}
				t.Announce()
			}
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
			var rec record
			if err := rec.parse(raw); err != nil {
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

// Set writes key if the conditions in o are met; see SetResult. If OnlyNew or OnlyExisting
// is not met, Written is false. If IfRev is not met, including when the key does not exist,
// Set returns ErrPreconditionFailed. Contradictory options and a negative TTL are
// CodeInvalid.
func (t *Tx) Set(key, val []byte, o SetOptions) (SetResult, error) {
	if err := o.check(val); err != nil {
		return SetResult{}, err
	}
	var old record
	live, err := t.load(key, &old)
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
	if err := t.put(&old, &record{ms: ms, mark: o.Mark, data: val}, live && !o.SkipOld); err != nil {
		return SetResult{}, err
	}
	if live && !o.SkipOld {
		res.Old.Val = t.old
	}
	res.Written, res.Rev = true, t.next(old.rev)
	return res, nil
}

// Delete removes key and reports whether it existed.
func (t *Tx) Delete(key []byte) (bool, error) { return t.DeleteIf(key, 0) }

// DeleteIf removes key if it is at revision rev. Otherwise, including when the key does not
// exist, it returns ErrPreconditionFailed. With rev 0 it is the same as Delete.
func (t *Tx) DeleteIf(key []byte, rev Revision) (bool, error) {
	var old record
	live, err := t.load(key, &old)
	if err != nil {
		return false, err
	}
	if rev != 0 && (!live || old.rev != rev) {
		return false, engine.ErrPreconditionFailed
	}
	if !live {
		return false, nil
	}
	return true, t.remove(&old)
}

// SetExpiry sets the expiry of key to at, rounded up to milliseconds. The zero time means
// never; a time that is not after Now deletes the key at once. It reports whether the key
// exists and something changed: removing the expiry of a key that has none changes nothing.
// Changing the expiry gives the key a new revision.
func (t *Tx) SetExpiry(key []byte, at time.Time) (bool, error) {
	var old record
	live, err := t.load(key, &old)
	if err != nil || !live {
		return false, err
	}
	ms, err := roundUp(at)
	if err != nil {
		return false, err
	}
	if ms != 0 && ms <= t.nowMS() {
		return true, t.remove(&old)
	}
	if ms == old.ms {
		return ms != 0, nil
	}
	return true, t.put(&old, &record{ms: ms, mark: old.mark, data: old.data}, false)
}

// load reads the record of key into rec, which is empty, and stores its engine key in
// t.key. live is false if there is no record, or if it has expired or is a tombstone; rec
// is then still the stored record, with revision 0 if there is none.
func (t *Tx) load(key []byte, rec *record) (live bool, err error) {
	if t.broken != nil {
		return false, t.broken
	}
	if err := checkKey(key); err != nil {
		return false, err
	}
	t.key = appendDataKey(t.key[:0], t.space, key)
	return t.loadKey(rec)
}

// loadKey is like load for the engine key in t.key.
func (t *Tx) loadKey(rec *record) (live bool, err error) {
	raw, ok, err := t.tx.Get(t.key)
	if err != nil || !ok {
		return false, err
	}
	if err := rec.parse(raw); err != nil {
		return false, err
	}
	return t.live(rec), nil
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

// put replaces old, the record of t.key, with rec and the next revision. If the expiry has
// passed, it writes a tombstone, so that the revision that the caller gets is not used
// again. It sets the revision and the time of rec. If keepOld is set, old's value is left in t.old.
func (t *Tx) put(old, rec *record, keepOld bool) error {
	rec.rev, rec.at = t.next(old.rev), t.now()
	if rec.ms != 0 && rec.ms <= t.nowMS() {
		rec = &record{rev: rec.rev, at: rec.at, tomb: true}
	}
	// The order matters: rec.data may be t.old, and both may alias the engine's memory,
	// which is valid until the first write.
	t.val = appendRecord(t.val[:0], rec)
	if keepOld {
		t.old = append(t.old[:0], old.data...)
	}
	return t.store(old, rec)
}

// remove deletes old, the record of t.key. If the clock has not passed the revision yet, a
// tombstone preserves it, because a new key could otherwise get a lower one.
func (t *Tx) remove(old *record) error {
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
	t.val = appendRecord(t.val[:0], &rec)
	return t.store(old, &rec)
}

// store writes t.val, the encoded rec, over old at t.key and moves the index entry if
// necessary.
func (t *Tx) store(old, rec *record) error {
	if t.plain.noIndex {
		return t.storePlain(rec)
	}
	oldIn, oldDue := old.due()
	in, due := rec.due()
	if in == oldIn && due == oldDue {
		return t.tx.Put(t.key, t.val)
	}
	// Write the new index entry first. If one of the two puts fails, only the put of a new
	// key has to be undone, which a delete can always do.
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
func (t *Tx) unindex(r *record) error {
	in, due := r.due()
	if in == 0 || t.plain.noIndex {
		return nil
	}
	t.idx = appendIndexKey(t.idx[:0], in, due, t.key[1], t.key[2:])
	return t.tx.Delete(t.idx)
}

// graveLife is how long a tombstone stays if only the engine removes it. It is longer than
// the clocks of processes differ.
const graveLife = 24 * time.Hour

// storePlain writes t.val, the encoded rec, without an index.
func (t *Tx) storePlain(rec *record) error {
	x, ok := t.tx.(engine.Expirer)
	if !ok || rec.ms == 0 && !rec.tomb {
		return t.tx.Put(t.key, t.val)
	}
	until := time.UnixMilli(rec.ms)
	if rec.tomb {
		until = time.UnixMicro(int64(max(uint64(rec.rev), t.now())))
	}
	if rec.tomb || t.plain.graves {
		until = until.Add(graveLife) // so that revisions do not start over
	}
	return x.PutUntil(t.key, t.val, until)
}

// apart breaks t if err is not nil, because a record and its index entry no longer match.
func (t *Tx) apart(err error) error {
	if err == nil {
		return nil
	}
	return t.breaks(engine.Errorf(engine.CodeOf(err), "write record: update its index entry: %w", err))
}

// breaks makes every further call return err, and marks the transaction as broken.
func (t *Tx) breaks(err error) error {
	t.broken = err
	if b, ok := t.tx.(engine.Breaker); ok {
		b.Break(err)
	}
	return err
}

// next is the revision of a change made now to a key that was at old.
func (t *Tx) next(old Revision) Revision { return max(old+1, Revision(t.now())) }

// now returns the transaction's time in microseconds since 1970, at least 1.
func (t *Tx) now() uint64 {
	if t.us == 0 {
		t.us = uint64(max(1, t.tx.Now().UnixMicro()))
	}
	return t.us
}

func (t *Tx) nowMS() int64 { return int64(t.now() / 1000) }

// expiryOf returns the expiry in milliseconds that o asks for, or 0 for never.
func (t *Tx) expiryOf(o *SetOptions, old *record, live bool) (int64, error) {
	switch {
	case o.KeepTTL && live:
		return old.ms, nil
	case o.TTL != 0:
		return roundUp(time.UnixMicro(int64(t.now())).Add(o.TTL))
	}
	return roundUp(o.Expires)
}

// roundUp returns at in milliseconds since 1970, or 0 for the zero time. A time before 1970
// becomes the first millisecond of 1970.
func roundUp(at time.Time) (int64, error) {
	if at.IsZero() {
		return 0, nil
	}
	// Compare seconds first: milliseconds of a distant year do not fit into an int64.
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
		return engine.Errorf(engine.CodeInvalid, "time to live of %v is negative", o.TTL)
	case o.OnlyNew && (o.OnlyExisting || o.IfRev != 0):
		return engine.Errorf(engine.CodeInvalid, "a key cannot be required to be both new and existing")
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

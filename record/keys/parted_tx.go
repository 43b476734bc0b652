package keys

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/keyspace"
)

// Parted is an engine.PathStore as this package uses it. A transaction goes through these stages:
//
//  1. Update reads the descriptions of all collections, which are one value in a partition of their own. Another process may
//     change them between that and the commit, which then still follows the former ones.
//  2. The function changes one record: its document and its history are in one partition. What it adds to indexes and what it
//     takes from them is gathered.
//  3. At its end the new entries are stored. If that fails, the transaction does too.
//  4. The engine commits the partition. If anything was changed by others, stages 2 to 4 are repeated.
//  5. If the commit is known, the entries that the record no longer has are removed, as far as that succeeds.
//
// So at any time each record has all its entries, and perhaps others. Readers compare each entry with its record.
type Parted struct {
	engine.PathStore

	opening chan struct{} // has an element while the table is opened

	mu    sync.Mutex
	paths engine.Paths // nil: not opened yet; mu guards it
}

// NewParted returns the records on eng.
func NewParted(eng engine.PathStore) *Parted {
	return &Parted{PathStore: eng, opening: make(chan struct{}, 1)}
}

// removing is how long the removal of entries may delay a transaction that is committed.
const removing = 2 * time.Second

// table returns the table of access paths.
func (p *Parted) table(ctx context.Context) (engine.Paths, error) {
	if t := p.opened(); t != nil {
		return t, nil
	}
	select {
	case p.opening <- struct{}{}:
		defer func() { <-p.opening }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if t := p.opened(); t != nil {
		return t, nil
	}
	t, err := p.Paths(ctx)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.paths = t
	return t, nil
}

// opened returns the table, nil if it is not open yet.
func (p *Parted) opened() engine.Paths {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.paths
}

// View implements engine.Engine.
func (p *Parted) View(ctx context.Context, r engine.Read, fn func(engine.Tx) error) (engine.Position, error) {
	paths, err := p.table(ctx)
	if err != nil {
		return 0, err
	}
	var t *partedTx
	pos, err := p.PathStore.View(ctx, r, func(tx engine.Tx) error {
		t = &partedTx{Tx: tx, ctx: ctx, read: r, paths: paths}
		if err := t.readCatalog(tx); err != nil {
			return err
		}
		return fn(t)
	})
	if err == nil {
		p.remove(ctx, t)
	}
	return pos, err
}

// Update implements engine.Engine. fn may change one record.
func (p *Parted) Update(ctx context.Context, fn func(engine.Tx) error) (engine.Position, error) {
	paths, err := p.table(ctx)
	if err != nil {
		return 0, err
	}
	var cat partedTx
	if _, err := p.PathStore.View(ctx, engine.Read{}, cat.readCatalog); err != nil {
		return 0, err
	}
	var t *partedTx
	pos, err := p.PathStore.Update(ctx, func(tx engine.Tx) error {
		t = &partedTx{Tx: tx, ctx: ctx, paths: paths, catalog: cat.catalog, writes: true}
		if err := fn(t); err != nil {
			return err
		}
		return t.finish()
	})
	if err == nil {
		p.remove(ctx, t)
	}
	return pos, err
}

// UpdateCatalog runs a transaction that changes the descriptions of collections.
func (p *Parted) UpdateCatalog(ctx context.Context, fn func(engine.Tx) error) error {
	_, err := p.PathStore.Update(ctx, func(tx engine.Tx) error {
		t := &partedTx{Tx: tx, ctx: ctx, describes: true}
		if err := t.readCatalog(tx); err != nil {
			return err
		}
		if err := fn(t); err != nil || !t.described {
			return err
		}
		return t.writeCatalog(tx)
	})
	return err
}

// remove removes entries that are of no use. If it fails, they stay, and readers ignore them.
func (p *Parted) remove(ctx context.Context, t *partedTx) {
	if t == nil || len(t.obsolete) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removing)
	defer cancel()
	_ = t.paths.Remove(ctx, t.obsolete) // only of use to later readers
}

// partedTx is a transaction of a Parted. It has the keys of the ordered layout, and maps them to those of partitions: of the
// kinds that describe collections to one value, of documents and changes to keys with the tag of their record.
type partedTx struct {
	engine.Tx
	ctx       context.Context
	read      engine.Read // of a view
	paths     engine.Paths
	catalog   map[string][]byte // by key, as text
	writes    bool
	describes bool   // the catalog may be changed
	described bool   // it was
	record    string // the tag of the record that an Update has used; "": none
	crossed   error  // why the transaction cannot commit

	insert, obsolete []engine.PathEntry
}

// catalogKey is the key of the descriptions of all collections. Do not change it.
var catalogKey = []byte{keyspace.Records, '{', 'r', 'e', 'c', '}'}

// Break implements engine.Breaker.
func (t *partedTx) Break(err error) { t.crossed = cmp.Or(t.crossed, err) }

// partedOf returns the transaction of a Parted.
func partedOf(tx engine.Tx) (*partedTx, error) {
	if t, ok := tx.(*partedTx); ok {
		return t, nil
	}
	return nil, engine.Errorf(engine.CodeUnsupported, "record: on this engine records are only in the transactions of record.DB")
}

// readCatalog reads the descriptions of collections.
func (t *partedTx) readCatalog(tx engine.Tx) error {
	val, ok, err := tx.Get(catalogKey)
	if err != nil {
		return err
	}
	t.catalog = map[string][]byte{}
	if !ok {
		return nil
	}
	stored := map[string][]byte{}
	if err := json.Unmarshal(val, &stored); err != nil {
		return engine.Errorf(engine.CodeCorrupt, "record: read the descriptions of collections: %w", err)
	}
	for name, b := range stored {
		key, err := hex.DecodeString(name)
		if err != nil {
			return engine.Errorf(engine.CodeCorrupt, "record: read the descriptions of collections: %w", err)
		}
		t.catalog[string(key)] = b
	}
	return nil
}

// writeCatalog stores the descriptions of collections: a JSON object by the hexadecimal keys, with the values in base64.
func (t *partedTx) writeCatalog(tx engine.Tx) error {
	stored := map[string][]byte{}
	for key, val := range t.catalog {
		stored[hex.EncodeToString([]byte(key))] = val
	}
	text, err := json.Marshal(stored)
	if err != nil {
		return err
	}
	return tx.Put(catalogKey, text)
}

// Attached implements engine.Attacher.
func (t *partedTx) Attached() any { return Native{Driver: parted{}, Create: true} }

// described kinds of keys are in the catalog.
const catalogKinds = string(rune(schemaKeys)) + string(rune(epochKey)) + string(rune(lastKey)) + string(rune(workKeys)) + string(rune(versionKeys))

func inCatalog(key []byte) bool {
	return len(key) > 1 && key[0] == keyspace.Records && strings.IndexByte(catalogKinds, key[1]) >= 0
}

// place returns the key in its partition.
func (t *partedTx) place(key []byte) ([]byte, error) {
	if len(key) == 0 || key[0] != keyspace.Records {
		return key, nil // not of records
	}
	if len(key) < 7 {
		return nil, errParted
	}
	id, rev := key[6:], []byte(nil)
	switch key[1] {
	case docKeys, purgedKeys:
	case historyKeys:
		id, rev = key[6:len(key)-9], key[len(key)-8:]
	default:
		return nil, errParted
	}
	at := append(make([]byte, 0, 96), keyspace.Records, '{', 'r', 'e', 'c', '/')
	at = appendHex(at, binary.BigEndian.Uint32(key[2:]))
	at = append(append(at, '/'), id...)
	if tag := string(at[2:]); t.writes && t.crossed == nil {
		if t.record != "" && t.record != tag {
			t.crossed = engine.Errorf(engine.CodeCrossPartition, "this engine changes one record in a transaction: this one has used %s and asks for %s", t.record[4:], tag[4:])
		}
		t.record = tag
	}
	return append(append(at, '}', key[1]), rev...), t.crossed
}

func appendHex(dst []byte, n uint32) []byte {
	for shift := 28; shift >= 0; shift -= 4 {
		dst = append(dst, "0123456789abcdef"[n>>shift&15])
	}
	return dst
}

// Get implements engine.Tx.
func (t *partedTx) Get(key []byte) ([]byte, bool, error) {
	if inCatalog(key) {
		val, ok := t.catalog[string(key)]
		return val, ok, nil
	}
	at, err := t.place(key)
	if err != nil {
		return nil, false, err
	}
	return t.Tx.Get(at)
}

// GetMany implements engine.ManyGetter.
func (t *partedTx) GetMany(keys [][]byte) ([][]byte, error) {
	at := make([][]byte, len(keys))
	for i, key := range keys {
		var err error
		if at[i], err = t.place(key); err != nil {
			return nil, err
		}
	}
	return engine.GetMany(t.Tx, at)
}

// Put implements engine.Tx.
func (t *partedTx) Put(key, val []byte) error {
	if inCatalog(key) {
		if !t.describes {
			return errDescribed
		}
		t.described = true
		t.catalog[string(key)] = bytes.Clone(val)
		return nil
	}
	at, err := t.place(key)
	if err != nil {
		return err
	}
	return t.Tx.Put(at, val)
}

var errDescribed = engine.Errorf(engine.CodeUnsupported, "record: on this engine a transaction cannot change collections and records")

// Delete implements engine.Tx.
func (t *partedTx) Delete(key []byte) error {
	if inCatalog(key) {
		if !t.describes {
			return errDescribed
		}
		t.described = true
		delete(t.catalog, string(key))
		return nil
	}
	at, err := t.place(key)
	if err != nil {
		return err
	}
	return t.Tx.Delete(at)
}

// Scan implements engine.Tx. Only descriptions can be scanned.
func (t *partedTx) Scan(lo, hi []byte) iter.Seq2[engine.Pair, error] { return t.scan(lo, hi, false) }

// ScanBack implements engine.Tx.
func (t *partedTx) ScanBack(lo, hi []byte) iter.Seq2[engine.Pair, error] { return t.scan(lo, hi, true) }

func (t *partedTx) scan(lo, hi []byte, back bool) iter.Seq2[engine.Pair, error] {
	return func(yield func(engine.Pair, error) bool) {
		if !inCatalog(lo) {
			yield(engine.Pair{}, errParted)
			return
		}
		all := slices.Sorted(maps.Keys(t.catalog))
		if back {
			slices.Reverse(all)
		}
		for _, key := range all {
			if key >= string(lo) && (hi == nil || key < string(hi)) && !yield(engine.Pair{Key: []byte(key), Val: t.catalog[key]}, nil) {
				return
			}
		}
	}
}

// rangeOf reads keys of the access paths.
func (t *partedTx) rangeOf(part, lo, hi []byte, back bool, limit int) ([][]byte, error) {
	return t.paths.Range(t.ctx, part, lo, hi, back, limit, t.read)
}

// finish stores the new entries.
func (t *partedTx) finish() error {
	if t.crossed != nil {
		return t.crossed
	}
	if len(t.insert) == 0 {
		return nil
	}
	return t.paths.Insert(t.ctx, t.insert)
}

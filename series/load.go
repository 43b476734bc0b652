package series

import (
	"context"
	"encoding/binary"
	"iter"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/skerrydb/skerry/engine"
)

// Bounds of a Loader.
const (
	loadSeries  = 2000   // that are defined at once
	loadSamples = 20_000 // that are written at once
	loadReads   = 16     // that run together when samples are compared

	// loadMargin is how long before they expire samples are no longer compared.
	loadMargin = 10 * time.Minute
)

// A Loader copies the collections of another engine, where they are in keys, to the tables of an engine.SampleStore. The
// keys must not change meanwhile. It merges the parts of one day and what is not sealed, as a query does.
type Loader struct {
	// Read yields the pairs of the other engine with lo <= key < hi, in order.
	Read func(ctx context.Context, lo, hi []byte) iter.Seq2[engine.Pair, error]

	To          engine.SampleStore
	Collections []Collection     // those that the source may have, for how long samples are kept
	Now         func() time.Time // nil: time.Now
}

// Check returns an error if the source has collections that are not among Collections.
func (l *Loader) Check(ctx context.Context) error {
	var missing []string
	all, err := l.collections(ctx)
	if err != nil {
		return err
	}
	for _, c := range all {
		if !c.known {
			missing = append(missing, c.name)
		}
	}
	if len(missing) > 0 {
		return engine.Errorf(engine.CodeInvalid, "the source has the collections of series %s, and how long their samples are kept is not stored: name it, like `--series %s=30d`; without a time they are kept forever", strings.Join(missing, ", "), missing[0])
	}
	return nil
}

// loading is a collection that is being copied.
type loading struct {
	l         *Loader
	no        uint32
	name      string
	known     bool
	retention time.Duration
	tables    engine.SampleTables
	load      func(ctx context.Context, list []engine.SampleRun) error

	ids      map[uint32]hash
	buckets  []uint64          // that have samples, ascending
	parts    map[uint64][]part // by bucket, in order
	unsealed map[uint64]map[uint32][]Sample
	removed  bool // some series
}

// collections returns those of the source, by number.
func (l *Loader) collections(ctx context.Context) (all []*loading, err error) {
	prefix := key(keyCollection)
	for p, err := range l.Read(ctx, prefix, engine.PrefixEnd(prefix)) {
		if err != nil {
			return nil, err
		}
		c := &loading{l: l, no: collectionOf(p.Val), name: string(p.Key[len(prefix):])}
		if c.no == 0 {
			return nil, corrupt("the number of collection %s", c.name)
		}
		for _, of := range l.Collections {
			if of.Name == c.name {
				c.known, c.retention = true, of.Retention
			}
		}
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b *loading) int { return cmpUint(uint64(a.no), uint64(b.no)) })
	return all, nil
}

// open opens the tables, and finds out what series and days there are.
func (c *loading) open(ctx context.Context) (err error) {
	if c.tables, err = c.l.To.Samples(ctx, c.name, c.retention); err != nil {
		return err
	}
	c.load = c.tables.Append
	if t, ok := c.tables.(engine.SampleLoader); ok {
		c.load = t.Load
	}
	c.ids, c.parts, c.unsealed = map[uint32]hash{}, map[uint64][]part{}, map[uint64]map[uint32][]Sample{}
	for p, err := range c.scan(ctx, keyOf(keyGone, c.no)) {
		if err != nil {
			return err
		}
		g, err := decodeGone(p.Val)
		if err != nil {
			return err
		}
		c.removed = g.removed > 0
	}
	if err := c.readParts(ctx); err != nil {
		return err
	}
	if err := c.readBatches(ctx); err != nil {
		return err
	}
	for bucket := range c.parts {
		c.buckets = append(c.buckets, bucket)
		sortParts(c.parts[bucket])
	}
	for bucket := range c.unsealed {
		if c.parts[bucket] == nil {
			c.buckets = append(c.buckets, bucket)
		}
	}
	slices.Sort(c.buckets)
	return nil
}

func (c *loading) scan(ctx context.Context, prefix []byte) iter.Seq2[engine.Pair, error] {
	return c.l.Read(ctx, prefix, engine.PrefixEnd(prefix))
}

func (c *loading) readParts(ctx context.Context) error {
	for p, err := range c.scan(ctx, keyOf(keyPart, c.no)) {
		if err != nil {
			return err
		}
		x, err := readPart(p.Key, p.Val)
		if err != nil {
			return err
		}
		c.parts[x.bucket] = append(c.parts[x.bucket], x)
	}
	return nil
}

// readBatches reads the samples that are not sealed, which the source has in memory too.
func (c *loading) readBatches(ctx context.Context) error {
	m := meta{generation: 1}
	for p, err := range c.scan(ctx, keyOf(keyMeta, c.no)) {
		if err == nil {
			m, err = decodeMeta(p.Val)
		}
		if err != nil {
			return err
		}
	}
	for p, err := range c.scan(ctx, keyOf(keyBatch, c.no)) {
		if err != nil {
			return err
		}
		n := numbersOf(p.Key)
		if n[0] <= m.sealed {
			continue
		}
		r, ok := readBatch(p.Val)
		for ok && r.next() {
			b := bucketOf(r.s.Time)
			if c.unsealed[b] == nil {
				c.unsealed[b] = map[uint32][]Sample{}
			}
			c.unsealed[b][r.id] = append(c.unsealed[b][r.id], r.s)
		}
		if !ok || r.left != 0 {
			return corrupt("batch %d", n[1])
		}
	}
	return nil
}

// definitions yields the series, by hash.
func (c *loading) definitions(ctx context.Context) iter.Seq2[engine.SampleSeries, error] {
	return func(yield func(engine.SampleSeries, error) bool) {
		for p, err := range c.scan(ctx, keyOf(keySeries, c.no)) {
			if err != nil {
				yield(engine.SampleSeries{}, err)
				return
			}
			d := engine.SampleSeries{Labels: map[string]string{}}
			id, labels, ok := uvarint(p.Val)
			ok = ok && len(p.Key) == 6+len(hash{}) && decodeLabels(labels, func(name, value []byte) { d.Labels[string(name)] = string(value) })
			if !ok {
				yield(d, corrupt("the definition of a series"))
				return
			}
			d.ID = [16]byte(p.Key[6:])
			c.ids[uint32(id)] = hash(d.ID)
			if !yield(d, nil) {
				return
			}
		}
	}
}

// define writes the series to the tables, and returns how many there are.
func (c *loading) define(ctx context.Context) (n int, err error) {
	var list []engine.SampleSeries
	for d, err := range c.definitions(ctx) {
		if err != nil {
			return n, err
		}
		if list = append(list, d); len(list) == loadSeries {
			if err := c.tables.Define(ctx, list); err != nil {
				return n, err
			}
			list = list[:0]
		}
		n++
	}
	return n, c.tables.Define(ctx, list)
}

// oldest returns the time before which samples are not copied.
func (c *loading) oldest(margin time.Duration) int64 {
	now := time.Now
	if c.l.Now != nil {
		now = c.l.Now
	}
	return Collection{}.oldest(now().Add(margin), c.retention)
}

// puller reads the chunks of a part, in the order of series.
type puller struct {
	next    func() (engine.Pair, error, bool)
	entries []entry
}

// fill reads a block if nothing is left. At the end of the part there is still nothing.
func (p *puller) fill() error {
	for len(p.entries) == 0 {
		x, err, ok := p.next()
		if err != nil || !ok {
			return err
		}
		if p.entries, ok = readBlock(slices.Clone(x.Val)); !ok {
			return corrupt("the block %x", x.Key)
		}
	}
	return nil
}

// take adds the samples of a series.
func (p *puller) take(id uint32, to *sorter, scratch *columns) error {
	for {
		if err := p.fill(); err != nil {
			return err
		}
		if len(p.entries) == 0 || p.entries[0].id != id {
			return nil
		}
		scratch.reset()
		if err := scratch.decode(p.entries[0].data); err != nil {
			return corrupt("a chunk of series %d", id)
		}
		to.addColumns(scratch)
		p.entries = p.entries[1:]
	}
}

// each calls fn with the samples of each series in a bucket that are not older than a time. The columns are valid until fn returns.
func (c *loading) each(ctx context.Context, bucket uint64, oldest int64, fn func(id uint32, of hash, x columns) error) error {
	var pulls []*puller
	for _, p := range c.parts[bucket] {
		next, stop := iter.Pull2(c.scan(ctx, keyOf(keyBlock, c.no, p.no)))
		defer stop()
		pulls = append(pulls, &puller{next: next})
	}
	left := c.unsealed[bucket]
	ids := make([]uint32, 0, len(left))
	for id := range left {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	var sort sorter
	var cols columns
	for {
		id, err := lowest(pulls, ids)
		if err != nil || id == 0 {
			return err
		}
		for _, p := range pulls {
			if err := p.take(id, &sort, &cols); err != nil {
				return err
			}
		}
		if len(ids) > 0 && ids[0] == id {
			sort.add(left[id]...)
			ids = ids[1:]
		}
		sort.columns(&cols)
		of, ok := c.ids[id]
		if !ok && c.removed {
			continue // it was deleted
		}
		if !ok {
			return corrupt("the definition of series %d, which has samples,", id)
		}
		if x := cols.cut(oldest, maxTime); len(x.times) > 0 {
			if err := fn(id, of, x); err != nil {
				return err
			}
		}
	}
}

// lowest returns the lowest id that is next, 0 at the end.
func lowest(pulls []*puller, ids []uint32) (id uint32, err error) {
	if len(ids) > 0 {
		id = ids[0]
	}
	for _, p := range pulls {
		if err := p.fill(); err != nil {
			return 0, err
		}
		if len(p.entries) > 0 && (id == 0 || p.entries[0].id < id) {
			id = p.entries[0].id
		}
	}
	return id, nil
}

// Load copies what comes after a cursor; nil is the beginning. It calls save after each day of a collection with the cursor after it and how many
// series and samples were written since the last call.
func (l *Loader) Load(ctx context.Context, from []byte, save func(cursor []byte, items int) error) error {
	all, err := l.collections(ctx)
	if err != nil {
		return err
	}
	for _, c := range all {
		cursor := appendNo(nil, c.no)
		if len(from) >= 4 && string(cursor) < string(from[:4]) {
			continue
		}
		if err := c.open(ctx); err != nil {
			return err
		}
		if err := c.loadDefinitions(ctx, from, save); err != nil {
			return err
		}
		for _, bucket := range c.buckets {
			at := binary.BigEndian.AppendUint64(slices.Clone(cursor), bucket)
			if string(at) <= string(from) {
				continue
			}
			if err := c.loadBucket(ctx, bucket, func(n int) error { return save(at, n) }); err != nil {
				return err
			}
		}
	}
	return nil
}

// loadDefinitions copies the series, unless the cursor is after them.
func (c *loading) loadDefinitions(ctx context.Context, from []byte, save func(cursor []byte, items int) error) error {
	at := binary.BigEndian.AppendUint64(appendNo(nil, c.no), 0)
	if string(from) < string(at) {
		n, err := c.define(ctx)
		if err != nil {
			return err
		}
		return save(at, n)
	}
	for _, err := range c.definitions(ctx) { // for the ids
		if err != nil {
			return err
		}
	}
	return nil
}

// loadBucket copies one bucket.
func (c *loading) loadBucket(ctx context.Context, bucket uint64, done func(items int) error) error {
	var list []engine.SampleRun
	n, all := 0, 0
	flush := func() error {
		err := c.load(ctx, list)
		list, n = nil, 0
		return err
	}
	err := c.each(ctx, bucket, c.oldest(0), func(_ uint32, of hash, x columns) error {
		list = append(list, engine.SampleRun{ID: of, Times: slices.Clone(x.times), Values: slices.Clone(x.values)})
		n, all = n+len(x.times), all+len(x.times)
		if n < loadSamples {
			return nil
		}
		return flush()
	})
	if err == nil {
		err = flush()
	}
	if err != nil {
		return err
	}
	return done(all)
}

// Compare reads all series and samples from the tables, and returns an error of CodeCorrupt if they are not those of the
// source. It calls report after each day with how many were compared. What expires within minutes is left out.
func (l *Loader) Compare(ctx context.Context, report func(items int)) error {
	all, err := l.collections(ctx)
	if err != nil {
		return err
	}
	for _, c := range all {
		if err := c.open(ctx); err != nil {
			return err
		}
		n, err := c.compareDefinitions(ctx)
		if err != nil {
			return err
		}
		report(n)
		for _, bucket := range c.buckets {
			n, err := c.compareBucket(ctx, bucket)
			if err != nil {
				return err
			}
			report(n)
		}
	}
	return nil
}

func (c *loading) compareDefinitions(ctx context.Context) (n int, err error) {
	has := map[[16]byte]map[string]string{}
	for d, err := range c.tables.Defined(ctx, time.Time{}) {
		if err != nil {
			return 0, err
		}
		has[d.ID] = d.Labels
	}
	for d, err := range c.definitions(ctx) {
		if err != nil {
			return 0, err
		}
		if got := has[d.ID]; !equalLabels(got, d.Labels) {
			return 0, engine.Errorf(engine.CodeCorrupt, "series %x of collection %s has the labels %v in the tables, want %v", d.ID, c.name, got, d.Labels)
		}
		n++
	}
	return n, nil
}

func equalLabels(a, b map[string]string) bool {
	if len(a) != len(b) {
		return false
	}
	for name, value := range a {
		if other, ok := b[name]; !ok || other != value {
			return false
		}
	}
	return true
}

// compareBucket compares the samples of one bucket, some series at a time.
func (c *loading) compareBucket(ctx context.Context, bucket uint64) (n int, err error) {
	from, to := bucketSpan(bucket)
	from = max(from, c.oldest(loadMargin))
	var list []engine.SampleRun
	flush := func() error {
		errs := make([]error, len(list))
		var reads sync.WaitGroup
		for i := range list {
			reads.Go(func() { errs[i] = c.compareRun(ctx, list[i], from, to) })
		}
		reads.Wait()
		list = list[:0]
		for _, err := range errs {
			if err != nil {
				return err
			}
		}
		return nil
	}
	err = c.each(ctx, bucket, from, func(_ uint32, of hash, x columns) error {
		list = append(list, engine.SampleRun{ID: of, Times: slices.Clone(x.times), Values: slices.Clone(x.values)})
		n += len(x.times)
		if len(list) < loadReads {
			return nil
		}
		return flush()
	})
	if err == nil {
		err = flush()
	}
	return n, err
}

func (c *loading) compareRun(ctx context.Context, want engine.SampleRun, from, to int64) error {
	got, err := c.tables.Read(ctx, want.ID, from, to, len(want.Times), engine.Read{Level: engine.Session})
	if err != nil {
		return err
	}
	same := slices.Equal(got.Times, want.Times) && slices.EqualFunc(got.Values, want.Values, func(a, b float64) bool { return math.Float64bits(a) == math.Float64bits(b) })
	if !same {
		return engine.Errorf(engine.CodeCorrupt, "series %x of collection %s has %d samples on one day in the tables, want %d, or other values", want.ID, c.name, len(got.Times), len(want.Times))
	}
	return nil
}

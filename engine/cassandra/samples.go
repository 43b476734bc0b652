package cassandra

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"iter"
	"regexp"
	"slices"
	"sync"
	"time"

	"github.com/apache/cassandra-gocql-driver/v2"

	"github.com/skerrydb/skerry/engine"
)

// The tables of time series. Their columns are the format: do not change them.
const (
	createSeries = `CREATE TABLE IF NOT EXISTS %s.series (collection text, shard tinyint, at timestamp, id blob, labels frozen<map<text, text>>,
		PRIMARY KEY ((collection, shard), at, id)) WITH comment = 'Skerry: the series of each collection, and when they were defined'`
	createDays = `CREATE TABLE IF NOT EXISTS %s.series_days (collection text, series blob, day int, PRIMARY KEY ((collection, series), day))
		WITH comment = 'Skerry: the days on which a series has samples'`
	createSamples = `CREATE TABLE IF NOT EXISTS %s.%s (series blob, day int, at bigint, value double, PRIMARY KEY ((series, day), at))
		WITH compaction = {'class': 'TimeWindowCompactionStrategy', 'compaction_window_unit': 'HOURS', 'compaction_window_size': %d}
		AND comment = 'Skerry: the samples of collection %s, by nanoseconds since 1970 and the days of these'`
)

const (
	insertSeries = `INSERT INTO series (collection, shard, at, id, labels) VALUES (?, ?, ?, ?, ?)`
	selectSeries = `SELECT id, labels FROM series WHERE collection = ? AND shard = ? AND at >= ?`
	insertDay    = `INSERT INTO series_days (collection, series, day) VALUES (?, ?, ?) USING TTL ?`
	selectDays   = `SELECT day FROM series_days WHERE collection = ? AND series = ? AND day >= ? AND day <= ?`
	insertSample = `INSERT INTO %s (series, day, at, value) VALUES (?, ?, ?, ?) USING TTL ?`
	selectSample = `SELECT at, value FROM %s WHERE series = ? AND day = ? AND at >= ? AND at <= ?`
)

const (
	seriesShards   = 16                 // partitions of the definitions of a collection
	sampleDay      = int64(24 * 3600e9) // nanoseconds of one partition
	sampleBatch    = 64                 // rows of one batch, about 4 kB: Cassandra warns above 5 and refuses above 50
	samplesAtOnce  = 64                 // requests of one Append that run together
	samplePage     = 5000               // rows of one page
	sampleWindows  = 30                 // of compaction, in the retention
	keptForever    = 7 * 24             // hours of a window if samples do not expire
	fewDays        = 3                  // that are read without asking which have samples
	rememberedDays = 1 << 20            // which a process knows to be stored
)

var collectionName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// plainName matches names that can be part of that of a table.
var plainName = regexp.MustCompile(`^[a-z][a-z0-9_]{0,38}$`)

// samples has the tables of one collection.
type samples struct {
	e           *db
	name        string
	retention   time.Duration
	insert, sel string
	mu          sync.Mutex
	days        map[seriesDay]struct{} // stored by this process; mu guards it
	last        int64                  // the timestamp of the last write; mu guards it
}

type seriesDay struct {
	id  [16]byte
	day int32
}

// Samples implements engine.SampleStore.
func (e *db) Samples(ctx context.Context, collection string, retention time.Duration) (engine.SampleTables, error) {
	if !collectionName.MatchString(collection) {
		return nil, invalid("the collection name %q does not match %s", collection, collectionName)
	}
	table := samplesTable(collection)
	window := keptForever
	if retention > 0 {
		window = max(1, int(retention/time.Hour)/sampleWindows)
	}
	hosts := e.c.GetHosts()
	for _, t := range []struct{ name, stmt string }{
		{"series", fmt.Sprintf(createSeries, e.keyspace)},
		{"series_days", fmt.Sprintf(createDays, e.keyspace)},
		{table, fmt.Sprintf(createSamples, e.keyspace, table, window, collection)},
	} {
		var found string
		err := e.query(selectTable, e.keyspace, t.name).Consistency(gocql.LocalOne).ScanContext(ctx, &found)
		if errors.Is(err, gocql.ErrNotFound) {
			err = create(ctx, e.c, hosts, t.stmt)
		}
		if err != nil {
			return nil, e.fault(ctx, err)
		}
	}
	return &samples{
		e: e, name: collection, retention: retention, days: map[seriesDay]struct{}{},
		insert: fmt.Sprintf(insertSample, table), sel: fmt.Sprintf(selectSample, table),
	}, nil
}

// samplesTable returns the name of a collection's table: samples_NAME, or with a hash if the name cannot be part of one.
func samplesTable(collection string) string {
	if plainName.MatchString(collection) && collection[0] != 'x' {
		return "samples_" + collection
	}
	sum := sha256.Sum256([]byte(collection))
	return fmt.Sprintf("samples_x%x", sum[:12])
}

// Define implements engine.SampleTables.
func (s *samples) Define(ctx context.Context, list []engine.SampleSeries) error {
	at := s.e.o.Now()
	return s.each(ctx, len(list), func(ctx context.Context, i int) error {
		d := list[i]
		return s.write(ctx, s.e.c.Query(insertSeries, s.name, int8(d.ID[0]%seriesShards), at, d.ID[:], d.Labels).WithTimestamp(s.stamp()))
	})
}

// write runs a statement that may be repeated.
func (s *samples) write(ctx context.Context, q *gocql.Query) error {
	if err := s.e.refusal(); err != nil {
		return err
	}
	err := s.e.patiently(ctx, func() error { return q.Consistency(s.e.level.commit).Idempotent(true).ExecContext(ctx) })
	return s.e.fault(ctx, err)
}

// Defined implements engine.SampleTables.
func (s *samples) Defined(ctx context.Context, since time.Time) iter.Seq2[engine.SampleSeries, error] {
	if since.IsZero() {
		since = time.Unix(0, 0)
	}
	return func(yield func(engine.SampleSeries, error) bool) {
		for shard := range seriesShards {
			rows := s.e.query(selectSeries, s.name, int8(shard), since).Consistency(s.e.level.get).PageSize(samplePage).IterContext(ctx)
			for {
				var id []byte
				var labels map[string]string
				if !rows.Scan(&id, &labels) {
					break
				}
				if len(id) == 16 && !yield(engine.SampleSeries{ID: [16]byte(id), Labels: labels}, nil) {
					_ = rows.Close() // nobody asks any longer
					return
				}
			}
			if err := rows.Close(); err != nil {
				yield(engine.SampleSeries{}, s.e.fault(ctx, err))
				return
			}
		}
	}
}

// stamp returns the timestamp of a write, in microseconds. It is later than those before: of two writes with one timestamp
// Cassandra would keep the larger value.
func (s *samples) stamp() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = max(s.last+1, s.e.o.Now().UnixMicro())
	return s.last
}

// part is what one batch writes: samples of one partition, ascending.
type part struct {
	seriesDay
	times  []int64
	values []float64
}

// Append implements engine.SampleTables.
func (s *samples) Append(ctx context.Context, list []engine.SampleRun) error {
	stamp := s.stamp()
	return s.store(ctx, list, func(part) int64 { return stamp })
}

// loadedBefore is how long ago a sample seems to have been written that Load stores, at least: what Append stores is later, also by
// another clock.
const loadedBefore = time.Hour

// Load implements engine.SampleLoader. The samples are written as of their own times, so that the compaction by time puts
// them where those of their age belong.
func (s *samples) Load(ctx context.Context, list []engine.SampleRun) error {
	latest := s.e.o.Now().Add(-loadedBefore).UnixMicro()
	return s.store(ctx, list, func(p part) int64 { return max(1, min(p.times[0]/int64(time.Microsecond), latest)) })
}

// store writes samples, each part with a timestamp in microseconds.
func (s *samples) store(ctx context.Context, list []engine.SampleRun, stampOf func(part) int64) error {
	parts := partsOf(list)
	now := s.e.o.Now()
	return s.each(ctx, len(parts), func(ctx context.Context, i int) error {
		p := parts[i]
		stamp := stampOf(p)
		if err := s.storeDay(ctx, p.seriesDay, now, stamp); err != nil {
			return err
		}
		if err := s.e.refusal(); err != nil {
			return err
		}
		b := s.e.c.Batch(gocql.UnloggedBatch).Consistency(s.e.level.commit).WithTimestamp(stamp)
		for j, at := range p.times {
			b.Query(s.insert, p.id[:], p.day, at, p.values[j], s.ttl(now, at))
		}
		for j := range b.Entries {
			b.Entries[j].Idempotent = true
		}
		err := s.e.patiently(ctx, func() error { return b.ExecContext(ctx) })
		return s.e.fault(ctx, err)
	})
}

// partsOf sorts samples by partition and time. Of samples with one time the last one stays.
func partsOf(list []engine.SampleRun) (parts []part) {
	days := map[seriesDay]map[int64]float64{}
	for _, run := range list {
		for i, at := range run.Times {
			k := seriesDay{run.ID, dayOf(at)}
			if days[k] == nil {
				days[k] = map[int64]float64{}
			}
			days[k][at] = run.Values[i]
		}
	}
	for k, samples := range days {
		times := make([]int64, 0, len(samples))
		for at := range samples {
			times = append(times, at)
		}
		slices.Sort(times)
		for some := range slices.Chunk(times, sampleBatch) {
			p := part{seriesDay: k, times: some}
			for _, at := range some {
				p.values = append(p.values, samples[at])
			}
			parts = append(parts, p)
		}
	}
	return parts
}

// dayOf returns the number of the day of a time.
func dayOf(at int64) int32 {
	day := at / sampleDay
	if at%sampleDay < 0 {
		day--
	}
	return int32(day)
}

// ttl returns for how many seconds a sample is kept; 0 is forever.
func (s *samples) ttl(now time.Time, at int64) int {
	if s.retention == 0 {
		return 0
	}
	left := at/int64(time.Second) - now.Unix() + int64(s.retention/time.Second)
	if left >= int64(maxTTL/time.Second) {
		return 0
	}
	return max(1, int(left))
}

// storeDay stores that a series has samples on a day, if this process has not done so.
func (s *samples) storeDay(ctx context.Context, d seriesDay, now time.Time, stamp int64) error {
	s.mu.Lock()
	_, known := s.days[d]
	s.mu.Unlock()
	if known {
		return nil
	}
	ttl := s.ttl(now, (int64(d.day)+1)*sampleDay) // of the latest sample of that day
	if err := s.write(ctx, s.e.c.Query(insertDay, s.name, d.id[:], d.day, ttl).WithTimestamp(stamp)); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.days) >= rememberedDays {
		clear(s.days)
	}
	s.days[d] = struct{}{}
	return nil
}

// Read implements engine.SampleTables.
func (s *samples) Read(ctx context.Context, id [16]byte, from, to int64, limit int, r engine.Read) (engine.SampleRun, error) {
	run := engine.SampleRun{ID: id}
	if r.AtLeast != 0 {
		return run, lacks("position")
	}
	at := s.e.level.get
	if r.Level == engine.Local && r.MaxStale == 0 {
		at = gocql.LocalOne
	}
	days, err := s.daysOf(ctx, id, from, to, at)
	if err != nil {
		return run, err
	}
	for _, day := range days {
		rows := s.e.query(s.sel, id[:], day, from, to).Consistency(at).PageSize(samplePage).IterContext(ctx)
		var t int64
		var v float64
		for len(run.Times) <= limit && rows.Scan(&t, &v) {
			run.Times, run.Values = append(run.Times, t), append(run.Values, v)
		}
		if err := rows.Close(); err != nil {
			return run, s.e.fault(ctx, err)
		}
		if len(run.Times) > limit {
			break
		}
	}
	return run, nil
}

// daysOf returns the days on which a series has samples, ascending; of a few days it returns all.
func (s *samples) daysOf(ctx context.Context, id [16]byte, from, to int64, at gocql.Consistency) (days []int32, err error) {
	first, last := dayOf(from), dayOf(to)
	if last-first < fewDays {
		for day := first; day <= last; day++ {
			days = append(days, day)
		}
		return days, nil
	}
	rows := s.e.query(selectDays, s.name, id[:], first, last).Consistency(at).PageSize(samplePage).IterContext(ctx)
	var day int32
	for rows.Scan(&day) {
		days = append(days, day)
	}
	return days, s.e.fault(ctx, rows.Close())
}

// each calls fn with 0 to n-1, samplesAtOnce at a time, and returns the first error.
func (s *samples) each(ctx context.Context, n int, fn func(ctx context.Context, i int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var work sync.WaitGroup
	next := make(chan int)
	for range min(n, samplesAtOnce) {
		work.Go(func() {
			for i := range next {
				if err := fn(ctx, i); err != nil {
					cancel(err)
				}
			}
		})
	}
	for i := range n {
		select {
		case next <- i:
		case <-ctx.Done():
		}
	}
	close(next)
	work.Wait()
	return context.Cause(ctx)
}

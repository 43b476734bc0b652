package cassandra

import (
	"cmp"
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
	insertSample = `INSERT INTO %s (series, day, at, value) VALUES (?, ?, ?, ?)`
	selectSample = `SELECT at, value FROM %s WHERE series = ? AND day = ? AND at >= ? AND at <= ?`
	selectLast   = `SELECT at, value FROM %s WHERE series = ? AND day = ? AND at >= ? AND at <= ? ORDER BY at DESC LIMIT ?`
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
	bulk        *gocql.Session // for writes
	name        string
	retention   time.Duration
	insert, sel string
	newest      string // selects the newest sample of a day
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
		found, err := e.exists(ctx, e.keyspace, t.name)
		if err == nil && !found {
			err = create(ctx, e.c, hosts, t.stmt)
		}
		if err != nil {
			return nil, e.fault(ctx, err)
		}
	}
	bulk, err := e.bulkSession(ctx)
	if err != nil {
		return nil, err
	}
	insert := fmt.Sprintf(insertSample, table)
	if retention > 0 {
		insert += " USING TTL ?"
	}
	return &samples{
		e: e, bulk: bulk, name: collection, retention: retention, days: map[seriesDay]struct{}{},
		insert: insert, sel: fmt.Sprintf(selectSample, table), newest: fmt.Sprintf(selectLast, table),
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
	return inParallel(ctx, len(list), samplesAtOnce, func(ctx context.Context, i int) error {
		d := list[i]
		return s.e.write(ctx, s.bulk.Query(insertSeries, s.name, int8(d.ID[0]%seriesShards), at, d.ID[:], d.Labels).WithTimestamp(s.stamp()))
	})
}

// Defined implements engine.SampleTables.
func (s *samples) Defined(ctx context.Context, since time.Time) iter.Seq2[engine.SampleSeries, error] {
	stmt := selectSeries
	if since.IsZero() {
		stmt, since = s.e.scan(stmt), time.Unix(0, 0)
	}
	return func(yield func(engine.SampleSeries, error) bool) {
		for shard := range seriesShards {
			rows := s.e.query(stmt, s.name, int8(shard), since).Consistency(s.e.level.get).PageSize(samplePage).IterContext(ctx)
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

// part is what one batch writes: samples of one partition, ascending, at most sampleBatch.
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
	return inParallel(ctx, len(parts), samplesAtOnce, func(ctx context.Context, i int) error {
		p := parts[i]
		stamp := stampOf(p)
		if err := s.storeDay(ctx, p.seriesDay, now, stamp); err != nil {
			return err
		}
		if err := s.e.refusal(); err != nil {
			return err
		}
		b := s.bulk.Batch(gocql.UnloggedBatch).Consistency(s.e.level.commit).WithTimestamp(stamp)
		for j, at := range p.times {
			args := []any{p.id[:], p.day, at, p.values[j]}
			if s.retention > 0 {
				args = append(args, s.ttl(now, at))
			}
			b.Query(s.insert, args...)
		}
		for j := range b.Entries {
			b.Entries[j].Idempotent = true
		}
		err := s.e.patiently(ctx, func() error { return b.ExecContext(ctx) })
		return s.e.fault(ctx, err)
	})
}

// partsOf divides samples into batches.
func partsOf(list []engine.SampleRun) (parts []part) {
	for _, run := range list {
		run = ascending(run)
		for first, n := 0, 0; first < len(run.Times); first = n {
			day := dayOf(run.Times[first])
			for n = first + 1; n < len(run.Times) && n-first < sampleBatch && dayOf(run.Times[n]) == day; n++ {
			}
			parts = append(parts, part{seriesDay{run.ID, day}, run.Times[first:n], run.Values[first:n]})
		}
	}
	return parts
}

// ascending returns the samples sorted by time. Of samples with one time the last one stays.
func ascending(run engine.SampleRun) engine.SampleRun {
	sorted := true
	for i := 1; sorted && i < len(run.Times); i++ {
		sorted = run.Times[i-1] < run.Times[i]
	}
	if sorted {
		return run
	}
	places := make([]int, len(run.Times))
	for i := range places {
		places[i] = i
	}
	slices.SortStableFunc(places, func(a, b int) int { return cmp.Compare(run.Times[a], run.Times[b]) })
	out := engine.SampleRun{ID: run.ID}
	for i, place := range places {
		if i+1 < len(places) && run.Times[places[i+1]] == run.Times[place] {
			continue
		}
		out.Times, out.Values = append(out.Times, run.Times[place]), append(out.Values, run.Values[place])
	}
	return out
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
	if err := s.e.write(ctx, s.bulk.Query(insertDay, s.name, d.id[:], d.day, ttl).WithTimestamp(stamp)); err != nil {
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
	at, err := s.e.plainLevel(r)
	if err != nil {
		return run, err
	}
	days, err := s.daysOf(ctx, id, from, to, at)
	if err != nil {
		return run, err
	}
	stmt := s.sel
	if len(days) > fewDays {
		stmt = s.e.scan(stmt)
	}
	for _, day := range days {
		rows := s.e.query(stmt, id[:], day, from, to).Consistency(at).PageSize(samplePage).IterContext(ctx)
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

// Last implements engine.SampleTables. It reads one row of the newest day that has samples.
func (s *samples) Last(ctx context.Context, id [16]byte, from, to int64, r engine.Read) (engine.SampleRun, error) {
	run := engine.SampleRun{ID: id}
	at, err := s.e.plainLevel(r)
	if err != nil {
		return run, err
	}
	days, err := s.daysOf(ctx, id, from, to, at)
	if err != nil {
		return run, err
	}
	for _, day := range slices.Backward(days) {
		var t int64
		var v float64
		err := s.e.query(s.newest, id[:], day, from, to, 1).Consistency(at).ScanContext(ctx, &t, &v)
		switch {
		case err == nil:
			run.Times, run.Values = []int64{t}, []float64{v}
			return run, nil
		case !errors.Is(err, gocql.ErrNotFound):
			return run, s.e.fault(ctx, err)
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

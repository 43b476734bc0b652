package cassandra

import (
	"context"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/skerrydb/skerry/ci/cassandraserver"
	"github.com/skerrydb/skerry/engine"
)

// openSamples opens the tables of a collection.
func openSamples(t *testing.T, eng engine.Engine, name string, retention time.Duration) engine.SampleTables {
	t.Helper()
	s, err := eng.(engine.SampleStore).Samples(t.Context(), name, retention)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// defined returns the labels of all series that are defined since some time, by id.
func defined(t *testing.T, s engine.SampleTables, since time.Time) map[[16]byte]map[string]string {
	t.Helper()
	all := map[[16]byte]map[string]string{}
	for d, err := range s.Defined(t.Context(), since) {
		if err != nil {
			t.Fatal(err)
		}
		all[d.ID] = d.Labels
	}
	return all
}

// TestSamples: what one process stores another one reads, also of days before 1970 and of collections whose names are not those
// of tables. The later of two samples with one time stays.
func TestSamples(t *testing.T) {
	server := cassandraserver.Shared(t)
	keyspace, done := cassandraserver.Keyspace(t, "meta")
	defer done()
	eng, other := open1(t, server.URL(keyspace), Options{}), open1(t, server.URL(keyspace), Options{})
	defer eng.Close()
	defer other.Close()
	began := time.Now()
	for _, name := range []string{"plant", "Plant-1", strings.Repeat("x", 64)} {
		mine, theirs := openSamples(t, eng, name, 0), openSamples(t, other, name, 0)
		list := []engine.SampleSeries{{ID: [16]byte{1}, Labels: map[string]string{"__name__": "temp", "line": "ü\"\n"}}, {ID: [16]byte{0xff}, Labels: map[string]string{"a": "b"}}}
		for range 2 { // the second time changes nothing
			if err := mine.Define(t.Context(), list); err != nil {
				t.Fatal(err)
			}
		}
		for _, since := range []time.Time{{}, began.Add(-time.Second)} {
			if got := defined(t, theirs, since); len(got) != 2 || !maps.Equal(got[list[0].ID], list[0].Labels) || !maps.Equal(got[list[1].ID], list[1].Labels) {
				t.Errorf("%s: the series since %s are %v", name, since, got)
			}
		}
		if got := defined(t, theirs, time.Now().Add(time.Minute)); len(got) != 0 {
			t.Errorf("%s: in a minute %v are defined", name, got)
		}

		runs := []engine.SampleRun{
			{ID: [16]byte{1}, Times: []int64{5, -1, 0, sampleDay, math.MaxInt64, math.MinInt64, -sampleDay, 5, 0}, Values: []float64{9, 2, 3, 4, 5, math.Inf(1), 7, 8, 30}},
			{ID: [16]byte{2}, Times: []int64{5}, Values: []float64{1}},
		}
		for i := range int64(3 * sampleBatch) { // more than one batch
			runs[1].Times, runs[1].Values = append(runs[1].Times, 1000+i), append(runs[1].Values, float64(i))
		}
		if err := mine.Append(t.Context(), runs); err != nil {
			t.Fatal(err)
		}
		if err := theirs.Append(t.Context(), []engine.SampleRun{{ID: [16]byte{1}, Times: []int64{-1}, Values: []float64{-2}}}); err != nil {
			t.Fatal(err)
		}
		checkReads(t, name, mine, theirs)
	}
	if _, err := eng.(engine.SampleStore).Samples(t.Context(), "a'b", 0); engine.CodeOf(err) != engine.CodeInvalid {
		t.Errorf("a name with a quote: %v", err)
	}
}

// checkReads checks what is read of the samples of TestSamples.
func checkReads(t *testing.T, name string, stores ...engine.SampleTables) {
	t.Helper()
	for _, c := range []struct {
		id       byte
		from, to int64
		limit    int
		times    []int64
		values   []float64
	}{
		{1, math.MinInt64, math.MaxInt64, 100, []int64{math.MinInt64, -sampleDay, -1, 0, 5, sampleDay, math.MaxInt64}, []float64{math.Inf(1), 7, -2, 30, 8, 4, 5}},
		{1, -1, 5, 100, []int64{-1, 0, 5}, []float64{-2, 30, 8}},
		{1, 1, sampleDay, 100, []int64{5, sampleDay}, []float64{8, 4}},
		{1, math.MinInt64, math.MaxInt64, 2, []int64{math.MinInt64, -sampleDay, -1}, []float64{math.Inf(1), 7, -2}},
		{2, 0, 1001, 100, []int64{5, 1000, 1001}, []float64{1, 0, 1}},
		{2, 1000 + 3*sampleBatch - 1, sampleDay, 100, []int64{1000 + 3*sampleBatch - 1}, []float64{3*sampleBatch - 1}},
		{3, math.MinInt64, math.MaxInt64, 100, nil, nil},
	} {
		for _, s := range stores {
			for _, level := range []engine.Level{engine.Linearizable, engine.Session, engine.Local} {
				got, err := s.Read(t.Context(), [16]byte{c.id}, c.from, c.to, c.limit, engine.Read{Level: level})
				if err != nil {
					t.Fatal(err)
				}
				if !slices.Equal(got.Times, c.times) || !slices.Equal(got.Values, c.values) {
					t.Errorf("%s: series %d from %d to %d: %v %v, want %v %v", name, c.id, c.from, c.to, got.Times, got.Values, c.times, c.values)
				}
				last, err := s.Last(t.Context(), [16]byte{c.id}, c.from, c.to, engine.Read{Level: level})
				if err != nil {
					t.Fatal(err)
				}
				if n := len(c.times) - 1; c.limit == 100 && (len(last.Times) != min(1, n+1) || n >= 0 && (last.Times[0] != c.times[n] || last.Values[0] != c.values[n])) {
					t.Errorf("%s: the last of series %d from %d to %d is %v %v", name, c.id, c.from, c.to, last.Times, last.Values)
				}
			}
		}
	}
}

// TestSkewedClocks: clients whose clocks differ store samples of different times without loss. Of two samples of one time, that of the
// later clock stays, and of one client always the last, even if its clock goes back.
func TestSkewedClocks(t *testing.T) {
	server := cassandraserver.Shared(t)
	keyspace, done := cassandraserver.Keyspace(t, "meta")
	defer done()
	at := time.Now()
	behind := open1(t, server.URL(keyspace), Options{Now: func() time.Time { return at.Add(-time.Hour) }})
	defer behind.Close()
	back := time.Duration(0) // only between calls
	ahead := open1(t, server.URL(keyspace), Options{Now: func() time.Time { return at.Add(time.Hour - back) }})
	defer ahead.Close()
	early, late := openSamples(t, behind, "c", 0), openSamples(t, ahead, "c", 0)
	put := func(s engine.SampleTables, time int64, v float64) {
		t.Helper()
		if err := s.Append(t.Context(), []engine.SampleRun{{ID: [16]byte{1}, Times: []int64{time}, Values: []float64{v}}}); err != nil {
			t.Fatal(err)
		}
	}
	put(late, 1, 1)
	put(early, 1, 2) // written later, by a clock that is behind
	put(early, 2, 3)
	put(late, 3, 4)
	back = time.Minute
	put(late, 3, 5)
	for _, s := range []engine.SampleTables{early, late} {
		got, err := s.Read(t.Context(), [16]byte{1}, 0, 10, 10, engine.Read{})
		if err != nil || !slices.Equal(got.Times, []int64{1, 2, 3}) || !slices.Equal(got.Values, []float64{1, 3, 5}) {
			t.Errorf("%v %v %v, want 1, 3 and 5 at 1, 2 and 3", got.Times, got.Values, err)
		}
	}
}

// TestSamplesExpire: a sample is kept for the retention from its own time on, whenever it is written, and a table of samples
// is compacted by time.
func TestSamplesExpire(t *testing.T) {
	server := cassandraserver.Shared(t)
	keyspace, done := cassandraserver.Keyspace(t, "meta")
	defer done()
	now := time.Now()
	eng := open1(t, server.URL(keyspace), Options{Now: func() time.Time { return now }})
	defer eng.Close()
	s := openSamples(t, eng, "kept", 30*24*time.Hour).(*samples)
	for age, want := range map[time.Duration]int{
		0: 30 * 24 * 3600, 29 * 24 * time.Hour: 24 * 3600, 30 * 24 * time.Hour: 1, 40 * 24 * time.Hour: 1, -10 * time.Minute: 30*24*3600 + 600,
		-200 * 365 * 24 * time.Hour: 0,
	} {
		at := now.Add(-age).Unix() * int64(time.Second)
		if got := s.ttl(now, at); got != want {
			t.Errorf("a sample that is %s old is kept for %d s, want %d", age, got, want)
		}
	}
	at := now.Add(-24 * time.Hour).UnixNano()
	if err := s.Append(t.Context(), []engine.SampleRun{{ID: [16]byte{1}, Times: []int64{at}, Values: []float64{1}}}); err != nil {
		t.Fatal(err)
	}
	var ttl int
	if err := s.e.c.Query("SELECT ttl(value) FROM samples_kept WHERE series = ? AND day = ? AND at = ?", make16(1), dayOf(at), at).ScanContext(t.Context(), &ttl); err != nil {
		t.Fatal(err)
	}
	if most := 29 * 24 * 3600; ttl > most || ttl < most-600 {
		t.Errorf("it is kept for %d s, want %d", ttl, most)
	}
	var how map[string]string
	if err := s.e.c.Query("SELECT compaction FROM system_schema.tables WHERE keyspace_name = ? AND table_name = ?", keyspace, "samples_kept").ScanContext(t.Context(), &how); err != nil {
		t.Fatal(err)
	}
	if !strings.HasSuffix(how["class"], "TimeWindowCompactionStrategy") || how["compaction_window_unit"] != "HOURS" || how["compaction_window_size"] != "24" {
		t.Errorf("the table is compacted by %v", how)
	}
}

func make16(first byte) []byte { return append([]byte{first}, make([]byte, 15)...) }

// TestSampleStatements looks at what is sent for samples: each statement is prepared and on one partition, a read is of pages, and a
// batch is unlogged, within one partition, and may be repeated.
func TestSampleStatements(t *testing.T) {
	server := cassandraserver.Shared(t)
	keyspace, done := cassandraserver.Keyspace(t, "meta")
	defer done()
	rec := &recorder{}
	eng := open1(t, server.URL(keyspace), Options{watch: rec})
	defer eng.Close()
	s := openSamples(t, eng, "c", 0)
	if err := s.Define(t.Context(), []engine.SampleSeries{{ID: [16]byte{1}, Labels: map[string]string{"a": "b"}}}); err != nil {
		t.Fatal(err)
	}
	defined(t, s, time.Time{})
	var run engine.SampleRun
	for i := range int64(200) {
		run.Times, run.Values = append(run.Times, i*sampleDay/100), append(run.Values, 1)
	}
	if err := s.Append(t.Context(), []engine.SampleRun{run, {ID: [16]byte{1}, Times: run.Times, Values: run.Values}}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Read(t.Context(), [16]byte{1}, math.MinInt64, math.MaxInt64, 1000, engine.Read{}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Last(t.Context(), [16]byte{1}, math.MinInt64, math.MaxInt64, engine.Read{}); err != nil {
		t.Fatal(err)
	}
	prepared := preparedOn(t, eng.(*db))
	rec.mu.Lock()
	defer rec.mu.Unlock()
	sent := map[string]bool{}
	for _, q := range rec.queries {
		if sent[q.Statement] = true; !strings.HasPrefix(q.Statement, "CREATE ") && !prepared[q.Statement] {
			t.Errorf("not prepared: %s", q.Statement)
		}
	}
	for _, stmt := range []string{insertSeries, selectSeries, insertDay, selectDays, s.(*samples).sel, s.(*samples).newest} {
		if !sent[stmt] {
			t.Errorf("not sent: %s", stmt)
		}
		if strings.Contains(stmt, "FILTERING") || strings.ContainsAny(stmt, "'0123456789") {
			t.Errorf("%s filters, or has a literal", stmt)
		}
	}
	rows := 0
	for _, b := range rec.batches {
		if len(b.Statements) > sampleBatch {
			t.Errorf("a batch of %d rows", len(b.Statements))
		}
		for i, stmt := range b.Statements {
			if stmt != s.(*samples).insert || !prepared[stmt] {
				t.Errorf("in a batch: %s", stmt)
			}
			if !slices.Equal(b.Values[i][0].([]byte), b.Values[0][0].([]byte)) || b.Values[i][1] != b.Values[0][1] {
				t.Error("a batch is on several partitions")
			}
			rows++
		}
	}
	if rows != 400 {
		t.Errorf("%d rows in batches, want 400", rows)
	}
}

// TestBypassCache: reads of everything, and of many days, pass by the cache of ScyllaDB. Cassandra does not know these words, so
// what it refuses is what ScyllaDB would get.
func TestBypassCache(t *testing.T) {
	server := cassandraserver.Shared(t)
	keyspace, done := cassandraserver.Keyspace(t, "meta")
	defer done()
	eng := open1(t, server.URL(keyspace), Options{})
	defer eng.Close()
	s := openSamples(t, eng, "c", 0)
	run := engine.SampleRun{ID: [16]byte{1}}
	for day := range int64(fewDays + 1) {
		run.Times, run.Values = append(run.Times, day*sampleDay), append(run.Values, 1)
	}
	if err := s.Append(t.Context(), []engine.SampleRun{run}); err != nil {
		t.Fatal(err)
	}
	all := func(to int64) error {
		_, err := s.Read(t.Context(), run.ID, 0, to, 100, engine.Read{})
		return err
	}
	every := func(since time.Time) (last error) {
		for _, last = range s.Defined(t.Context(), since) {
		}
		return last
	}
	for _, scylla := range []bool{false, true} {
		eng.(*db).scylla = scylla
		for name, c := range map[string]struct {
			err  error
			scan bool
		}{
			"many days":           {all(fewDays * sampleDay), true},
			"a day":               {all(sampleDay - 1), false},
			"all definitions":     {every(time.Time{}), true},
			"the new definitions": {every(time.Now()), false},
		} {
			if refused := c.err != nil && strings.Contains(c.err.Error(), "BYPASS"); refused != (scylla && c.scan) || c.err != nil && !refused {
				t.Errorf("%s, ScyllaDB %t: %v", name, scylla, c.err)
			}
		}
	}
}

// TestSamplesLoad: what is loaded replaces no sample that was appended, before or after, and has a write timestamp of its own time.
func TestSamplesLoad(t *testing.T) {
	server := cassandraserver.Shared(t)
	keyspace, done := cassandraserver.Keyspace(t, "meta")
	defer done()
	eng := open1(t, server.URL(keyspace), Options{})
	defer eng.Close()
	s := openSamples(t, eng, "loaded", 0).(*samples)
	old, recent := time.Now().Add(-48*time.Hour).UnixNano(), time.Now().UnixNano()
	write := func(how func(context.Context, []engine.SampleRun) error, v float64, times ...int64) {
		t.Helper()
		run := engine.SampleRun{ID: [16]byte{1}, Times: times}
		for range times {
			run.Values = append(run.Values, v)
		}
		if err := how(t.Context(), []engine.SampleRun{run}); err != nil {
			t.Fatal(err)
		}
	}
	write(s.Append, 1, old, recent)
	write(s.Load, 2, -5, old, old+1, recent, recent+1)
	write(s.Append, 3, old+1, recent+1)
	write(s.Load, 4, old+1, recent+1)
	got, err := s.Read(t.Context(), [16]byte{1}, math.MinInt64, math.MaxInt64, 100, engine.Read{})
	if err != nil || !slices.Equal(got.Times, []int64{-5, old, old + 1, recent, recent + 1}) || !slices.Equal(got.Values, []float64{2, 1, 3, 1, 3}) {
		t.Errorf("%v %v: %v", got.Times, got.Values, err)
	}
	var stamp int64
	write(s.Load, 5, old+2)
	if err := s.e.c.Query("SELECT writetime(value) FROM samples_loaded WHERE series = ? AND day = ? AND at = ?", make16(1), dayOf(old+2), old+2).ScanContext(t.Context(), &stamp); err != nil || stamp != old/1000 {
		t.Errorf("it was written at %d, want %d: %v", stamp, old/1000, err)
	}
}

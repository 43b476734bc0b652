package embedded

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skerrydb/skerry/ci/seed"
	"github.com/skerrydb/skerry/journal/memfs"
)

func planOf(pairs, size int64) *recoveryPlan {
	p := &recoveryPlan{floor: 128 << 20, target: DefaultRecoveryTarget}
	p.holds(pairs, size)
	return p
}

// TestSnapshotsBeginByTheCostOfRecovery: a small store waits for SnapshotBytes of log, a
// large one until recovery would take too long, and never before a quarter of its size.
func TestSnapshotsBeginByTheCostOfRecovery(t *testing.T) {
	const write = 120 // bytes of log
	for _, c := range []struct {
		name        string
		pairs, size int64
		slow        time.Duration // of a start that took so long to load a fifth of it
		want        int64         // bytes of log at which a snapshot begins
	}{
		{name: "empty", want: 128 << 20},
		{name: "small", pairs: 100_000, size: 12 << 20, want: 128 << 20},
		{name: "few large values", pairs: 2000, size: 1 << 30, want: 355 << 20},
		{name: "slow machine", pairs: 2000, size: 1 << 30, slow: time.Second, want: 256 << 20},
		{name: "10 M keys", pairs: 10_000_000, size: 1180 << 20, want: 295 << 20},
		{name: "50 M keys", pairs: 50_000_000, size: 5900 << 20, want: 1475 << 20},
	} {
		p := planOf(c.pairs, c.size)
		if c.slow > 0 {
			p.load.measure(c.slow, loadCost(c.pairs, c.size)/5)
		}
		for !p.due(0, 0) {
			p.logged(write<<10, 1<<10)
		}
		if got := p.log.Load(); got < c.want || got > c.want+c.want/8 {
			t.Errorf("%s: a snapshot begins after %d MiB of log, want %d; recovery would take %v", c.name, got>>20, c.want>>20, p.predicted())
		}
	}
}

// TestSnapshotsWriteLittle: whatever the load, snapshots write at most snapshotPerLog times
// as much as the log, and the log is never much longer than what is allowed.
func TestSnapshotsWriteLittle(t *testing.T) {
	rng := rand.New(rand.NewPCG(seed.Of(t), 0))
	for range 200 {
		pairs := rng.Int64N(20_000_000)
		size := pairs * (10 + rng.Int64N(500))
		p := planOf(pairs, size)
		p.replay.measure(time.Duration(rng.Int64N(int64(10*time.Second))), time.Second)
		perBatch, took := 1+rng.IntN(1<<20), time.Duration(rng.Int64N(int64(time.Minute)))
		var logged, written, last int64
		for range 20_000 {
			ask := p.logged(perBatch, 1+rng.IntN(perBatch))
			logged += int64(perBatch)
			if p.log.Load() > p.most()+p.least()/16+int64(perBatch) {
				t.Fatalf("%d bytes of log and no snapshot; the last one has %d", p.log.Load(), size)
			}
			if !ask || !p.due(time.Duration(logged-last), took) {
				continue
			}
			last = logged
			if log, writes := p.begin(); rng.IntN(10) > 0 {
				written += size
				p.saved(log, writes)
			} else if p.failed(); p.due(0, 0) {
				t.Fatal("the next attempt begins at once")
			} else {
				p.saved(log, writes) // by another node's
			}
		}
		if written > snapshotPerLog*logged {
			t.Fatalf("%d bytes of snapshots for %d of log", written, logged)
		}
	}
}

// TestSnapshotCountsWhatIsLoggedMeanwhile: the longer a snapshot takes under a load, the
// earlier it begins, and what is logged while it is written still has to be replayed.
func TestSnapshotCountsWhatIsLoggedMeanwhile(t *testing.T) {
	at := func(took time.Duration) int64 {
		p := planOf(2000, 1<<30)
		for elapsed := time.Millisecond; !p.due(elapsed, took); elapsed += time.Millisecond {
			p.logged(120<<10, 1<<10)
		}
		return p.log.Load()
	}
	if short, long := at(0), at(time.Second); long > short*9/10 {
		t.Errorf("with a snapshot of 1 s it begins after %d bytes, with a short one after %d", long, short)
	}
	p := planOf(0, 0)
	p.logged(200<<20, 1000)
	log, writes := p.begin()
	p.logged(10<<20, 7)
	if p.saved(log, writes); p.log.Load() != 10<<20 || p.writes.Load() != 7 {
		t.Errorf("%d bytes and %d writes remain", p.log.Load(), p.writes.Load())
	}
}

// TestSnapshotPauses: a snapshot leaves most of the time to the writes beside it.
func TestSnapshotPauses(t *testing.T) {
	for _, c := range []struct {
		step time.Duration
		busy bool
		want time.Duration
	}{
		{time.Millisecond, true, time.Millisecond},
		{time.Millisecond, false, -1},
		{time.Minute, true, longestPause},
	} {
		now, paused := time.Time{}, time.Duration(-1)
		p := &pacedWriter{w: io.Discard, pacer: pacer{
			now: func() time.Time { return now }, pause: func(d time.Duration) { paused = d },
			busy: func() bool { return c.busy },
		}}
		for i, half := 0, make([]byte, paceBytes/2); i < 2; i++ {
			if _, err := p.Write(half); err != nil {
				t.Fatal(err)
			}
			if now = now.Add(c.step); i == 0 && paused >= 0 {
				t.Error("a pause in the middle of a step")
			}
		}
		if now = now.Add(time.Hour); paused != c.want { // between two writes of the same step
			t.Errorf("%+v: a pause of %v", c, paused)
		}
	}
}

// TestProgressOfStart: an operator sees how far a long start is.
func TestProgressOfStart(t *testing.T) {
	fs := memfs.New(1)
	db := open(t, "data", Options{FS: fs})
	val := string(make([]byte, 1<<20))
	for i := range 20 {
		put(t, db, fmt.Sprintf("key %d", i), val)
	}
	if _, err := db.saveSnapshot(); err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		put(t, db, fmt.Sprintf("key %d", i), "v")
	}
	_ = db.Close()
	var out bytes.Buffer
	var calls atomic.Int64
	db = open(t, "data", Options{FS: fs, Logger: slog.New(slog.NewJSONHandler(&out, nil)), mono: func() time.Time {
		return time.Unix(2*calls.Add(1), 0)
	}})
	_ = db.Close()
	lines, seen := json.NewDecoder(&out), map[string]int{}
	for {
		var line struct {
			Msg     string
			Percent *int
		}
		if err := lines.Decode(&line); err != nil {
			break
		}
		if line.Percent != nil && *line.Percent >= 0 && *line.Percent <= 100 {
			seen[line.Msg]++
		}
	}
	if seen["reading the snapshot"] == 0 || seen["replaying the log"] == 0 {
		t.Errorf("reported: %v", seen)
	}
}

// TestRecoveryIsMeasured: the metrics have what the next recovery would replay.
func TestRecoveryIsMeasured(t *testing.T) {
	o := Options{FS: memfs.New(1), SnapshotBytes: 1 << 30}
	db := open(t, "data", o)
	for i := range 10 {
		put(t, db, fmt.Sprint(i), "v")
	}
	metric := func(name string) float64 {
		for m := range db.Metrics() {
			if m.Name == name {
				return m.Value
			}
		}
		t.Fatalf("there is no metric %s", name)
		return 0
	}
	check := func(when string, writes float64) {
		t.Helper()
		if got := metric("engine_log_since_snapshot_writes"); got != writes {
			t.Errorf("%s: %v writes to replay, want %v", when, got, writes)
		}
		if predicted, log := metric("engine_recovery_predicted_seconds"), metric("engine_log_since_snapshot_bytes"); (predicted > 0) != (writes > 0 || when == "after a snapshot") || (log > 0) != (writes > 0) {
			t.Errorf("%s: %v s for %v bytes", when, predicted, log)
		}
	}
	check("after 10 writes", 10)
	_ = db.Close()
	db = open(t, "data", o)
	check("after a restart", 10)
	if metric("engine_recovery_replay_seconds") <= 0 {
		t.Error("the replay took no time")
	}
	db.saver.run(db.opts.mono())
	check("after a snapshot", 0)
}

package series

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/skerrydb/skerry/ci/seed"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/embedded"
	"github.com/skerrydb/skerry/feed"
)

// killDir, in the environment, makes the test binary the process to be killed. It writes to the folder named there, and
// prints what was acknowledged.
const killDir = "SKERRY_TEST_SERIES_KILL_DIR"

// killPlan, in the environment, has the number of the transaction of a job after which the process kills itself, whether
// that is before its commit, and the number of each writer's first batch.
const killPlan = "SKERRY_TEST_SERIES_KILL_PLAN"

const killWriters = 4

// killBatches bounds what a process writes, so that a slow kill does not make the check long.
const killBatches = 300

func TestMain(m *testing.M) {
	if dir := os.Getenv(killDir); dir != "" {
		if err := writeUntilKilled(dir, os.Getenv(killPlan), os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

// mortal is an engine that kills its process in the middle of sealing, merging or the removal of what is left over.
type mortal struct {
	engine.Engine
	left   atomic.Int64 // transactions of jobs
	before bool         // the commit of the last one
}

func (m *mortal) Update(ctx context.Context, fn func(engine.Tx) error) (engine.Position, error) {
	last := false
	pos, err := m.Engine.Update(ctx, func(tx engine.Tx) error {
		seen := &jobTx{Tx: tx}
		err := fn(seen)
		if seen.job && err == nil && m.left.Add(-1) == 0 {
			if m.before {
				killSelf()
			}
			last = true
		}
		return err
	})
	if last {
		killSelf()
	}
	return pos, err
}

func killSelf() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}

// jobTx notices whether a transaction writes parts or blocks.
type jobTx struct {
	engine.Tx
	job bool
}

func (tx *jobTx) Put(k, v []byte) error {
	tx.see(k)
	return tx.Tx.Put(k, v)
}

func (tx *jobTx) Delete(k []byte) error {
	tx.see(k)
	return tx.Tx.Delete(k)
}

func (tx *jobTx) see(k []byte) {
	kind, _ := kindOf(k)
	tx.job = tx.job || kind == keyPart || kind == keyBlock
}

// killOptions makes small generations that are sealed and merged all the time. The lease ends before the next process
// has started, as otherwise that would not seal anything.
func killOptions() Options {
	return Options{
		generation: 300, fanIn: 2, lease: 20 * time.Millisecond, pause: time.Millisecond,
		Now: func() time.Time { return now }, Logger: slog.New(slog.DiscardHandler),
	}
}

func openKilled(dir string) (engine.Engine, error) {
	return embedded.Open(dir, embedded.Options{SnapshotBytes: 256 << 10, HistoryBytes: 256 << 10, Logger: slog.New(slog.DiscardHandler)})
}

// writeUntilKilled prints "writer number" for each batch that was acknowledged.
func writeUntilKilled(dir, plan string, acks io.Writer) error {
	eng, err := openKilled(dir)
	if err != nil {
		return err
	}
	var first [killWriters]int
	var at int64
	m := &mortal{Engine: eng}
	if _, err := fmt.Sscan(plan, &at, &m.before, &first[0], &first[1], &first[2], &first[3]); err != nil {
		return err
	}
	m.left.Store(at)
	o := killOptions()
	if o.Feed, err = feed.New(m, feed.Options{}); err != nil {
		return err
	}
	db, err := New(m, o)
	if err != nil {
		return err
	}
	all, err := db.Use(Collection{Name: "all"})
	if err != nil {
		return err
	}
	last, err := db.Use(Collection{Name: "last"})
	if err != nil {
		return err
	}
	failed := make(chan error, killWriters+2)
	go func() { failed <- o.Feed.Run(context.Background()) }()
	go func() { failed <- db.Run(context.Background()) }()
	var mu sync.Mutex // guards acks
	fmt.Fprintln(acks, "open")
	for w := range killWriters {
		go func() {
			for j := first[w]; j < first[w]+killBatches; j++ {
				if err := writeKilled(all, last, w, j); err != nil {
					failed <- err
					return
				}
				mu.Lock()
				fmt.Fprintln(acks, w, j)
				mu.Unlock()
			}
		}()
	}
	return <-failed
}

// writeKilled stores a batch in the collection all, and its number in the collection last, always at the same time.
func writeKilled(all, last *Store, w, j int) error {
	var b Batch
	samples := killedBatch(w, j)
	names := make([]Labels, len(samples))
	for i, s := range samples {
		names[i] = s.labels
	}
	ids, err := all.Define(context.Background(), names)
	if err != nil {
		return err
	}
	for i, s := range samples {
		b.Add(ids[i], s.Time, s.Value)
	}
	if _, err := all.Append(context.Background(), &b); err != nil {
		return err
	}
	if ids, err = last.Define(context.Background(), []Labels{killedLabels(w, 0)}); err != nil {
		return err
	}
	b.Reset()
	b.Add(ids[0], now.UnixNano(), float64(j))
	_, err = last.Append(context.Background(), &b)
	return err
}

// killedSample is one sample of the collection all.
type killedSample struct {
	labels Labels
	Sample
}

func killedLabels(w, k int) Labels {
	l, err := NewLabels("m", Label{"w", fmt.Sprint(w)}, Label{"k", fmt.Sprint(k)})
	if err != nil {
		panic(err)
	}
	return l
}

// killedBatch returns what a batch has: samples of some days and of more and more series, each of a time of its own.
func killedBatch(w, j int) []killedSample {
	list := make([]killedSample, 1+j%50)
	day := now.Add(-time.Duration(j%4) * 24 * time.Hour).UnixNano()
	for i := range list {
		k := i % (1 + min(j/5, 12))
		list[i] = killedSample{killedLabels(w, k), Sample{day - int64(j)*1000 - int64(i), float64(j) + float64(i)/100}}
	}
	return list
}

// killing is what a series of kills has shown.
type killing struct {
	t       *testing.T
	dir     string
	acked   [killWriters]int // the newest batches
	newest  [killWriters]int // the numbers in the collection last
	model   model            // of the collection all
	samples int              // in it
	orphans int              // rounds that have left something over
}

// TestKill kills a process that writes, seals and merges, at random moments and in random steps of its jobs. Each time,
// every batch that was acknowledged is there once, and one that was not is there as a whole or not at all, forever.
func TestKill(t *testing.T) {
	rounds := 24
	if testing.Short() {
		rounds = 6
	}
	rng := seed.Rand(t)
	k := &killing{t: t, dir: t.TempDir(), model: model{}}
	for i := range k.acked {
		k.acked[i], k.newest[i] = -1, -1
	}
	for round := range rounds {
		at, after := 0, time.Duration(rng.IntN(200))*time.Millisecond
		if round%2 == 1 {
			at, after = 1+rng.IntN(12), 3*time.Second
		}
		first := k.run(at, rng.IntN(2) == 0, after)
		k.check(round, first, false)
		if t.Failed() {
			return
		}
	}
	k.check(rounds, k.acked, true)
	t.Logf("%d kills, %d samples, %d rounds left parts of jobs", rounds, k.samples, k.orphans)
}

// run starts the process, and kills it after some time unless it has done so itself. It returns the first batch of each
// writer.
func (k *killing) run(at int, before bool, after time.Duration) (first [killWriters]int) {
	k.t.Helper()
	for i, n := range k.acked {
		first[i] = n + 1
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), killDir+"="+k.dir, fmt.Sprint(killPlan, "=", at, before, " ", strings.Trim(fmt.Sprint(first), "[]")))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		k.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		k.t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	if !lines.Scan() || lines.Text() != "open" {
		_ = cmd.Process.Kill()
		k.t.Fatalf("the process did not open the folder: %q, %v", lines.Text(), cmd.Wait())
	}
	timer := time.AfterFunc(after, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	for lines.Scan() {
		var w, j int
		if _, err := fmt.Sscan(lines.Text(), &w, &j); err != nil {
			break // the line that the kill cut
		}
		k.acked[w] = j
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != -1 {
		k.t.Fatalf("the process ended by itself with %d", code)
	}
	return first
}

// check reads what the process has left. With finish it seals and merges all that is full before.
func (k *killing) check(round int, first [killWriters]int, finish bool) {
	k.t.Helper()
	eng, err := openKilled(k.dir)
	if err != nil {
		k.t.Fatalf("round %d: %v", round, err)
	}
	defer eng.Close()
	o := killOptions()
	if !finish {
		o.pause = time.Hour // so that it shows what the process has left
	}
	stores, stop := openUntil(k.t, eng, o, Collection{Name: "all"}, Collection{Name: "last"})
	defer stop()
	all, err := stores[0].Select(k.t.Context(), Query{})
	if err != nil {
		k.t.Fatalf("round %d: %v", round, err)
	}
	newest := k.numbers(stores[1])
	if finish {
		idle(k.t, stores[0])
	} else if leftovers(k.t, stores[0]) != "" {
		k.orphans++
	}
	for w := range killWriters {
		if !finish {
			k.expect(w, first[w], newest[w], all)
		}
		if newest[w] != k.newest[w] {
			k.t.Errorf("round %d: the last number of writer %d was %d and is %d", round, w, k.newest[w], newest[w])
		}
	}
	k.model.check(k.t, stores[0], Query{}, nil)
	if st := stores[0].Stats(); int(st.Samples)+st.Unsealed != k.samples {
		k.t.Errorf("round %d: %d samples in %d parts and %d others are stored, want %d", round, st.Samples, st.Parts, st.Unsealed, k.samples)
	}
}

// numbers returns the last number of each writer, -1 if there is none.
func (k *killing) numbers(last *Store) (n [killWriters]int) {
	k.t.Helper()
	list, err := last.Select(k.t.Context(), Query{})
	if err != nil {
		k.t.Fatal(err)
	}
	for w := range n {
		n[w] = -1
		for _, x := range list {
			if x.Labels.String() == killedLabels(w, 0).String() {
				n[w] = int(x.Values[len(x.Values)-1])
			}
		}
	}
	return n
}

// expect adds to the model what a writer has written since its first batch. The batch after the last one that was
// acknowledged may be there. If it is not, it must never appear: the next process begins with the one after it.
func (k *killing) expect(w, first, newest int, all []Series) {
	k.t.Helper()
	acked := k.acked[w]
	for j := first; j <= acked; j++ {
		k.add(killedBatch(w, j))
	}
	next := killedBatch(w, acked+1)
	there := has(all, next[0])
	if there {
		k.add(next)
	}
	if acked >= first {
		k.newest[w] = acked
	}
	if there && newest == acked+1 {
		k.newest[w] = newest
	}
	k.acked[w]++
}

func (k *killing) add(batch []killedSample) {
	for _, s := range batch {
		name := s.labels.String()
		if k.model[name] == nil {
			k.model[name] = map[int64]uint64{}
		}
		k.model[name][s.Time] = math.Float64bits(s.Value)
		k.samples++
	}
}

// has reports whether a sample is there.
func has(all []Series, s killedSample) bool {
	for _, x := range all {
		if x.Labels.String() == s.labels.String() {
			for _, at := range x.Times {
				if at == s.Time {
					return true
				}
			}
		}
	}
	return false
}

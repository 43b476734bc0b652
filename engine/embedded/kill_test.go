package embedded

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/skerrydb/skerry/ci/seed"
	"github.com/skerrydb/skerry/engine"
)

// killChild, in the environment, makes the test binary the process to be
// killed: it writes to the folder named there and tells what was acknowledged.
const killChild = "SKERRY_TEST_KILL_DIR"

const killWriters = 8

func TestMain(m *testing.M) {
	if dir := os.Getenv(killChild); dir != "" {
		if err := writeUntilKilled(dir, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

// killSpill, in the environment, makes the process keep most values in files.
const killSpill = "SKERRY_TEST_KILL_SPILL"

func killOptions() Options {
	if os.Getenv(killSpill) != "" {
		return Options{SnapshotBytes: 64 << 10, HistoryBytes: 64 << 10, SpillBytes: 20, spillSoon: true, Logger: slog.New(slog.DiscardHandler)}
	}
	return Options{SnapshotBytes: 64 << 10, HistoryBytes: 64 << 10, Logger: slog.New(slog.DiscardHandler)}
}

// writeUntilKilled has every writer count up, in one transaction a step: the
// counter, and one key for each number. A line "writer number" follows each
// acknowledgement.
func writeUntilKilled(dir string, acks io.Writer) error {
	db, err := Open(dir, killOptions())
	if err != nil {
		return err
	}
	var mu sync.Mutex // guards acks
	fmt.Fprintln(acks, "open")
	failed := make(chan error, killWriters)
	for w := range killWriters {
		go func() {
			for {
				var n uint64
				_, err := db.Update(context.Background(), func(tx engine.Tx) (err error) {
					n, err = step(tx, w)
					return err
				})
				if err != nil {
					failed <- err
					return
				}
				mu.Lock()
				fmt.Fprintln(acks, w, n)
				mu.Unlock()
			}
		}()
	}
	return <-failed
}

func counterKey(w int) []byte { return []byte{'c', byte(w)} }

func numberKey(w int, n uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte{'n', byte(w)}, n)
}

func step(tx engine.Tx, w int) (uint64, error) {
	n, err := counter(tx, w)
	if err != nil {
		return 0, err
	}
	n++
	if err := tx.Put(counterKey(w), binary.BigEndian.AppendUint64(nil, n)); err != nil {
		return 0, err
	}
	return n, tx.Put(numberKey(w, n), []byte(strings.Repeat("x", int(n%200))))
}

func counter(tx engine.Tx, w int) (uint64, error) {
	b, ok, err := tx.Get(counterKey(w))
	if err != nil || !ok {
		return 0, err
	}
	return binary.BigEndian.Uint64(b), nil
}

// TestKill kills a writing process at random moments, again and again on the
// same folder: no acknowledged write may be missing and no transaction be half there.
func TestKill(t *testing.T) { killAgain(t, 200) }

func killAgain(t *testing.T, rounds int) {
	if testing.Short() {
		rounds = 10
	}
	rng := seed.Rand(t)
	dir := t.TempDir()
	var acked [killWriters]uint64
	for round := range rounds {
		killOnce(t, dir, &acked, time.Duration(rng.IntN(40_000))*time.Microsecond)
		checkKilled(t, dir, round, acked)
		if t.Failed() {
			return
		}
	}
	total := uint64(0)
	for _, n := range acked {
		total += n
	}
	t.Logf("%d kills, %d acknowledged transactions, none lost", rounds, total)
}

// killOnce runs the writing process and kills it some time after it began to write.
func killOnce(t *testing.T, dir string, acked *[killWriters]uint64, after time.Duration) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), killChild+"="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	if !lines.Scan() || lines.Text() != "open" {
		_ = cmd.Process.Kill()
		t.Fatalf("the process did not open the folder: %q, %v", lines.Text(), cmd.Wait())
	}
	timer := time.AfterFunc(after, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	for lines.Scan() {
		var w int
		var n uint64
		if _, err := fmt.Sscan(lines.Text(), &w, &n); err != nil {
			break // the line that the kill cut
		}
		acked[w] = max(acked[w], n)
	}
	_ = cmd.Process.Kill()
	if err := cmd.Wait(); err == nil {
		t.Fatal("the process ended by itself")
	}
}

func checkKilled(t *testing.T, dir string, round int, acked [killWriters]uint64) {
	t.Helper()
	db, err := Open(dir, killOptions())
	if err != nil {
		t.Fatalf("round %d: reopen: %v", round, err)
	}
	defer db.Close()
	_, err = db.View(context.Background(), engine.Read{}, func(tx engine.Tx) error {
		keys := 0
		for w := range killWriters {
			n, err := counter(tx, w)
			if err != nil {
				return err
			}
			if n < acked[w] {
				t.Errorf("round %d: writer %d has %d, but %d was acknowledged", round, w, n, acked[w])
			}
			for i := uint64(1); i <= n; i++ {
				val, ok, err := tx.Get(numberKey(w, i))
				if err != nil {
					return err
				}
				if !ok || len(val) != int(i%200) {
					t.Errorf("round %d: writer %d: number %d of %d is missing or wrong", round, w, i, n)
				}
			}
			if n > 0 {
				keys += int(n) + 1
			}
		}
		if have, err := tx.(engine.Ranker).Count(nil, nil); have != keys || err != nil {
			t.Errorf("round %d: %d keys (%v), want %d", round, have, err, keys)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

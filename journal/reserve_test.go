//go:build unix

package journal_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/skerrydb/skerry/journal"
)

// TestReserve runs in a process of its own whose descriptors are all taken by
// strangers: a log with a reserve goes on, over several segments, and also when every
// descriptor that it frees is taken at once.
func TestReserve(t *testing.T) {
	if dir := os.Getenv("SKERRY_TEST_RESERVE"); dir != "" {
		if err := starve(dir); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		return
	}
	t.Parallel()
	cmd := exec.Command(os.Args[0], "-test.run=^TestReserve$")
	cmd.Env = append(os.Environ(), "SKERRY_TEST_RESERVE="+t.TempDir())
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v:\n%s", err, out)
	}
}

// starve does what TestReserve says.
func starve(dir string) error {
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: 100, Max: 100}); err != nil {
		return err
	}
	fs := journal.NewReserve(8)
	defer fs.Close()
	l, err := journal.Open(filepath.Join(dir, "log"), journal.Options{FS: fs, SegmentBytes: 64 << 10, ReserveBytes: 8 << 10})
	if err != nil {
		return err
	}
	defer l.Close()
	var taken []*os.File
	take := func() (n int) {
		for {
			f, err := os.Open(os.DevNull)
			if err != nil {
				return n
			}
			taken = append(taken, f)
			n++
		}
	}
	if n := take(); n < 50 {
		return fmt.Errorf("only %d descriptors were free: the test does not test", n)
	}
	data := bytes.Repeat([]byte("x"), 4000)
	for i := uint64(1); i <= 100; i++ {
		if err := errors.Join(l.Append(i, data), l.Sync()); err != nil {
			return fmt.Errorf("record %d: %w", i, err)
		}
	}
	if n := l.Stats().Segments; n < 5 {
		return fmt.Errorf("%d segments: the test does not test", n)
	}
	if err := l.TruncateBefore(90); err != nil {
		return err
	}
	if _, err := fs.List(dir); err != nil {
		return err
	}
	for range 40 { // whoever takes what is freed has it all in the end
		take()
		f, err := fs.OpenFile(filepath.Join(dir, "file"), os.O_RDWR|os.O_CREATE)
		if err != nil {
			return fmt.Errorf("with %d taken: %w", len(taken), err)
		}
		f.Close()
	}
	fs.Close()
	take()
	if _, err := fs.OpenFile(filepath.Join(dir, "file"), os.O_RDWR); !journal.NoFiles(err) || !journal.Passing(err) {
		return fmt.Errorf("without a reserve: %v", err)
	}
	return nil
}

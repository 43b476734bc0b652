package journal_test

import (
	"bufio"
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

// childEnv names what this test binary does as a second process.
const childEnv = "SKERRY_JOURNAL_CHILD"

func TestMain(m *testing.M) {
	var err error
	switch os.Getenv(childEnv) {
	case "":
		os.Exit(m.Run())
	case "lock":
		err = holdLock(os.Args[1])
	case "full":
		err = inSmallDisk(os.Args[1], fillDisk)
	case "readonly":
		err = inSmallDisk(os.Args[1], openReadOnly)
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

func child(what, dir string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], dir)
	cmd.Env = append(os.Environ(), childEnv+"="+what)
	return cmd
}

// holdLock takes the lock of dir and keeps it until it is killed.
func holdLock(dir string) error {
	if _, err := journal.LockDir(journal.OS(), dir); err != nil {
		return err
	}
	fmt.Println("locked")
	select {}
}

// TestSecondProcess: a folder in use is refused, with the process that uses it,
// and free again when that one was killed.
func TestSecondProcess(t *testing.T) {
	dir := t.TempDir()
	cmd := child("lock", dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stop := func() { cmd.Process.Kill(); cmd.Wait() }
	t.Cleanup(stop)
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "locked\n" {
		t.Fatalf("the other process says %q, %v", line, err)
	}
	var locked *journal.LockedError
	_, err = journal.LockDir(journal.OS(), dir)
	if !errors.As(err, &locked) || locked.Pid != cmd.Process.Pid || locked.Dir != dir {
		t.Fatalf("lock of a folder that process %d uses: %v", cmd.Process.Pid, err)
	}
	stop()
	unlock, err := journal.LockDir(journal.OS(), dir)
	if err != nil {
		t.Fatalf("after the other process was killed: %v", err)
	}
	_, err = journal.LockDir(journal.OS(), dir)
	if !errors.As(err, &locked) || locked.Pid != os.Getpid() {
		t.Fatalf("second lock by the same process: %v", err)
	}
	if err := unlock(); err != nil {
		t.Fatal(err)
	}
	if unlock, err = journal.LockDir(journal.OS(), dir); err != nil {
		t.Fatalf("after unlock: %v", err)
	}
	unlock()
}

// inNamespace runs a child whose mounts end with it.
func inNamespace(t *testing.T, what string) {
	if os.Getuid() != 0 {
		t.Skip("needs root, to mount a small disk")
	}
	cmd := child(what, t.TempDir())
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	out, err := cmd.CombinedOutput()
	switch {
	case errors.Is(err, syscall.EPERM):
		t.Skip("needs the right to make a mount namespace")
	case bytes.HasPrefix(out, []byte("skip: ")):
		t.Skipf("%s", out[6:])
	case err != nil:
		t.Fatalf("%v: %s", err, out)
	}
}

// inSmallDisk mounts a disk of 256 KiB at dir, which only this process sees.
func inSmallDisk(dir string, fn func(dir string) error) error {
	err := syscall.Mount("none", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, "")
	if err == nil {
		err = syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=256k")
	}
	if err != nil {
		return fmt.Errorf("skip: needs tmpfs mounts: %w", err)
	}
	return fn(dir)
}

// TestFullDisk: a disk without room costs the records of that Sync only.
func TestFullDisk(t *testing.T) { inNamespace(t, "full") }

func fillDisk(dir string) error {
	data := filepath.Join(dir, "data")
	o := journal.Options{SegmentBytes: 64 << 10, ReserveBytes: 8 << 10}
	l, err := journal.Open(data, o)
	if err != nil {
		return err
	}
	rec := bytes.Repeat([]byte("full"), 1000)
	for range 3 { // it gets full, is given room, and gets full again
		for err = error(nil); err == nil; {
			if err = l.Append(l.Last()+1, rec); err == nil {
				err = l.Sync()
			}
		}
		if !errors.Is(err, syscall.ENOSPC) || l.Last() != l.Durable() {
			return fmt.Errorf("on a full disk: %w, last %d, durable %d", err, l.Last(), l.Durable())
		}
		err := journal.WriteSnapshot(journal.OS(), filepath.Join(data, "a.snap"), nil, zerosTo(256<<10))
		if !errors.Is(err, syscall.ENOSPC) {
			return fmt.Errorf("snapshot on a full disk: %w", err)
		}
		if err := l.TruncateBefore(l.Last()); err != nil {
			return fmt.Errorf("make room: %w", err)
		}
	}
	last, n := l.Last(), 0
	if err := l.Close(); err != nil {
		return err
	}
	if l, err = journal.Open(data, o); err != nil {
		return err
	}
	for r, err := range l.Read(l.First()) {
		if err != nil || !bytes.Equal(r.Data, rec) {
			return fmt.Errorf("record %d: %w", r.Index, err)
		}
		n++
	}
	if l.Last() != last || n != int(last-l.First()+1) || last < 60 {
		return fmt.Errorf("%d records up to %d, the last should be %d", n, l.Last(), last)
	}
	names, err := journal.OS().List(data)
	if err == nil && len(names) != l.Stats().Segments && len(names) != l.Stats().Segments+1 {
		err = fmt.Errorf("files left behind: %q", names)
	}
	return errors.Join(err, l.Close())
}

// TestReadOnlyFolder: nothing can be done, and the error says why.
func TestReadOnlyFolder(t *testing.T) { inNamespace(t, "readonly") }

func openReadOnly(dir string) error {
	data := filepath.Join(dir, "data")
	l, err := journal.Open(data, journal.Options{SegmentBytes: 16 << 10, ReserveBytes: 4 << 10})
	if err != nil {
		return err
	}
	if err := errors.Join(l.Append(1, []byte("kept")), l.Sync(), l.Close()); err != nil {
		return err
	}
	if err := syscall.Mount("", dir, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
		return fmt.Errorf("skip: needs read-only mounts: %w", err)
	}
	if _, err := journal.LockDir(journal.OS(), data); !errors.Is(err, syscall.EROFS) {
		return fmt.Errorf("lock: %w", err)
	}
	if _, err := journal.Open(data, journal.Options{}); !errors.Is(err, syscall.EROFS) {
		return fmt.Errorf("open: %w", err)
	}
	if _, err := journal.Open(filepath.Join(dir, "new"), journal.Options{}); !errors.Is(err, syscall.EROFS) {
		return fmt.Errorf("open of a new folder: %w", err)
	}
	err = journal.WriteSnapshot(journal.OS(), filepath.Join(data, "a.snap"), nil, zerosTo(1))
	if !errors.Is(err, syscall.EROFS) {
		return fmt.Errorf("snapshot: %w", err)
	}
	rep, err := journal.Verify(journal.OS(), data, nil)
	if err != nil || rep.Records != 1 || len(rep.Problems) > 0 {
		return fmt.Errorf("verify: %+v, %w", rep, err)
	}
	return nil
}

package journal_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/skerrydb/skerry/journal"
	"github.com/skerrydb/skerry/journal/memfs"
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
	if errors.Is(err, errNoMount) {
		fmt.Println(err)
		os.Exit(noMount)
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

// TestSecondProcess: a folder in use is refused, the error names the process that uses it,
// and the folder is free again after that process was killed.
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

// TestUnlockBesideFork: unlocking releases the folder although a copy of the descriptor is
// still open, as in a process that is being started, between fork and exec.
func TestUnlockBesideFork(t *testing.T) {
	dir := t.TempDir()
	unlock, err := journal.LockDir(journal.OS(), dir)
	if err != nil {
		t.Fatal(err)
	}
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	copies := 0
	for _, e := range fds {
		name, _ := os.Readlink("/proc/self/fd/" + e.Name())
		if filepath.Dir(name) != dir {
			continue
		}
		fd, err := strconv.Atoi(e.Name())
		if err != nil {
			t.Fatal(err)
		}
		kept, err := syscall.Dup(fd)
		if err != nil {
			t.Fatal(err)
		}
		defer syscall.Close(kept)
		copies++
	}
	if copies == 0 {
		t.Fatal("no descriptor of a file in the folder is open")
	}
	if err := unlock(); err != nil {
		t.Fatal(err)
	}
	if unlock, err = journal.LockDir(journal.OS(), dir); err != nil {
		t.Fatalf("after unlock: %v", err)
	}
	unlock()
}

// noMount is the exit code of a child that may not mount, as in many containers.
const noMount = 3

var errNoMount = errors.New("no small disk can be mounted")

// disk is a small disk.
type disk struct {
	fs       journal.FS
	dir      string
	readOnly func() error // makes it one that cannot be written to
}

// onSmallDisk runs a child whose mounts end with it: as root, or in a user namespace
// of its own. Where neither may mount, fn gets a simulated disk instead.
func onSmallDisk(t *testing.T, what string, fn func(disk) error) {
	t.Helper()
	if err := mounted(t, what, &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}); !errors.Is(err, errNoMount) {
		check(t, err)
		return
	}
	root := []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
	group := []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	own := &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWUSER, UidMappings: root, GidMappings: group}
	err := mounted(t, what, own)
	if !errors.Is(err, errNoMount) {
		check(t, err)
		return
	}
	t.Logf("%v: the disk is simulated", err)
	fs := memfs.New(1)
	fs.LimitSpace(smallDisk)
	check(t, fn(disk{fs, "disk", func() error { fs.SetReadOnly(true); return nil }}))
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// mounted runs a child in namespaces of its own.
func mounted(t *testing.T, what string, attr *syscall.SysProcAttr) error {
	cmd := child(what, t.TempDir())
	cmd.SysProcAttr = attr
	out, err := cmd.CombinedOutput()
	exit, ran := errors.AsType[*exec.ExitError](err)
	switch {
	case err == nil:
		return nil
	case !ran, exit.ExitCode() == noMount:
		return fmt.Errorf("%w: %w: %s", errNoMount, err, out)
	}
	return fmt.Errorf("%w: %s", err, out)
}

const smallDisk = 256 << 10 // bytes

// inSmallDisk mounts a disk at dir, which only this process sees.
func inSmallDisk(dir string, fn func(disk) error) error {
	err := syscall.Mount("none", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, "")
	if err == nil {
		err = syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprint("size=", smallDisk))
	}
	if err != nil {
		return fmt.Errorf("%w: %w", errNoMount, err)
	}
	return fn(disk{journal.OS(), dir, func() error { return syscall.Mount("", dir, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, "") }})
}

// TestFullDisk: a full disk loses only the records of that Sync.
func TestFullDisk(t *testing.T) { onSmallDisk(t, "full", fillDisk) }

func fillDisk(d disk) error {
	data := filepath.Join(d.dir, "data")
	o := journal.Options{FS: d.fs, SegmentBytes: 64 << 10, ReserveBytes: 8 << 10}
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
		err := journal.WriteSnapshot(d.fs, filepath.Join(data, "a.snap"), nil, zerosTo(smallDisk))
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
	names, err := d.fs.List(data)
	if err == nil && len(names) != l.Stats().Segments && len(names) != l.Stats().Segments+1 {
		err = fmt.Errorf("files left behind: %q", names)
	}
	return errors.Join(err, l.Close())
}

// TestReadOnlyFolder: nothing can be done, and the error says why.
func TestReadOnlyFolder(t *testing.T) { onSmallDisk(t, "readonly", openReadOnly) }

func openReadOnly(d disk) error {
	data := filepath.Join(d.dir, "data")
	l, err := journal.Open(data, journal.Options{FS: d.fs, SegmentBytes: 16 << 10, ReserveBytes: 4 << 10})
	if err != nil {
		return err
	}
	if err := errors.Join(l.Append(1, []byte("kept")), l.Sync(), l.Close()); err != nil {
		return err
	}
	if err := d.readOnly(); err != nil {
		return fmt.Errorf("%w: read-only: %w", errNoMount, err)
	}
	if _, err := journal.LockDir(d.fs, data); !errors.Is(err, syscall.EROFS) {
		return fmt.Errorf("lock: %w", err)
	}
	if _, err := journal.Open(data, journal.Options{FS: d.fs}); !errors.Is(err, syscall.EROFS) {
		return fmt.Errorf("open: %w", err)
	}
	if _, err := journal.Open(filepath.Join(d.dir, "new"), journal.Options{FS: d.fs}); !errors.Is(err, syscall.EROFS) {
		return fmt.Errorf("open of a new folder: %w", err)
	}
	err = journal.WriteSnapshot(d.fs, filepath.Join(data, "a.snap"), nil, zerosTo(1))
	if !errors.Is(err, syscall.EROFS) {
		return fmt.Errorf("snapshot: %w", err)
	}
	rep, err := journal.Verify(d.fs, data, nil)
	if err != nil || rep.Records != 1 || len(rep.Problems) > 0 {
		return fmt.Errorf("verify: %+v, %w", rep, err)
	}
	return nil
}

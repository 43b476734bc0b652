package pgserver

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/skerrydb/skerry/ci/daemon"
)

// Disk is a small disk, which only the servers on it see. It is gone when the test process is, however that ends.
type Disk struct {
	Dir    string // where the servers see it
	holder *exec.Cmd
	in     io.Closer
}

// NewDisk makes a disk of some bytes for one test. It skips the test if the process may not mount it.
func NewDisk(tb testing.TB, size int) *Disk {
	tb.Helper()
	for _, name := range []string{"unshare", "nsenter"} {
		if _, err := exec.LookPath(name); err != nil {
			daemon.Missing(tb, name, "util-linux")
		}
	}
	uid, gid := owner(tb)
	d := &Disk{Dir: tb.TempDir()}
	if err := os.Chmod(filepath.Dir(d.Dir), 0o755); err != nil {
		tb.Fatal(err)
	}
	d.holder = exec.Command("unshare", "--mount", "sh", "-c", `mount -t tmpfs -o "size=$1,uid=$2,gid=$3,mode=700" tmpfs "$4" && echo mounted && exec cat`,
		"sh", fmt.Sprint(size), fmt.Sprint(uid), fmt.Sprint(gid), d.Dir)
	in, err := d.holder.StdinPipe()
	out, err2 := d.holder.StdoutPipe()
	if err := errors.Join(err, err2, d.holder.Start()); err != nil {
		tb.Fatal(err)
	}
	d.in = in
	tb.Cleanup(func() {
		_ = in.Close()
		_ = d.holder.Wait() // however it ended
	})
	if line, _ := bufio.NewReader(out).ReadString('\n'); line != "mounted\n" {
		tb.Skip("needs the right to make namespaces, to mount small disks")
	}
	return d
}

// inside returns the name that a file on the disk has for this process.
func (d *Disk) inside(name string) string {
	return filepath.Join(fmt.Sprintf("/proc/%d/root", d.holder.Process.Pid), d.Dir, name)
}

// Mkdir makes a folder on the disk for the servers, and returns its path.
func (d *Disk) Mkdir(tb testing.TB, name string) string {
	tb.Helper()
	uid, gid := owner(tb)
	if err := errors.Join(os.Mkdir(d.inside(name), 0o700), os.Chown(d.inside(name), uid, gid)); err != nil {
		tb.Fatal(err)
	}
	return filepath.Join(d.Dir, name)
}

// Fill leaves no room on the disk.
func (d *Disk) Fill(tb testing.TB) {
	tb.Helper()
	f, err := os.OpenFile(d.inside("fill"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		tb.Fatal(err)
	}
	defer f.Close()
	for size := 1 << 20; size > 0; {
		_, err := f.Write(make([]byte, size))
		switch {
		case errors.Is(err, syscall.ENOSPC):
			size /= 2
		case err != nil:
			tb.Fatal(err)
		}
	}
}

// Free undoes Fill.
func (d *Disk) Free(tb testing.TB) {
	tb.Helper()
	if err := os.Remove(d.inside("fill")); err != nil {
		tb.Fatal(err)
	}
}

// StartOn starts a server for one test that sees a small disk. If log is true, its write-ahead log is there.
func StartOn(tb testing.TB, d *Disk, log bool, settings ...string) *Server {
	tb.Helper()
	s := create(tb, "", settings)
	s.EndWith(tb)
	s.disk = d
	var more []string
	if log {
		more = []string{"-X", filepath.Join(d.Dir, "wal"), "--wal-segsize=1"}
	}
	s.init(tb, more...)
	return s
}

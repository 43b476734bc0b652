package daemon

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// TestKeeper checks that what happens when this process ends stops the last process and removes the folder.
func TestKeeper(t *testing.T) {
	d, err := New("test", syscall.SIGTERM)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(d.Dir, "deep"), 0o700); err != nil {
		t.Fatal(err)
	}
	always := func() bool { return true }
	d.Start(t, exec.Command("sleep", "1000"), always)
	first := d.pid
	d.End(t, syscall.SIGKILL)
	d.Start(t, exec.Command("sleep", "1000"), always)
	second := d.pid
	if runs(first) || !runs(second) {
		t.Errorf("the process that was ended runs: %t; the one that was started: %t", runs(first), runs(second))
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	if runs(second) {
		t.Error("the last process runs")
	}
	if _, err := os.Stat(d.Dir); !os.IsNotExist(err) {
		t.Errorf("the folder is still there: %v", err)
	}
}

// TestChildren checks that SIGKILL ends a server's child processes too.
func TestChildren(t *testing.T) {
	d, err := New("test", syscall.SIGTERM)
	if err != nil {
		t.Fatal(err)
	}
	d.EndWith(t)
	var below []int
	d.Start(t, exec.Command("sh", "-c", "sleep 1000 & sleep 1000 & wait"), func() bool {
		below = children(d.pid)
		return len(below) == 2
	})
	d.End(t, syscall.SIGKILL)
	for _, pid := range below {
		if runs(pid) {
			t.Errorf("process %d runs", pid)
		}
	}
}

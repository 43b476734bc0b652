package cli

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/skerrydb/skerry/ci/eventually"
	"github.com/skerrydb/skerry/cli/verb"
)

// TestRestoreSpill: a restore with --spill of a damaged backup, and one that is interrupted
// in the middle, leave nothing behind. The next one has all data, long values in files.
func TestRestoreSpill(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	p := s.serve()
	value := func(i int) string { return fmt.Sprintf("%d %s", i, strings.Repeat("x", 16<<10)) }
	const values = 400
	for i := range values {
		if got := p.ask(fmt.Sprintf("SET k%d %q", i, value(i))); got != "+OK" {
			t.Fatalf("SET: %s", got)
		}
	}
	if out := s.run("skerry backup --from " + p.HTTP + " --to b && cp b damaged && printf XXXX | dd of=damaged bs=1 seek=5000000 conv=notrunc status=none"); !strings.Contains(out, fmt.Sprintf(" %d keys", values)) {
		t.Fatalf("backup: %s", out)
	}
	p.stop(syscall.SIGTERM)
	if out := s.run("skerry restore --from damaged --data copy --spill 1KiB"); !strings.HasPrefix(out, "! skerry restore: damaged: read backup: pair 303 of 400: journal: damaged at offset ") || !strings.HasSuffix(out, "[corrupt]\n[3]\n") {
		t.Errorf("a damaged backup: %s", out)
	}
	s.want("ls copy 2>/dev/null || echo nothing", "nothing\n")
	s.interruptRestore("b", "copy")
	s.want("ls copy 2>/dev/null || echo nothing", "nothing\n")
	if out := s.run("skerry restore --from b --data copy --spill 1KiB && ls copy/vals | wc -l"); !strings.Contains(out, fmt.Sprintf("copy: position %d of ", values)) || !strings.HasSuffix(out, "\n1\n") {
		t.Fatalf("restore: %s", out)
	}
	restored := s.serve("--data", "copy", "--spill", "1KiB")
	for i := range values {
		if got := restored.ask(fmt.Sprintf("GET k%d", i)); got != value(i) {
			t.Fatalf("restored: k%d is %.20q", i, got)
		}
	}
}

// interruptRestore sends a signal to a restore that has written value files and waits for
// more of the backup.
func (s *shell) interruptRestore(backup, to string) {
	s.t.Helper()
	pipe := filepath.Join(s.dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		s.t.Fatal(err)
	}
	all, err := os.ReadFile(filepath.Join(s.dir, backup))
	if err != nil {
		s.t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		s.t.Fatal(err)
	}
	cmd := exec.Command(self, "restore", "--from", "pipe", "--data", to, "--spill", "1KiB")
	cmd.Dir, cmd.Env = s.dir, s.env
	p := begin(s.t, cmd, filepath.Join(s.t.TempDir(), "stderr"))
	s.t.Cleanup(p.kill)
	w, err := os.OpenFile(pipe, os.O_WRONLY, 0)
	if err != nil {
		s.t.Fatal(err)
	}
	half := len(all) * 3 / 4
	if _, err := w.Write(all[:half]); err != nil {
		s.t.Fatal(err)
	}
	eventually.True(s.t, "a value file", func() bool {
		names, err := os.ReadDir(filepath.Join(s.dir, to, "vals"))
		return err == nil && len(names) > 0
	})
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		s.t.Fatal(err)
	}
	eventually.True(s.t, "the end", func() bool { // the signal is seen when more of the backup comes
		_, _ = w.Write(all[half : half+1])
		half++
		return p.ended()
	})
	w.Close()
	if code := p.exit(); code != verb.ExitStopped || !strings.Contains(p.log(), "stopped by a signal") {
		s.t.Errorf("exit code %d\n%s", code, p.log())
	}
}

package cli

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/skerrydb/skerry/ci/eventually"
	"github.com/skerrydb/skerry/cli/verb"
)

// TestBackupsOfServer: a server takes a backup by itself, not one more after a kill, and removes what the kill left half-written.
func TestBackupsOfServer(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	for round := range 2 {
		p := s.serve("--backups", "b", "--backup-every", "24h", "--backup-keep", "2")
		if got := p.ask(fmt.Sprintf("SET fish round%d", round)); got != "+OK" {
			t.Fatalf("SET: %s", got)
		}
		eventually.True(t, "a backup", func() bool { return strings.Count(s.run("ls b"), ".skerry\n") == 1 })
		if out := s.run("ls b/*.tmp"); !strings.Contains(out, "No such file") {
			t.Errorf("left over: %s", out)
		}
		if round == 0 {
			p.kill()
			s.run("echo half > b/scheduled-20261130T033000.000Z.skerry.1x.tmp")
			continue
		}
		if code := p.stop(syscall.SIGTERM); code != verb.ExitOK {
			t.Fatalf("exit code %d\n%s", code, p.log())
		}
	}
	if out := s.run("skerry restore --from b/scheduled-*.skerry --data new && skerry check --data new"); !strings.Contains(out, "sound: position ") {
		t.Errorf("restore: %s", out)
	}
	for args, want := range map[string]string{"--backups data": "must not be in one another", "--backup-every 24h": "need --backups", "--engine redis://localhost --backups b": "only the embedded engine has this setting"} {
		if out := s.run("timeout 60 skerry serve --http 127.0.0.1:0 --resp 127.0.0.1:0 --admin-page off " + args); !strings.Contains(out, want) || !strings.HasSuffix(out, "[2]\n") {
			t.Errorf("%s: %s", args, out)
		}
	}
}

// TestArchiveAndRestore: a server archives itself through a kill and a stop, and restores end at the requested
// point.
func TestArchiveAndRestore(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	var middle time.Time
	for round := range 3 {
		p := s.serve("--archive", "arch", "--archive-keep", "24h")
		eventually.True(t, "the first base, of the empty store", func() bool {
			return round > 0 || strings.Contains(s.run("skerry check --data arch"), "sound: ")
		})
		for i := range 20 {
			if got := p.ask(fmt.Sprintf("SET k%d round%d", i, round)); got != "+OK" {
				t.Fatalf("SET: %s", got)
			}
		}
		switch round {
		case 0:
			p.kill()
		case 1:
			if out := s.run("skerry check --data arch"); !strings.Contains(out, "sound: ") {
				t.Fatalf("check beside the server: %s", out)
			}
			middle = time.Now()
			fallthrough
		default:
			if code := p.stop(syscall.SIGTERM); code != verb.ExitOK {
				t.Fatalf("exit code %d\n%s", code, p.log())
			}
		}
	}
	if out := s.run("skerry check --data arch"); !strings.Contains(out, "can be restored: position 0 ") || !strings.Contains(out, " to 60 ") {
		t.Errorf("check: %s\nwant positions 0 to 60", out)
	}
	for at, want := range map[string]string{
		"latest": "position 60 ", "47": "position 47 ", "0": "position 0 ",
		middle.UTC().Format(time.RFC3339Nano): "position 40 ",
	} {
		out := s.run(fmt.Sprintf("skerry restore --from arch --at %s --data r%s && skerry check --data r%s | tail -n 1", at, want[9:11], want[9:11]))
		if strings.Count(out, want) < 1 || !strings.Contains(out, "sound: "+strings.TrimSpace(want)+",") {
			t.Errorf("restore --at %s: %s", at, out)
		}
	}
	for at, why := range map[string]string{
		"61": "[not_found]\n[1]", "1960-01-01T00:00:00Z": "[not_found]\n[1]", "monday": "[2]",
	} {
		if out := s.run("skerry restore --from arch --data none --at " + at); !strings.HasSuffix(out, why+"\n") {
			t.Errorf("restore --at %s: %s", at, out)
		}
	}
	if out := s.run("ls none; timeout 60 skerry serve --archive r47 --data other --http 127.0.0.1:0 --resp 127.0.0.1:0 2>&1 | grep -v level="); !strings.Contains(out, "No such file") || !strings.HasSuffix(out, "[1]\n") {
		t.Errorf("an archive in a data folder: %s", out)
	}
}

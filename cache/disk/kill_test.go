package disk

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/skerrydb/skerry/ci/seed"
	"github.com/skerrydb/skerry/journal"
)

// childEnv makes the test binary a process that makes calls until it is killed: the folder
// and the seed of the calls.
const childEnv = "SKERRY_DISK_CHILD"

func TestMain(m *testing.M) {
	if dir, n, ok := strings.Cut(os.Getenv(childEnv), ","); ok {
		child(dir, n)
		return
	}
	os.Exit(m.Run())
}

func realOptions(dir string) Options {
	o := options(journal.OS())
	o.Dir, o.BatchEntries = dir, 50
	return o
}

// child prints a line for every 100 calls. The parent knows the calls from the seed.
func child(dir, n string) {
	number, err := strconv.ParseUint(n, 10, 64)
	if err != nil {
		panic(err)
	}
	s, err := Open(realOptions(dir))
	if err != nil {
		panic(err)
	}
	g := newGenerator(number)
	for {
		g.next(s)
		if len(g.steps)%100 == 0 {
			fmt.Println(len(g.steps))
		}
	}
}

// TestKill kills a process while it writes, and checks the rule.
func TestKill(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	r := seed.Rand(t)
	rounds := 8
	if testing.Short() {
		rounds = 2
	}
	for range rounds {
		dir, number := t.TempDir(), r.Uint64()
		cmd := exec.Command(self)
		cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s,%d", childEnv, dir, number))
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		for range 1 + r.IntN(20) {
			lines.Scan() // at the end of its output it has failed, and Wait tells
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Error(err)
		}
		printed := lines.Text()
		for lines.Scan() {
			printed = lines.Text()
		}
		cmd.Wait() // killed
		if cmd.ProcessState.Exited() {
			t.Fatalf("the process ended by itself: %v", cmd.ProcessState)
		}
		calls, _ := strconv.Atoi(printed) // "": fewer than 100
		g := newGenerator(number)
		for range calls + 100 {
			g.next(nil)
		}
		s := reopen(t, realOptions(dir))
		g.check(t, s)
		t.Logf("killed after %d calls: mark %q, %d entries", calls, s.Marked(), s.Stats().Entries)
		closeStore(t, s)
	}
}

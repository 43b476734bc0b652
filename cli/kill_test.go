package cli

import (
	"bufio"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/skerrydb/skerry/ci/seed"
)

// writer counts up the value of one key over one connection until the server is
// gone.
type writer struct {
	key         string
	sent, acked int
}

func (w *writer) run(addr string) error {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return nil // killed already
	}
	defer c.Close()
	r := bufio.NewReader(c)
	for {
		w.sent++
		if _, err := fmt.Fprintf(c, "SET %s %d\r\n", w.key, w.sent); err != nil {
			return nil
		}
		reply, err := r.ReadString('\n')
		if err != nil {
			return nil // killed: what was sent last may be there or not
		}
		if reply != "+OK\r\n" {
			return fmt.Errorf("SET %s %d: %q", w.key, w.sent, reply)
		}
		w.acked = w.sent
	}
}

// TestKillUnderLoad kills the process at random moments while many clients write. After each start every key
// has a value that was written, and that is not older than the last one acknowledged to its writer.
func TestKillUnderLoad(t *testing.T) {
	t.Parallel()
	rounds, writers := 12, 16
	if testing.Short() {
		rounds = 3
	}
	rng := seed.Rand(t)
	s := newShell(t)
	ws := make([]*writer, writers)
	for i := range ws {
		ws[i] = &writer{key: fmt.Sprint("w", i)}
	}
	for round := range rounds {
		p := s.serve()
		for _, w := range ws {
			got := p.ask("GET " + w.key)
			n, err := strconv.Atoi(got)
			if none := strings.HasPrefix(got, "$-1"); none {
				n, err = 0, nil
			}
			if err != nil || n < w.acked || n > w.sent {
				t.Fatalf("round %d: %s is %q; %d was acknowledged and %d was sent", round, w.key, got, w.acked, w.sent)
			}
			w.sent, w.acked = n, n
		}
		var running sync.WaitGroup
		for _, w := range ws {
			running.Go(func() {
				if err := w.run(net.JoinHostPort("127.0.0.1", p.respPort())); err != nil {
					t.Error(err)
				}
			})
		}
		time.Sleep(time.Duration(rng.IntN(150)) * time.Millisecond)
		p.kill()
		running.Wait()
	}
	total := 0
	for _, w := range ws {
		total += w.acked
	}
	if total == 0 {
		t.Error("nothing was written")
	}
	t.Logf("%d writes were acknowledged", total)
}

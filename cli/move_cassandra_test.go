package cli

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/skerrydb/skerry/ci/cassandraserver"
)

// TestMoveToCassandra moves the keys and samples of a server that takes writes. The move is killed in the middle and repeated. Every
// write that was acknowledged is on the target.
func TestMoveToCassandra(t *testing.T) {
	t.Parallel()
	to := "cassandra://" + cassandraserver.Start(t).Addr() + "/moved"
	s := newShell(t)
	p := s.serve("--series", "plant=30d")
	fillMoved(t, p, 3000)
	at := time.Now().Unix()
	if out := s.run(fmt.Sprintf("curl -sS --fail-with-body --data-binary 'm n=1 %d' '%s/write?db=plant&precision=s'", at, p.HTTP)); strings.Contains(out, "{") {
		t.Fatalf("write a sample: %s", out)
	}
	c := redis.NewClient(&redis.Options{Addr: "127.0.0.1:" + p.respPort(), MaxRetries: -1})
	t.Cleanup(func() { c.Close() })
	var acknowledged atomic.Int64
	ended := make(chan struct{})
	go func() { // until the source is fenced
		defer close(ended)
		for c.Set(t.Context(), fmt.Sprint("during", acknowledged.Load()), "x", 0).Err() == nil {
			acknowledged.Add(1)
		}
	}()

	if out := s.run("skerry move --from " + p.HTTP + " --to " + to); !strings.Contains(out, "--series plant=30d") || !strings.HasSuffix(out, "[1]\n") {
		t.Fatalf("a move that does not know how long samples are kept: %s", out)
	}
	move := "skerry move --series plant=30d --from " + p.HTTP + " --to " + to
	killed := 0
	for i := range 20 {
		out := s.run(fmt.Sprintf("timeout -s KILL %.2f %s", 0.5+0.25*float64(i), move))
		if out != "[-1]\n" {
			t.Fatalf("a move that was to be killed: %s", out)
		}
		if strings.Contains(p.ask("SET late 1"), "[fenced]") {
			if killed++; killed == 2 {
				break
			}
		}
	}
	if killed == 0 {
		t.Fatal("no move was killed after the source was fenced")
	}
	if out := s.run("timeout 60 skerry serve --engine " + to + " --http 127.0.0.1:0 --resp off 2>&1 | grep -v level="); !strings.Contains(out, "`skerry move` has not finished") {
		t.Errorf("serve a part: %s", out)
	}
	out := s.run(move)
	if !strings.HasPrefix(out, "moved and compared: keys (") {
		t.Fatalf("move: %s", out)
	}
	t.Log(out)
	<-ended
	next := s.serve("--engine", to, "--series", "plant=30d")
	for key, want := range map[string]string{"k0": strings.Repeat("v", 200), "k2999": strings.Repeat("v", 200)} {
		if got := next.ask("GET " + key); got != want {
			t.Errorf("%s on the target: %s", key, got)
		}
	}
	n := acknowledged.Load()
	if n == 0 {
		t.Error("nothing was written meanwhile")
	}
	there := redis.NewClient(&redis.Options{Addr: "127.0.0.1:" + next.respPort()})
	defer there.Close()
	for i := max(0, n-500); i < n; i++ {
		if got, err := there.Get(t.Context(), fmt.Sprint("during", i)).Result(); got != "x" {
			t.Fatalf("the acknowledged write %d of %d: %q %v", i, n, got, err)
		}
	}
	if out := s.run("curl -sS '" + next.HTTP + "/series/plant?from=-1h'"); !strings.Contains(out, `"values":[1]`) {
		t.Errorf("the sample: %s", out)
	}
}

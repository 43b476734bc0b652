package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skerrydb/skerry/ci/eventually"
	"github.com/skerrydb/skerry/ci/pgserver"
	"github.com/skerrydb/skerry/ci/redisserver"
	"github.com/skerrydb/skerry/ci/seed"
)

const (
	killWriters = 4
	killLines   = 2000 // of one batch, a millisecond apart
	killFields  = 10   // of each line, whose values are all the number of the batch
)

// seriesKiller writes time series to a server that is killed.
type seriesKiller struct {
	*shell
	p     *server
	start time.Time
	acked [killWriters]int // batches that were acknowledged
}

func (k *seriesKiller) begin(args ...string) {
	k.t.Helper()
	k.p = k.serve(append([]string{"--series", "c"}, args...)...)
	k.p.waitReady()
}

// load starts the writers, and waits for some batches.
func (k *seriesKiller) load(batches int) (writers *sync.WaitGroup) {
	k.t.Helper()
	var all atomic.Int64
	writers = &sync.WaitGroup{}
	for w := range killWriters {
		writers.Go(func() { k.write(w, &all) })
	}
	eventually.True(k.t, "some batches", func() bool { return all.Load() >= int64(batches) })
	return writers
}

// body returns a batch as lines.
func (k *seriesKiller) body(writer, batch int) string {
	var b strings.Builder
	for i := range killLines {
		fmt.Fprintf(&b, "m,w=%d", writer)
		for f := range killFields {
			fmt.Fprintf(&b, "%cf%d=%di", " ,"[min(f, 1)], f, batch)
		}
		fmt.Fprintf(&b, " %d\n", k.start.UnixMilli()+int64(batch*killLines+i))
	}
	return b.String()
}

// write writes batches until the server is gone, or its data have moved.
func (k *seriesKiller) write(writer int, all *atomic.Int64) {
	for {
		resp, err := http.Post(k.p.HTTP+"/write?db=c&precision=ms", "", strings.NewReader(k.body(writer, k.acked[writer])))
		if err != nil {
			return
		}
		text, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if strings.Contains(string(text), `"fenced"`) {
			return
		}
		if resp.StatusCode != http.StatusNoContent {
			k.t.Errorf("write: %s: %s", resp.Status, text)
			return
		}
		k.acked[writer]++
		all.Add(1)
	}
}

// get decodes a response of the server.
func (k *seriesKiller) get(path string, to any) {
	k.t.Helper()
	resp, err := http.Get(k.p.HTTP + path)
	if err != nil {
		k.t.Fatal(err)
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(to); err != nil || resp.StatusCode != http.StatusOK {
		k.t.Fatalf("%s: %s, %v", path, resp.Status, err)
	}
}

// check counts the samples of each series of a writer: those of all batches that were acknowledged, and of the next one all or
// none. It compares the samples of one of them. The writer goes on after what is there.
func (k *seriesKiller) check(writer int) {
	k.t.Helper()
	var counts struct {
		Series []struct {
			Labels map[string]string
			Count  []int
		}
	}
	k.get(fmt.Sprintf(`/series/c?match=%%7Bw="%d"%%7D&step=24h&agg=count`, writer), &counts)
	if len(counts.Series) != killFields && k.acked[writer] > 0 {
		k.t.Fatalf("writer %d has %d series", writer, len(counts.Series))
	}
	there := 0
	for i, x := range counts.Series {
		n := 0
		for _, v := range x.Count { // midnight may be in between
			n += v
		}
		if i == 0 {
			there = n / killLines
		}
		if n != there*killLines || there != k.acked[writer] && there != k.acked[writer]+1 {
			k.t.Fatalf("%v has %d samples; %d batches of %d were acknowledged", x.Labels, n, k.acked[writer], killLines)
		}
	}
	var samples struct {
		Series []struct {
			Times  []int64
			Values []float64
		}
	}
	k.get(fmt.Sprintf(`/series/c?match=m_f3%%7Bw="%d"%%7D`, writer), &samples)
	for _, x := range samples.Series {
		for i, at := range x.Times {
			if at != k.start.UnixMilli()+int64(i) || x.Values[i] != float64(i/killLines) {
				k.t.Fatalf("sample %d of writer %d is %v at %d", i, writer, x.Values[i], at)
			}
		}
	}
	k.acked[writer] = there
}

// TestKillSeries kills a server while it takes series, and while it compresses them. What was acknowledged is there, once, and
// no batch is there in part. Each 100 batches are 2 million samples, which are compressed together.
func TestKillSeries(t *testing.T) {
	t.Parallel()
	rounds, each := 5, 60
	if testing.Short() {
		rounds, each = 2, 10
	}
	rng := seed.Rand(t)
	k := &seriesKiller{shell: newShell(t), start: time.Now().Add(-time.Hour).Truncate(time.Millisecond)}
	k.begin("--spill", "32KiB")
	for range rounds {
		writers := k.load(1 + rng.IntN(each))
		k.p.kill()
		writers.Wait()
		k.begin("--spill", "32KiB")
		for w := range killWriters {
			k.check(w)
		}
	}
	k.latest()
}

// latest checks the newest samples.
func (k *seriesKiller) latest() {
	k.t.Helper()
	k.t.Logf("batches: %v", k.acked)
	var latest struct {
		Series []struct {
			Labels map[string]string
			Times  []int64
			Values []float64
		}
	}
	k.get("/series/c/latest?match=m_f3", &latest)
	for _, x := range latest.Series {
		n := k.acked[x.Labels["w"][0]-'0']
		if x.Times[0] != k.start.UnixMilli()+int64(n*killLines-1) || x.Values[0] != float64(n-1) {
			k.t.Errorf("the newest sample of %v is %v at %d, after %d batches", x.Labels, x.Values[0], x.Times[0], n)
		}
	}
}

// TestMoveSeries moves series while they are written, also such as are compressed, to Redis and then to PostgreSQL, and goes on
// there.
func TestMoveSeries(t *testing.T) {
	t.Parallel()
	batches := 110
	if testing.Short() {
		batches = 10
	}
	k := &seriesKiller{shell: newShell(t), start: time.Now().Add(-time.Hour).Truncate(time.Millisecond)}
	k.begin()
	from := k.p.HTTP
	for i, to := range []string{redisserver.Start(t).URL(), pgserver.Shared(t).Database(t)} {
		writers := k.load(batches)
		if i == 0 && !testing.Short() {
			var list struct{ Collections []struct{ Parts int } }
			eventually.True(t, "samples are compressed", func() bool { k.get("/series", &list); return list.Collections[0].Parts > 0 })
		}
		moveAll(k.shell, 0, from, to)
		writers.Wait()
		k.begin("--engine", to)
		for w := range killWriters {
			k.check(w)
		}
		k.latest()
		from, batches = to, 10
	}
	writers := k.load(10)
	k.p.kill()
	writers.Wait()
}

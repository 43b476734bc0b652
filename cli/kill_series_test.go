package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/skerrydb/skerry/ci/eventually"
	"github.com/skerrydb/skerry/ci/seed"
)

// point is one line of a writer: two samples of the same time.
type point struct {
	series string // which of the writer's
	f, g   float64
}

// seriesKiller kills a server of time series while clients write to it.
type seriesKiller struct {
	*shell
	*rand.Rand
	p     *server
	start time.Time // of the times of samples
	first []int     // the first batch of each writer since the last kill
	acked []int     // the newest batches
	want  []map[int64]point
	bulk  int // lines that fill has written
}

// batch returns the points of a batch by their times, in Unix milliseconds. Each has a time of its own, and more and more
// series are new.
func (k *seriesKiller) batch(j int) map[int64]point {
	points := map[int64]point{}
	for i := range 1 + j%7 {
		points[k.start.UnixMilli()+int64(10*j+i)] = point{fmt.Sprint((j + i) % (1 + j/10)), float64(j) + float64(i)/8, float64(-j)}
	}
	return points
}

// lines returns a batch in line protocol.
func (k *seriesKiller) lines(w, j int) string {
	var b strings.Builder
	for at, x := range k.batch(j) {
		fmt.Fprintf(&b, "m,w=%d,k=%s f=%v,g=%v %d\n", w, x.series, x.f, x.g, at)
	}
	return b.String()
}

// write sends lines, and reports whether they were acknowledged. It returns an error if they were refused.
func (k *seriesKiller) write(lines string) (acked bool, err error) {
	resp, err := http.Post(k.p.HTTP+"/write?db=plant&precision=ms", "text/plain", strings.NewReader(lines))
	if err != nil {
		return false, nil // killed: they may be there or not
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusNoContent {
		return false, fmt.Errorf("write: %s %s", resp.Status, text)
	}
	return err == nil, nil
}

// writer writes batches until the server is gone.
func (k *seriesKiller) writer(w int) {
	for {
		j := k.acked[w] + 1
		acked, err := k.write(k.lines(w, j))
		if err != nil {
			k.t.Error(err)
		}
		if !acked {
			return
		}
		k.acked[w] = j
	}
}

// killAfter lets the writers write for some time, kills the server, and starts it again.
func (k *seriesKiller) killAfter(d time.Duration) {
	k.t.Helper()
	var work sync.WaitGroup
	for w := range k.acked {
		work.Go(func() { k.writer(w) })
	}
	time.Sleep(d)
	k.p.kill()
	work.Wait()
	k.serveSeries()
	for w := range k.acked {
		k.check(w)
	}
}

func (k *seriesKiller) serveSeries() {
	k.t.Helper()
	k.p = k.serve("--series", "plant")
	k.p.waitReady()
}

// ask returns a response's JSON.
func (k *seriesKiller) ask(path string, params url.Values, to any) {
	k.t.Helper()
	code, body := get(k.t, k.p.HTTP+path+"?"+params.Encode())
	if code != http.StatusOK {
		k.t.Fatalf("%s: %d %s", path, code, body)
	}
	if err := json.Unmarshal([]byte(body), to); err != nil {
		k.t.Fatalf("%s: %v", path, err)
	}
}

// column is one series of a response.
type column struct {
	Labels map[string]string
	Times  []int64
	Values []float64
	Count  []int
	Sum    []float64
}

func (k *seriesKiller) read(path, match string, params ...string) []column {
	k.t.Helper()
	v := url.Values{"match": {match}}
	for i := 0; i < len(params); i += 2 {
		v.Set(params[i], params[i+1])
	}
	var out struct{ Series []column }
	k.ask("/series/plant"+path, v, &out)
	return out.Series
}

// check compares what is there of a writer with what was acknowledged. The batch after that may be there; if it is not,
// it must never appear, as the writer goes on with the one after it.
func (k *seriesKiller) check(w int) {
	k.t.Helper()
	got, samples := map[int64]point{}, 0
	for _, c := range k.read("", fmt.Sprintf(`{__name__=~"m_f|m_g",w="%d"}`, w)) {
		for i, at := range c.Times {
			x := got[at]
			x.series = c.Labels["k"]
			if c.Labels["__name__"] == "m_f" {
				x.f = c.Values[i]
			} else {
				x.g = c.Values[i]
			}
			got[at] = x
			samples++
		}
	}
	for ; k.first[w] <= k.acked[w]; k.first[w]++ {
		maps.Copy(k.want[w], k.batch(k.first[w]))
	}
	next := k.batch(k.first[w])
	if _, there := got[slices.Min(slices.Collect(maps.Keys(next)))]; there {
		maps.Copy(k.want[w], next)
	}
	k.first[w]++
	k.acked[w]++
	if samples != 2*len(got) || !maps.Equal(got, k.want[w]) {
		k.t.Errorf("writer %d has %d points of %d samples after batch %d, want %d", w, len(got), samples, k.acked[w], len(k.want[w]))
		for _, at := range slices.Sorted(maps.Keys(k.want[w])) {
			if got[at] != k.want[w][at] {
				k.t.Fatalf("the first that differs, at %d, is %+v, want %+v", at, got[at], k.want[w][at])
			}
		}
	}
}

// stored returns how many samples are sealed, and how many are not. They are read one after the other, so it is called
// while nothing is sealed.
func (k *seriesKiller) stored() (sealed, others int) {
	k.t.Helper()
	_, text := get(k.t, k.p.HTTP+"/metrics")
	for name, n := range map[string]*int{"skerry_series_sealed_samples": &sealed, "skerry_series_unsealed_samples": &others} {
		_, rest, found := strings.Cut(text, name+`{collection="plant"} `)
		number, _, _ := strings.Cut(rest, "\n")
		v, err := strconv.ParseFloat(number, 64)
		if !found || err != nil {
			k.t.Fatalf("no %s: %v", name, err)
		}
		*n = int(v)
	}
	return sealed, others
}

const (
	bulkFields = 20
	bulkLines  = 5_000 // of one request
	bulkWrites = 21    // a generation is full after 2,097,152 samples
)

// fill writes samples until a generation is full, so that it is sealed while the writers go on.
func (k *seriesKiller) fill() {
	k.t.Helper()
	for range bulkWrites {
		var b strings.Builder
		for i := range bulkLines {
			b.WriteString("bulk ")
			for f := range bulkFields {
				fmt.Fprintf(&b, "f%d=%d,", f, (i+f)%100)
			}
			fmt.Fprintf(&b, "end=1 %d\n", k.start.UnixMilli()+int64(k.bulk+i))
		}
		if acked, err := k.write(b.String()); !acked {
			k.t.Fatalf("a bulk write: %v", err)
		}
		k.bulk += bulkLines
	}
}

// checkBulk compares what fill has written.
func (k *seriesKiller) checkBulk() {
	k.t.Helper()
	list := k.read("", `{__name__=~"bulk_f.*"}`, "step", "1d", "agg", "count,sum")
	if len(list) != bulkFields {
		k.t.Fatalf("%d series, want %d", len(list), bulkFields)
	}
	for _, c := range list {
		count, sum := 0, 0.0
		for i := range c.Count {
			count, sum = count+c.Count[i], sum+c.Sum[i]
		}
		if want := k.bulk; count != want || sum != float64(want)*49.5 {
			k.t.Errorf("%v has %d samples with the sum %v, want %d and %v", c.Labels, count, sum, want, float64(want)*49.5)
		}
	}
}

// checkLatest compares the newest points, and how many samples are stored.
func (k *seriesKiller) checkLatest() {
	k.t.Helper()
	total := k.bulk * (bulkFields + 1)
	for w, want := range k.want {
		if len(want) == 0 {
			continue // it has written nothing yet
		}
		last := slices.Max(slices.Collect(maps.Keys(want)))
		for name, value := range map[string]float64{"m_f": want[last].f, "m_g": want[last].g} {
			list := k.read("/latest", fmt.Sprintf(`%s{w="%d",k="%s"}`, name, w, want[last].series))
			if len(list) != 1 || !slices.Equal(list[0].Times, []int64{last}) || list[0].Values[0] != value {
				k.t.Errorf("the newest %s of writer %d is %v, want %v at %d", name, w, list, value, last)
			}
		}
		total += 2 * len(want)
	}
	if sealed, others := k.stored(); sealed+others != total {
		k.t.Errorf("%d sealed samples and %d others are stored, want %d", sealed, others, total)
	}
}

// checkPrometheus compares how many points of each writer Prometheus's query language finds.
func (k *seriesKiller) checkPrometheus() {
	k.t.Helper()
	var answer struct {
		Data struct {
			Result []struct {
				Metric map[string]string
				Value  [2]any
			}
		}
	}
	query := url.Values{"query": {"sum by (w) (count_over_time(m_f[3h]))"}, "time": {fmt.Sprint(k.start.Unix() + 3600)}}
	k.ask("/prometheus/plant/api/v1/query", query, &answer)
	got, want := map[string]any{}, map[string]any{}
	for _, r := range answer.Data.Result {
		got[r.Metric["w"]] = r.Value[1]
	}
	for w, points := range k.want {
		if len(points) > 0 {
			want[strconv.Itoa(w)] = strconv.Itoa(len(points))
		}
	}
	if !maps.Equal(got, want) {
		k.t.Errorf("Prometheus finds %v points, want %v", got, want)
	}
}

// TestKillSeries kills a server at random moments while clients write line protocol, also while it seals a generation.
// After each start every point that was acknowledged is there once with its values, and the points of a request that was
// not acknowledged are there all or none.
func TestKillSeries(t *testing.T) {
	t.Parallel()
	const writers = 4
	rounds := 8
	if testing.Short() {
		rounds = 3
	}
	k := &seriesKiller{shell: newShell(t), Rand: seed.Rand(t), start: time.Now().Add(-time.Hour).Truncate(time.Second)}
	k.program = buildProgram(t, "../cmd/skerry")
	for range writers {
		k.first, k.acked, k.want = append(k.first, 0), append(k.acked, -1), append(k.want, map[int64]point{})
	}
	k.serveSeries()
	if !testing.Short() {
		k.fill()
		k.killAfter(time.Duration(k.IntN(120)) * time.Millisecond) // it seals meanwhile
		sealed, _ := k.stored()
		t.Logf("the kill left %d samples in parts", sealed)
		k.checkBulk()
	}
	for range rounds {
		k.killAfter(time.Duration(k.IntN(250)) * time.Millisecond)
	}
	if !testing.Short() {
		// The lease of a process that was killed has to end first.
		eventually.True(t, "the generation is sealed", func() bool { sealed, _ := k.stored(); return sealed > 0 })
		k.killAfter(time.Duration(k.IntN(100)) * time.Millisecond)
		k.checkBulk()
	}
	k.checkLatest()
	k.checkPrometheus()
	total := 0
	for _, want := range k.want {
		total += len(want)
	}
	if total == 0 {
		t.Error("nothing was written")
	}
	t.Logf("%d points", total)
}

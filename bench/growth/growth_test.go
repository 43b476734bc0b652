package main

import (
	"encoding/xml"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/skerrydb/skerry/bench/rig"
)

// TestSmoke runs all parts with few keys: every table has its rows, every target a verdict, and the picture is drawn.
func TestSmoke(t *testing.T) {
	if testing.Short() {
		t.Skip("starts servers for most of a minute")
	}
	for _, program := range []string{"redis-server", "etcd"} {
		if _, err := exec.LookPath(program); err != nil {
			if os.Getenv("SKERRY_REQUIRE_SERVERS") == "1" {
				t.Fatal(err)
			}
			t.Skip(err)
		}
	}
	dir := t.TempDir()
	p := plan{dir: dir, out: filepath.Join(dir, "out.txt"), html: filepath.Join(dir, "out.html"), sizes: []uint64{1_000, 10_000}, window: shortest, rounds: 1, parts: allParts}
	if err := p.main(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(p.out)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`(?m)^skerry +1 k +\d`, `(?m)^redis +10 k +\d`, `(?m)^etcd +10 k +\d`, `votes/s`, `(?m)^(reached|MISSED) +three nodes, .* CPU`, `(?m)^(reached|MISSED) +writes/s at 10 k keys / at 1 k \(Redis`, `(?m)^1 10000 recovery_seconds \d`, `(?m)^3 10000 write_micros \d`, `Where Skerry loses`} {
		if !regexp.MustCompile(want).Match(text) {
			t.Errorf("the report has no %q:\n%s", want, text)
		}
	}
	if n := strings.Count(string(text), "(aim "); n < 9 || strings.Contains(string(text), "unknown") || strings.Contains(string(text), "NaN") {
		t.Errorf("%d targets, or unknown ones:\n%s", n, text)
	}
	page, err := os.ReadFile(p.html)
	if err != nil {
		t.Fatal(err)
	}
	wellFormed(t, string(page))
	left, err := filepath.Glob(filepath.Join(dir, "*.tmp"))
	if err != nil || len(left) > 0 {
		t.Errorf("data is left: %v, %v", left, err)
	}
}

// wellFormed checks that each drawing is XML, has no missing numbers, and that the page refers to nothing else.
func wellFormed(t *testing.T, page string) {
	t.Helper()
	for _, bad := range []string{"NaN", "Inf", "<script", "http:", "https:", "url(", "@import", "%!"} {
		if strings.Contains(page, bad) {
			t.Errorf("the page has %q", bad)
		}
	}
	drawings := regexp.MustCompile(`(?s)<svg.*?</svg>`).FindAllString(page, -1)
	if len(drawings) < 8 {
		t.Errorf("%d drawings", len(drawings))
	}
	for _, s := range drawings {
		d := xml.NewDecoder(strings.NewReader(s))
		for {
			if _, err := d.Token(); err == io.EOF {
				break
			} else if err != nil {
				t.Fatalf("%v in\n%s", err, s)
			}
		}
	}
}

// TestPicture draws results that are made up; SKERRY_PICTURE names a file to look at.
func TestPicture(t *testing.T) {
	m := madeUp()
	page := m.page()
	wellFormed(t, page)
	for class, least := range map[string]int{`class="mark" x`: 6, `class="save" x`: 4, `class="dot skerry" cx`: 12} {
		if n := strings.Count(page, class); n < least {
			t.Errorf("%d of %s, want %d", n, class, least)
		}
	}
	if path := os.Getenv("SKERRY_PICTURE"); path != "" {
		if err := os.WriteFile(path, []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// madeUp returns results of four sizes, with marks and a snapshot.
func madeUp() *measurements {
	m := &measurements{}
	for i, keys := range []uint64{1_000, 100_000, 1_000_000, 10_000_000} {
		for k, system := range []string{partSkerry, partRedis} {
			w := window{server: 2 + float64(i+k), live: 171 * float64(keys) * float64(2-k), resident: 260 * float64(keys), peak: 300 * float64(keys), collector: 0.05}
			for n := range 200 {
				var h rig.Hist
				rate := 40_000/(i+1) - 6_000*k
				if n%60 > 45 && k == 0 {
					rate /= 3
				}
				for j := range rate/100 + n%13*10 {
					h.Add(time.Duration(1+j%30) * time.Duration(i+1) * time.Millisecond)
				}
				h.Count *= 100
				w.slices = append(w.slices, &h)
				w.all.Merge(&h)
			}
			if k == 0 {
				for _, at := range []time.Duration{4500, 10500, 16500} {
					w.marks = append(w.marks, mark{span: span{at * time.Millisecond, (at + 1500) * time.Millisecond}})
				}
			}
			w.snapshots = []span{{7 * time.Second, 12 * time.Second}}
			w.took = []time.Duration{5 * time.Second}
			w.reckon()
			m.one = append(m.one, &grown{system: system, keys: keys, windows: []window{w}, recovery: []float64{float64(i)}})
		}
	}
	return m
}

func TestMarksAreRead(t *testing.T) {
	log := "{\"level\":\"warn\"}\ngc 7 @2.500s 3%: 0.50+1498.0+1.5 ms clock, 1.0+20/900/79+3.0 ms cpu, 1000->1100->700 MB, 1400 MB goal, 0 MB stacks, 0 MB globals, 2 P\n" +
		"gc 8 @4.000s 3%: 0+1000+0 ms clock, 0+0/500/0+0 ms cpu, 1400->1500->701 MB, 1402 MB goal, 0 MB stacks, 0 MB globals, 2 P (forced)\nSCVG: gc\n"
	got := parseMarks(log, -time.Second)
	if len(got) != 2 {
		t.Fatalf("%d marks", len(got))
	}
	if k := got[0]; k.from != 1500*time.Millisecond || k.to != 3*time.Second || k.cpu != 1003*time.Millisecond || k.live != 700<<20 {
		t.Errorf("%+v", k)
	}
}

func TestSnapshotsAreSeen(t *testing.T) {
	from := time.Unix(1000, 0)
	w := &watcher{}
	for _, one := range []struct {
		at      float64
		count   float64
		running float64
		last    float64
	}{{0, 0, 0, 0}, {1, 0, 0.5, 0}, {2, 1, 1.5, 0}, {3, 1, 0, 2}, {4, 2, 0, 0.25}, {5, 2, 0.5, 0.25}} {
		s := func(v float64) time.Duration { return time.Duration(v * float64(time.Second)) }
		w.at, w.seen = append(w.at, from.Add(s(one.at))), append(w.seen, figures{snapshots: one.count, running: s(one.running), last: s(one.last)})
	}
	all, ended := w.snapshots(from)
	want := []span{{500 * time.Millisecond, 2500 * time.Millisecond}, {3 * time.Second, 3250 * time.Millisecond}, {4500 * time.Millisecond, 5 * time.Second}}
	if !slices.Equal(all, want) || !slices.Equal(ended, []time.Duration{2 * time.Second, 250 * time.Millisecond}) {
		t.Errorf("%v, %v", all, ended)
	}
}

// TestDrops: the worst mark is found, snapshots are not blamed on it, and short marks do not count.
func TestDrops(t *testing.T) {
	w := &window{}
	for i := range 200 {
		n := 100
		switch {
		case i >= 20 && i < 30: // a mark
			n = 80
		case i >= 50 && i < 60: // a worse one
			n = 60
		case i >= 70 && i < 80: // a snapshot
			n = 10
		case i == 90: // a short mark
			n = 0
		case i >= 195: // a slow end, without a mark
			n = 90
		}
		h := &rig.Hist{}
		for range n {
			h.Add(time.Millisecond)
		}
		w.slices = append(w.slices, h)
	}
	at := func(a, b int) span { return span{time.Duration(a) * slice, time.Duration(b) * slice} }
	w.marks = []mark{{span: at(20, 30)}, {span: at(50, 60)}, {span: at(90, 91)}}
	w.snapshots = []span{at(70, 80)}
	w.reckon()
	inMark, inCalm := w.drops()
	if math.Abs(inMark-0.4) > 1e-9 || math.Abs(inCalm-0.05) > 1e-9 {
		t.Errorf("%v in a mark, %v without", inMark, inCalm)
	}
	if w.rate != 1000 || w.worst != 100 || w.besideRate != 100 || w.beside.Count != 100 {
		t.Errorf("rate %v, worst %v, beside a snapshot %v (%d)", w.rate, w.worst, w.besideRate, w.beside.Count)
	}
}

func TestSizes(t *testing.T) {
	got, err := parseSizes("1k,100k,1M,10M,12345678")
	if err != nil || !slices.Equal(got, []uint64{1_000, 100_000, 1_000_000, 10_000_000, 12_345_678}) {
		t.Errorf("%v, %v", got, err)
	}
	for _, n := range got {
		if name := strings.ReplaceAll(sizeName(n), " ", ""); name != "12345678" {
			if back, err := parseSizes(name); err != nil || back[0] != n {
				t.Errorf("%s: %v, %v", name, back, err)
			}
		}
	}
	for _, bad := range []string{"", "0", "k", "1k,1k", "1M,1k", "1G", "-1", "1.5M"} {
		if got, err := parseSizes(bad); err == nil {
			t.Errorf("%q is read as %v", bad, got)
		}
	}
}

func TestTicks(t *testing.T) {
	for _, most := range []float64{0, 0.3, 7, 99, 100, 430_000} {
		got := ticks(most, 5)
		if last := got[len(got)-1]; last < most || len(got) > 7 || len(got) < 2 {
			t.Errorf("%v: %v", most, got)
		}
	}
	for _, c := range [][2]float64{{3, 80}, {1, 1000}, {99, 101}, {0.5, 700}} {
		got := logTicks(c[0], c[1])
		if got[0] > c[0]*1.0001 || got[len(got)-1] < c[1]*0.9999 || len(got) > 9 || len(got) < 2 {
			t.Errorf("%v: %v", c, got)
		}
	}
}

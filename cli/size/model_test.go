package size

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// given are constants that make sums easy to check.
func given() constants {
	return constants{
		keyBytes: constant{value: 84}, residentRatio: constant{value: 1.5}, emptyBytes: constant{value: 1e8}, logBytes: constant{value: 34}, snapshotBytes: constant{value: 4},
		snapshotRate: constant{value: 1e8}, recoveryRate: constant{value: 2e8},
		oneNode: []cost{{1000, 2}, {100_000, 4}, {10_000_000, 8}}, threeNodes: []cost{{100_000, 10}, {10_000_000, 20}}, mostKeys: 10_000_000,
	}
}

func TestTermsAddUp(t *testing.T) {
	a := compute(Need{Keys: 10e6, KeyBytes: 16, ValueBytes: 100, Writes: 100_000, Nodes: 3, Sites: 3, RoundTrip: 20 * time.Millisecond, Sync: time.Millisecond},
		Machine{Memory: 4e9, Disk: 10e9, Cores: 4, Network: 1e9, Write: 1e9}, given())
	for _, c := range []struct {
		what      string
		got, want float64
	}{
		{"live", a.Live, 2e9},
		{"resident", a.Resident, 3.1e9},
		{"snapshot", a.Snapshot, 1.2e9},
		{"log", a.Log, 0.48e9}, // a quarter of the snapshot, as recovery takes long anyway, and what comes while that is written
		{"disk", a.Disk, 2.88e9},
		{"recovery", a.Recovery, 8.4},
		{"CPU of three nodes is what was measured", a.Micros, 20},
		{"leader", a.LeaderCPU, 1.2}, // 20 µs less twice 4
		{"other", a.OtherCPU, 0.4},
		{"log a second", a.LogRate, 15e6},
		{"disk writes", a.WriteRate, 75e6}, // a snapshot for each log of a quarter of its size
		{"leader sends", a.LeaderSend, 33e6},
		{"to each site", a.SiteSend, 16.5e6},
		{"write", a.Write, 0.021},
		{"write from another site", a.FarWrite, 0.041},
		{"snapshot takes", a.SnapshotSeconds, 12},
		{"snapshot every", a.SnapshotEvery, 20},
		{"a new node", a.CatchUpSeconds, 1.32e9 / (2e8 - 16.5e6)},
	} {
		if math.Abs(c.got-c.want) > 1e-5*c.want {
			t.Errorf("%s: %v, want %v", c.what, c.got, c.want)
		}
	}
	if !a.Fits || len(a.Warnings) > 0 {
		t.Errorf("fits %v, %q", a.Fits, a.Warnings)
	}
}

func TestWarnings(t *testing.T) {
	base := Need{Keys: 10e6, KeyBytes: 16, ValueBytes: 100, Writes: 100_000, Nodes: 3, Sites: 1}
	for _, c := range []struct {
		name string
		need func(*Need)
		m    Machine
		want string // "": none
		fits bool
	}{
		{"plain", func(*Need) {}, Machine{}, "", true},
		{"memory", func(*Need) {}, Machine{Memory: 3.5e9}, "memory: 2.8GiB of 3.2GiB is more than 80 %", false},
		{"memory fits", func(*Need) {}, Machine{Memory: 4e9}, "", true},
		{"disk", func(*Need) {}, Machine{Disk: 3.5e9}, "disk: ", false},
		{"cores", func(*Need) {}, Machine{Cores: 1}, "CPU of the leader", false},
		{"network", func(*Need) {}, Machine{Network: 40e6}, "network of the leader", false},
		{"disk writes", func(*Need) {}, Machine{Write: 40e6}, "disk writes", false},
		{"one node", func(n *Need) { n.Nodes = 1 }, Machine{}, "one node", true},
		{"two nodes", func(n *Need) { n.Nodes = 2 }, Machine{}, "no more failures than 1", true},
		{"two sites", func(n *Need) { n.Sites = 2 }, Machine{}, "one site has a majority", true},
		{"slow catching up", func(n *Need) { n.CatchUp = 10e6 }, Machine{}, "never catches up", false},
		{"far beyond what was measured", func(n *Need) { n.Keys = 200e6 }, Machine{}, "a guess", true},
		{"too much for memory", func(n *Need) { n.Keys = 1e9 }, Machine{}, "PostgreSQL or Cassandra", false},
	} {
		n := base
		c.need(&n)
		a := compute(n, c.m, given())
		text := strings.Join(a.Warnings, "\n")
		if a.Fits != c.fits || c.want == "" && text != "" || !strings.Contains(text, c.want) {
			t.Errorf("%s: fits %v, %q", c.name, a.Fits, text)
		}
	}
}

func TestMajorityOfASite(t *testing.T) {
	for _, c := range []struct {
		nodes, sites int
		local        bool
	}{{1, 1, true}, {3, 1, true}, {3, 2, true}, {3, 3, false}, {5, 2, true}, {5, 3, false}, {4, 2, false}} {
		a := compute(Need{Keys: 1, Nodes: c.nodes, Sites: c.sites, RoundTrip: time.Second, Sync: time.Millisecond}, Machine{}, given())
		if a.LocalMajority != c.local || a.Write > 1 == c.local {
			t.Errorf("%d nodes in %d sites: %v, %v s", c.nodes, c.sites, a.LocalMajority, a.Write)
		}
	}
}

func TestCostsBetweenSizes(t *testing.T) {
	for keys, want := range map[float64]float64{1: 2, 1000: 2, 10_000: 3, 100_000: 4, 1e6: 6, 1e7: 8, 1e8: 10} {
		if got := at(given().oneNode, keys); math.Abs(got-want) > 1e-9 {
			t.Errorf("%v keys: %v, want %v", keys, got, want)
		}
	}
}

// TestFit: the constants computed from a run give back what it measured.
func TestFit(t *testing.T) {
	run := filepath.Join(t.TempDir(), "run.txt")
	text := "Targets:\n\nFor the capacity model (nodes, keys, value):\n1 1000 live_bytes 20000000\n1 1000 resident_bytes 90000000\n1 1000 write_micros 1.5\n" +
		"1 1000000 live_bytes 200000000\n1 1000000 resident_bytes 360000000\n1 1000000 write_micros 3.14159\n1 1000000 log_bytes_write 140\n1 1000000 snapshot_bytes 120000000\n" +
		"1 1000000 snapshot_seconds 0.5\n1 1000000 recovery_bytes 240000000\n1 1000000 recovery_seconds 0.8\n3 1000000 write_micros 9\n\nThe run took 1s.\n"
	if err := os.WriteFile(run, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c := fit(measured(), readValues(t, run))
	for name, v := range map[string][2]float64{
		"keyBytes": {c.keyBytes.value, 64}, "residentRatio": {c.residentRatio.value, 1.5}, "emptyBytes": {c.emptyBytes.value, 90e6}, "logBytes": {c.logBytes.value, 24},
		"snapshotBytes": {c.snapshotBytes.value, 4}, "snapshotRate": {c.snapshotRate.value, 240e6}, "recoveryRate": {c.recoveryRate.value, 300e6},
		"oneNode": {c.oneNode[1].micros, 3.14}, "threeNodes": {c.threeNodes[0].micros, 9}, "mostKeys": {float64(c.mostKeys), 1e6},
	} {
		if v[0] != v[1] {
			t.Errorf("%s: %v, want %v", name, v[0], v[1])
		}
	}
	if table := checksTable(&c, readValues(t, run)); !strings.Contains(table, "| 1, 1 M | resident memory of all nodes | 343.3MiB | 343.3MiB | 1.00 |") {
		t.Error(table)
	}
}

func TestCounts(t *testing.T) {
	var n float64
	for text, want := range map[string]float64{"5": 5, "50k": 50_000, "1.5M": 1_500_000, "2G": 2e9, "0": 0} {
		if err := count(&n, 0, maxKeys)(text); err != nil || n != want {
			t.Errorf("%q: %v, %v", text, n, err)
		}
	}
	for _, bad := range []string{"", "k", "-1", "1.5", "1e6", "0x10", "1_000", "NaN", "Inf", "10m", "2000G", "5 k", "+5"} {
		if err := count(&n, 0, maxKeys)(bad); err == nil {
			t.Errorf("%q is read as %v", bad, n)
		}
	}
}

func FuzzCount(f *testing.F) {
	for _, s := range []string{"10M", "1.5k", "", "-0", "9999999999999G", "0.0000001G", "infk"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		n := -1.0
		if err := count(&n, 1, maxKeys)(s); err == nil && (n < 1 || n > maxKeys || n != math.Trunc(n)) {
			t.Errorf("%q is read as %v", s, n)
		} else if err != nil && n != -1 {
			t.Errorf("%q: %v, but the value is set", s, err)
		}
	})
}

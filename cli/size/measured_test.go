package size

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write the measured constants into measured.go, and the tables into docs/scale.md")

// results is the output of `make bench-growth` that the constants come from. Until there is one, they are those of earlier runs.
const results = "../../bench/results/growth-2026-11-23.txt"

// The pairs of make bench-growth.
const (
	benchKey   = 16
	benchValue = 100
)

// values are what was measured, by "nodes keys name".
type values struct {
	by    map[string]float64
	sizes map[int][]uint64 // by nodes, ascending
}

func (v values) of(nodes int, keys uint64, name string) float64 {
	return v.by[fmt.Sprintf("%d %d %s", nodes, keys, name)]
}

// readValues reads the last section of a run's output, nil if there is no such file.
func readValues(t *testing.T, name string) *values {
	t.Helper()
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	v := &values{by: map[string]float64{}, sizes: map[int][]uint64{}}
	within := false
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "For the capacity model") {
			within = true
			continue
		}
		words := strings.Fields(lines.Text())
		if !within || len(words) == 0 {
			within = within && len(v.by) == 0
			continue
		}
		nodes, err1 := strconv.Atoi(words[0])
		keys, err2 := strconv.ParseUint(words[1], 10, 64)
		value, err3 := strconv.ParseFloat(words[len(words)-1], 64)
		if err := errors.Join(err1, err2, err3); err != nil || len(words) != 4 {
			t.Fatalf("%s: %q: %v", name, lines.Text(), err)
		}
		v.by[strings.Join(words[:3], " ")] = value
		if had := v.sizes[nodes]; len(had) == 0 || had[len(had)-1] != keys {
			v.sizes[nodes] = append(had, keys)
		}
	}
	if len(v.by) == 0 {
		t.Fatalf("%s: has no values for the capacity model", name)
	}
	return v
}

// fit computes the constants. Those without a measurement stay.
func fit(c constants, v *values) constants {
	ones := v.sizes[1]
	if len(ones) < 2 {
		return c
	}
	small, big := ones[0], ones[len(ones)-1]
	at := func(name string) float64 { return v.of(1, big, name) }
	keys, pair := float64(big), float64(benchKey+benchValue)
	set := func(into *constant, value float64, known ...float64) {
		for _, k := range known {
			if k == 0 {
				return
			}
		}
		into.value = round(value)
	}
	set(&c.emptyBytes, v.of(1, small, "resident_bytes"), v.of(1, small, "resident_bytes"))
	set(&c.keyBytes, (at("live_bytes")-v.of(1, small, "live_bytes"))/keys-pair, at("live_bytes"))
	set(&c.residentRatio, (at("resident_bytes")-c.emptyBytes.value)/(keys*(pair+c.keyBytes.value)), at("resident_bytes"))
	set(&c.logBytes, at("log_bytes_write")-pair, at("log_bytes_write"))
	set(&c.snapshotBytes, at("snapshot_bytes")/keys-pair, at("snapshot_bytes"))
	set(&c.snapshotRate, at("snapshot_bytes")/at("snapshot_seconds"), at("snapshot_bytes"), at("snapshot_seconds"))
	set(&c.recoveryRate, at("recovery_bytes")/at("recovery_seconds"), at("recovery_seconds"))
	for nodes, into := range map[int]*[]cost{1: &c.oneNode, 3: &c.threeNodes} {
		var all []cost
		for _, keys := range v.sizes[nodes] {
			if micros := v.of(nodes, keys, "write_micros"); micros > 0 {
				all = append(all, cost{keys, round(micros)})
			}
		}
		if len(all) > 0 {
			*into = all
		}
	}
	c.mostKeys = big
	return c
}

// round rounds to three digits.
func round(v float64) float64 {
	r, _ := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 3, 64), 64)
	return r
}

// listed returns the constants with their names in measured.go.
func listed(c *constants) []struct {
	name string
	of   *constant
} {
	return []struct {
		name string
		of   *constant
	}{
		{"keyBytes", &c.keyBytes}, {"residentRatio", &c.residentRatio}, {"emptyBytes", &c.emptyBytes}, {"logBytes", &c.logBytes},
		{"snapshotBytes", &c.snapshotBytes}, {"snapshotRate", &c.snapshotRate}, {"recoveryRate", &c.recoveryRate},
	}
}

// TestConstants: measured.go has what the last run measured.
func TestConstants(t *testing.T) {
	v := readValues(t, results)
	if v == nil {
		return
	}
	source, err := os.ReadFile("measured.go")
	if err != nil {
		t.Fatal(err)
	}
	c := fit(measured(), v)
	text := string(source)
	replace := func(name, pattern, with string) {
		p := regexp.MustCompile(`(?m)^(\t\t` + name + `: +)` + pattern)
		if !p.MatchString(text) {
			t.Fatalf("measured.go has no %s", name)
		}
		text = p.ReplaceAllString(text, "${1}"+with)
	}
	for _, one := range listed(&c) {
		replace(one.name, `constant\{[^,]+,`, "constant{"+strconv.FormatFloat(one.of.value, 'g', -1, 64)+",")
	}
	for name, costs := range map[string][]cost{"oneNode": c.oneNode, "threeNodes": c.threeNodes} {
		var all []string
		for _, one := range costs {
			all = append(all, fmt.Sprintf("{%d, %v}", one.keys, one.micros))
		}
		replace(name, `\[\]cost\{.*\},$`, "[]cost{"+strings.Join(all, ", ")+"},")
	}
	replace("mostKeys", `\d+,`, strconv.FormatUint(c.mostKeys, 10)+",")
	settle(t, "measured.go", string(source), text)
}

// settle compares a file's text with what it should be, and writes that with -rewrite.
func settle(t *testing.T, name, have, want string) {
	t.Helper()
	switch {
	case have == want:
	case !*rewrite:
		t.Errorf("%s differs from what was measured; go test ./cli/size -rewrite writes it anew, then again for the tables", name)
	default:
		if err := os.WriteFile(name, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// TestScaleTables: the tables of docs/scale.md have the constants, and the model beside what was measured.
func TestScaleTables(t *testing.T) {
	const name = "../../docs/scale.md"
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	text := string(b)
	c := measured()
	for mark, table := range map[string]string{"constants": constantsTable(&c), "checks": checksTable(&c, readValues(t, results))} {
		head, rest, found := strings.Cut(text, "<!-- "+mark+" of the model -->\n")
		_, tail, ended := strings.Cut(rest, "<!-- end -->")
		if !found || !ended {
			t.Fatalf("%s has no place for the %s of the model", name, mark)
		}
		text = head + "<!-- " + mark + " of the model -->\n\n" + table + "\n<!-- end -->" + tail
	}
	settle(t, name, string(b), text)
}

func constantsTable(c *constants) string {
	var b strings.Builder
	b.WriteString("| constant | value | measured with |\n|---|---|---|\n")
	for _, one := range listed(c) {
		value := strings.TrimSpace(strconv.FormatFloat(one.of.value, 'g', 3, 64) + " " + one.of.unit)
		switch {
		case one.of.unit == "bytes" && one.of.value > 1<<20:
			value = bytesText(one.of.value)
		case one.of.unit == "bytes/s":
			value = rateText(one.of.value)
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", one.of.what, value, one.of.from)
	}
	for _, one := range []struct {
		what  string
		costs []cost
	}{{"one node", c.oneNode}, {"three nodes together", c.threeNodes}} {
		for _, k := range one.costs {
			fmt.Fprintf(&b, "| CPU of a write, %s | %.3g µs | %s keys |\n", one.what, k.micros, countText(float64(k.keys)))
		}
	}
	return b.String()
}

// checksTable compares what the constants were not computed from.
func checksTable(c *constants, v *values) string {
	if v == nil {
		return "The model has not been compared with a run on a quiet machine yet.\n"
	}
	var b strings.Builder
	b.WriteString("| nodes, keys | what | model | measured | model / measured |\n|---|---|---|---|---|\n")
	row := func(nodes int, keys uint64, what string, model, real float64, text func(float64) string) {
		if real > 0 {
			fmt.Fprintf(&b, "| %d, %s | %s | %s | %s | %.2f |\n", nodes, countText(float64(keys)), what, text(model), text(real), model/real)
		}
	}
	for _, nodes := range []int{1, 3} {
		for _, keys := range v.sizes[nodes] {
			a := compute(Need{Keys: float64(keys), KeyBytes: benchKey, ValueBytes: benchValue, Writes: v.of(nodes, keys, "writes_second"), Nodes: nodes, Sites: 1}, Machine{}, *c)
			row(nodes, keys, "resident memory of all nodes", a.Resident*float64(nodes), v.of(nodes, keys, "resident_bytes"), bytesText)
			row(nodes, keys, "CPU of a write", a.Micros, v.of(nodes, keys, "write_micros"), func(x float64) string { return fmt.Sprintf("%.3g µs", x) })
			row(nodes, keys, "disk of all nodes, at most", a.Disk*float64(nodes), v.of(nodes, keys, "disk_bytes"), bytesText)
			row(nodes, keys, "disk before the recovery, at most", a.Snapshot+a.Log, v.of(nodes, keys, "recovery_bytes"), bytesText)
			row(nodes, keys, "recovery, at most", a.Recovery, v.of(nodes, keys, "recovery_seconds"), timeText)
			row(nodes, keys, "snapshot", a.SnapshotSeconds, v.of(nodes, keys, "snapshot_seconds"), timeText)
		}
	}
	return b.String()
}

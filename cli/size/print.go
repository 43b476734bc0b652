package size

import (
	"fmt"
	"io"
	"math"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/skerrydb/skerry/cli/verb"
)

func bytesText(v float64) string { return verb.FormatSize(int64(math.Min(v, math.MaxInt64/2))) }
func rateText(v float64) string  { return bytesText(v) + "/s" }
func coresText(v float64) string { return fmt.Sprintf("%.2g cores", v) }

// countText is the reverse of parseCount.
func countText(v float64) string {
	for _, u := range countUnits {
		if v >= u.factor {
			return fmt.Sprintf("%.4g %s", v/u.factor, u.name)
		}
	}
	return fmt.Sprintf("%.4g", v)
}

// timeText rounds a time in seconds to something readable.
func timeText(v float64) string {
	d := time.Duration(math.Min(v, 1e9) * float64(time.Second))
	switch {
	case d >= time.Minute:
		return d.Round(time.Second).String()
	case d >= time.Second:
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(10 * time.Microsecond).String()
}

// print writes the answer with the terms of each sum.
func (a *Answer) print(w io.Writer, c constants) error {
	n := a.Need
	pair := fmt.Sprintf("(%.0f + %.0f", n.KeyBytes, n.ValueBytes)
	keys := countText(n.Keys)
	var b strings.Builder
	fmt.Fprintf(&b, "%s%s, %s keys of %.0f bytes with values of %.0f bytes, %s writes/s\n\n", verb.Plural(n.Nodes, "node"), replicasText(n.Replicas), keys, n.KeyBytes, n.ValueBytes, countText(n.Writes))
	t := tabwriter.NewWriter(&b, 0, 8, 2, ' ', 0)
	row := func(what, value, sum string, args ...any) {
		fmt.Fprintf(t, "%s\t%s\t%s\n", what, value, fmt.Sprintf(sum, args...))
	}
	row("memory a node", bytesText(a.Resident), "%s + %s × %s + %.0f) bytes × %.2f", bytesText(c.emptyBytes.value), keys, pair, c.keyBytes.value, c.residentRatio.value)
	row("disk a node", bytesText(a.Disk), "2 snapshots of %s while one is written, log up to %s", bytesText(a.Snapshot), bytesText(a.Log))
	row("recovery", timeText(a.Recovery), "at most %s at %s", bytesText(a.Snapshot+a.Log), rateText(c.recoveryRate.value))
	row("CPU of the leader", coresText(a.LeaderCPU), "%s × %.1f µs; over all nodes %.1f µs a write", countText(n.Writes), a.LeaderMicros, a.Micros)
	if n.Nodes+n.Replicas > 1 {
		row("CPU of another node", coresText(a.OtherCPU), "without the reads that it serves")
	}
	row("disk writes a node", rateText(a.WriteRate), "log: %s × %s + %.0f) bytes%s", countText(n.Writes), pair, c.logBytes.value, a.snapshotTerm())
	if n.Nodes+n.Replicas > 1 {
		row("network of the leader", rateText(a.LeaderSend), "%s × %.1f × %s", rateText(a.LogRate), wireFactor, verb.Plural(n.Nodes+n.Replicas-1, "node"))
	}
	if n.Sites > 1 {
		row("network to each other site", rateText(a.SiteSend), "for up to %s there", verb.Plural((n.Nodes+n.Sites-1)/n.Sites, "node"))
	}
	row("latency of a write", timeText(a.Write), "%s", a.latencyTerm())
	if a.FarWrite > a.Write {
		row("the same from another site", timeText(a.FarWrite), "and a round trip to the leader of %v", n.RoundTrip)
	}
	snapshots := "while nothing is written, there are none"
	if a.SnapshotEvery > 0 {
		snapshots = "every " + timeText(a.SnapshotEvery)
	}
	row("snapshot", timeText(a.SnapshotSeconds), "%s at %s, %s", bytesText(a.Snapshot), rateText(c.snapshotRate.value), snapshots)
	if n.Nodes+n.Replicas > 1 && a.CatchUpSeconds >= 0 {
		row("a new node catches up in", timeText(a.CatchUpSeconds), "a snapshot, and what is written meanwhile")
	}
	t.Flush()
	for _, warning := range a.Warnings {
		fmt.Fprintf(&b, "\nwarning: %s\n", warning)
	}
	fmt.Fprintf(&b, "\n%s\n", a.verdict())
	_, err := io.WriteString(w, b.String())
	return err
}

func replicasText(n int) string {
	if n == 0 {
		return ""
	}
	return " and " + verb.Plural(n, "read replica")
}

func (a *Answer) snapshotTerm() string {
	if a.SnapshotEvery == 0 {
		return ""
	}
	return fmt.Sprintf(", and a snapshot of %s every %s", bytesText(a.Snapshot), timeText(a.SnapshotEvery))
}

func (a *Answer) latencyTerm() string {
	n := a.Need
	switch {
	case n.Nodes == 1:
		return fmt.Sprintf("fsync of %v", n.Sync)
	case a.LocalMajority:
		return fmt.Sprintf("fsync of %v on a majority in the leader's site", n.Sync)
	}
	return fmt.Sprintf("fsync of %v and a round trip of %v to a majority", n.Sync, n.RoundTrip)
}

// verdict is the answer in one line.
func (a *Answer) verdict() string {
	switch m := a.Machine; {
	case !a.Fits:
		return "This does not fit."
	case m.Memory == 0 || m.Disk == 0 || m.Cores == 0:
		return "To check a machine, give --memory, --disk and --cores of one node."
	}
	return "This fits."
}

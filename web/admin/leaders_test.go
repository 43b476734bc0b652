package admin

import (
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/skerrydb/skerry/engine"
)

// TestLeaders: a term or a leader that differs is kept, the newest first, and no more than the limit; who waits hears of it.
func TestLeaders(t *testing.T) {
	t.Parallel()
	var l leaders
	at := time.Unix(1, 0)
	l.look(engine.ClusterState{Term: 1, Leader: 1}, at)
	_, next := l.past()
	l.look(engine.ClusterState{Term: 1, Leader: 1}, at)
	select {
	case <-next:
		t.Error("nothing has changed")
	default:
	}
	l.look(engine.ClusterState{Term: 2}, at)
	<-next
	if all, _ := l.past(); len(all) != 2 || all[0].Term != 2 || all[0].Leader != 0 {
		t.Errorf("%+v", all)
	}
	for term := range uint64(3 * maxLeaderChanges) {
		l.look(engine.ClusterState{Term: 3 + term, Leader: 2}, at)
	}
	if all, _ := l.past(); len(all) != maxLeaderChanges || all[0].Term != 2+3*maxLeaderChanges {
		t.Errorf("%d changes, the newest of term %d", len(all), all[0].Term)
	}
}

// TestClusterTroubles: a cluster without a leader says what is safe and what to do.
func TestClusterTroubles(t *testing.T) {
	t.Parallel()
	a := &Admin{}
	three := []engine.Node{{ID: 1, Voter: true}, {ID: 2, Voter: true}, {ID: 3, Voter: true}}
	for _, c := range []struct {
		state engine.ClusterState
		facts clusterFacts
		want  string
	}{
		{engine.ClusterState{Nodes: three}, clusterFacts{}, "fewer than 2 of 3 voters"},
		{engine.ClusterState{Leader: 1, Nodes: three[:2]}, clusterFacts{}, "has 2 voters"},
		{engine.ClusterState{Self: 1, Leader: 1, Nodes: three}, clusterFacts{Known: true, Nodes: 3, Connected: 1}, "reaches 1 of 2"},
		{engine.ClusterState{Self: 2, Leader: 1, Nodes: three}, clusterFacts{Known: true, Nodes: 3, Connected: 2, Skew: 3}, "differ by 3"},
		{engine.ClusterState{Self: 1, Leader: 1, Nodes: three}, clusterFacts{Known: true, Nodes: 3, Connected: 2}, ""},
	} {
		var got []string
		add := func(what, remedy string) { got = append(got, what+" "+remedy) }
		a.clusterTroubles(c.state, add)
		a.factTroubles(c.state, c.facts, add)
		if text := strings.Join(got, "\n"); !strings.Contains(text, c.want) || (text == "") != (c.want == "") {
			t.Errorf("%+v: %q, want %q", c.state, text, c.want)
		}
	}
}

// TestArchiveFacts: what the metrics say of an archive, and that there is none.
func TestArchiveFacts(t *testing.T) {
	t.Parallel()
	all := []engine.Metric{{Name: "archive_position", Value: 7}, {Name: "archive_time_seconds", Value: 1.5}, {Name: "archive_failing", Value: 1}, {Name: "archive_lost_total", Value: 2}}
	a := &Admin{o: Options{Metrics: func() iter.Seq[engine.Metric] { return slices.Values(all) }}}
	if f := a.archiveFacts(); !f.On || !f.Failing || f.Position != 7 || f.Lost != 2 || !f.Time.Equal(time.UnixMilli(1500)) {
		t.Errorf("%+v", f)
	}
	all = nil
	if f := a.archiveFacts(); f.On {
		t.Errorf("%+v", f)
	}
}

// TestShellWord: a name is one word of a shell, whatever is in it.
func TestShellWord(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{"/var/lib/skerry": "/var/lib/skerry", "a b": "'a b'", "it's": `'it'\''s'`, "": "''", "$(rm)": "'$(rm)'"} {
		if got := shellWord(text); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

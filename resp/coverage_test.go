package resp_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/skerrydb/skerry/ci/redisserver"
)

// TestTranscriptsCoverGroups asks redis-server which commands are in the groups that Skerry
// implements. Every one of them, and every subcommand, must be in a transcript.
func TestTranscriptsCoverGroups(t *testing.T) {
	played := map[string]bool{}
	for _, s := range scripts(t) {
		for _, st := range s.steps {
			if len(st.args) == 0 || st.verb != "" && st.verb != "send" {
				continue
			}
			name := strings.ToLower(st.args[0])
			played[name] = true
			if len(st.args) > 1 {
				played[name+"|"+strings.ToLower(st.args[1])] = true
			}
		}
	}
	c, err := tcp(redisserver.InMemory(t))()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	docs, err := newPeer(c).do("COMMAND", "DOCS")
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	for name, doc := range pairs(docs) {
		fields := pairs(doc)
		if !slices.Contains([]string{"connection", "generic", "string", "transactions"}, fields["group"].text) {
			continue
		}
		names := []string{name}
		for sub := range pairs(fields["subcommands"]) {
			names = append(names, sub)
		}
		for _, n := range names {
			if checked++; !played[n] {
				t.Errorf("no transcript has %s", strings.ToUpper(strings.ReplaceAll(n, "|", " ")))
			}
		}
	}
	if checked < 80 {
		t.Errorf("redis-server names only %d commands of the groups", checked)
	}
}

// pairs parses a RESP2 array of names and values.
func pairs(v reply) map[string]reply {
	m := map[string]reply{}
	for i := 0; i+1 < len(v.elems); i += 2 {
		m[v.elems[i].text] = v.elems[i+1]
	}
	return m
}

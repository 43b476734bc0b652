package cassandra

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/skerrydb/skerry/ci/cassandraserver"
	"github.com/skerrydb/skerry/engine"
)

// TestPaths: ranges of a partition in both directions, and stamps that decide in whatever order they arrive.
func TestPaths(t *testing.T) {
	server := cassandraserver.Shared(t)
	keyspace, done := cassandraserver.Keyspace(t, "meta")
	defer done()
	rec := &recorder{}
	eng := open1(t, server.URL(keyspace), Options{watch: rec})
	defer eng.Close()
	p, err := eng.(engine.PathStore).Paths(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	at := func(key string, stamp int64) engine.PathEntry {
		return engine.PathEntry{Partition: []byte("p"), Key: []byte(key), Stamp: stamp}
	}
	var list []engine.PathEntry
	for i := range 9 {
		list = append(list, at(fmt.Sprint(i), 2))
	}
	other := at("5", 2)
	other.Partition = []byte{0xff, 0}
	if err := p.Insert(t.Context(), append(list, other)); err != nil {
		t.Fatal(err)
	}
	// 1 is removed by a later stamp; the removal of 2 is earlier than its insertion; that of 3 arrives before another insertion.
	for _, fn := range []func() error{
		func() error { return p.Remove(t.Context(), []engine.PathEntry{at("1", 3), at("2", 1), at("3", 5)}) },
		func() error { return p.Insert(t.Context(), []engine.PathEntry{at("3", 4), at("1", 2)}) },
	} {
		if err := fn(); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		lo, hi string
		back   bool
		limit  int
		want   string
	}{
		{"", "", false, 100, "0245678"},
		{"", "", true, 3, "876"},
		{"4", "7", false, 100, "456"},
		{"4", "7", true, 2, "65"},
		{"4", "", true, 100, "87654"},
		{"", "3", false, 100, "02"},
		{"99", "", false, 100, ""},
	} {
		bound := func(s string) []byte {
			if s == "" {
				return nil
			}
			return []byte(s)
		}
		got, err := p.Range(t.Context(), []byte("p"), bound(c.lo), bound(c.hi), c.back, c.limit, engine.Read{})
		if err != nil || string(bytes.Join(got, nil)) != c.want {
			t.Errorf("from %q to %q, back %t, at most %d: %q %v, want %q", c.lo, c.hi, c.back, c.limit, got, err, c.want)
		}
	}
	if got, err := p.Range(t.Context(), other.Partition, nil, nil, false, 10, engine.Read{}); err != nil || !slices.EqualFunc(got, []string{"5"}, func(a []byte, b string) bool { return string(a) == b }) {
		t.Errorf("the other partition has %q %v", got, err)
	}
	checkPathStatements(t, eng.(*db), rec)
}

// checkPathStatements checks that what was sent is prepared and on one partition.
func checkPathStatements(t *testing.T, e *db, rec *recorder) {
	t.Helper()
	prepared := preparedOn(t, e)
	rec.mu.Lock()
	defer rec.mu.Unlock()
	sent := map[string]bool{}
	for _, q := range rec.queries {
		if sent[q.Statement] = true; !strings.HasPrefix(q.Statement, "CREATE ") && !prepared[q.Statement] {
			t.Errorf("not prepared: %s", q.Statement)
		}
	}
	for _, stmt := range []string{insertPath, deletePath, selectPath, selectBack, selectRest, selectTail} {
		if !sent[stmt] {
			t.Errorf("not sent: %s", stmt)
		}
		if !strings.Contains(stmt, "(partition, key)") && !strings.Contains(stmt, "WHERE partition = ?") {
			t.Errorf("on more than one partition: %s", stmt)
		}
	}
	if len(rec.batches) > 0 {
		t.Errorf("%d batches of entries, whose partitions differ", len(rec.batches))
	}
}

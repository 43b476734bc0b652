package embedded

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/skerrydb/skerry/ci/eventually"
	"github.com/skerrydb/skerry/ci/logbuf"
	"github.com/skerrydb/skerry/ci/seed"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/journal/memfs"
)

// folderFile is what is known of some files of a node's data folder.
type folderFile struct {
	pattern string
	starts  bool // a node whose file is empty starts all the same
	silent  bool // check has nothing to say about an empty one
}

// folderFiles are all of them. A new file needs a row here.
var folderFiles = []folderFile{
	{`^vote$`, false, false},
	{`^log/[0-9a-f]{16}\.log$`, false, false},
	{`^snap/[0-9a-f]{20}\.snap$`, false, false},
	{`^cluster/(ca\.crt|node\.crt|node\.key|node\.json)$`, false, false},
	{`^cluster/ca\.key$`, true, false}, // only to invite
	{`^cluster/nodes\.json$`, true, false},
	{`^cluster/issued/1$`, true, true}, // its name says it all
}

// nodeLife is what a node does to its folder until the power fails.
type nodeLife struct {
	t     *testing.T
	fs    *memfs.FS
	acked []string
}

func (l *nodeLife) options() Options {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		l.t.Fatal(err)
	}
	return Options{FS: l.fs, Logger: quiet(), segmentBytes: 16 << 10, Cluster: ClusterOptions{Listener: ln, Version: "0.1.0", Tick: 5 * time.Millisecond}}
}

// run makes the folder the first node of a cluster, writes, saves and stops. It
// returns the first error.
func (l *nodeLife) run() error {
	if _, _, err := InitCluster(l.t.Context(), "data", "127.0.0.1:1", Options{FS: l.fs, Logger: quiet(), segmentBytes: 16 << 10}); err != nil {
		return err
	}
	o := l.options()
	defer o.Cluster.Listener.Close()
	db, err := Open("data", o)
	if err != nil {
		return err
	}
	for i := range 3 {
		key := fmt.Sprint("key ", i)
		if err = l.put(db, key); err == nil {
			l.acked = append(l.acked, key)
			_, err = db.saveSnapshot()
		}
		if err != nil {
			break
		}
	}
	return errors.Join(err, db.Close())
}

// put writes as soon as the node leads.
func (l *nodeLife) put(db *DB, key string) error {
	if _, err := db.Cluster().AwaitLeader(l.t.Context()); err != nil {
		return err
	}
	_, err := db.Update(l.t.Context(), putting(key, "value"))
	return err
}

// names returns the files of the folder.
func (l *nodeLife) names() (out []string) {
	for _, sub := range []string{"", "log", "snap", "cluster", "cluster/issued"} {
		names, err := l.fs.List(filepath.Join("data", sub))
		if err != nil {
			l.t.Fatal(err)
		}
		for _, name := range names {
			out = append(out, filepath.Join(sub, name))
		}
	}
	return out
}

// TestPowerCutAtEachStep: wherever the power fails in a node's life, the node can be
// made and started again, check finds nothing wrong, and what was acknowledged is
// there.
func TestPowerCutAtEachStep(t *testing.T) {
	t.Parallel()
	first := seed.Of(t)
	for step := 0; ; step++ {
		l := &nodeLife{t: t, fs: memfs.New(first + uint64(step))}
		l.fs.StopAfter(step)
		whole := l.run() == nil
		l.fs.Crash()
		l.again(step)
		if whole {
			t.Logf("%d steps", step)
			if step < 50 {
				t.Error("the test covers too few steps")
			}
			return
		}
	}
}

// again starts after the power cut.
func (l *nodeLife) again(step int) {
	l.t.Helper()
	_, _, err := InitCluster(l.t.Context(), "data", "127.0.0.1:1", Options{FS: l.fs, Logger: quiet(), segmentBytes: 16 << 10})
	if err != nil && !strings.Contains(err.Error(), "is already node 1 of a cluster") {
		l.t.Fatalf("cut after %d steps: init: %v", step, err)
	}
	if rep, err := Check("data", Options{FS: l.fs}, nil); err != nil || !rep.OK() {
		l.t.Fatalf("cut after %d steps: check: %v, %q", step, err, rep.Problems)
	}
	o := l.options()
	db, err := Open("data", o)
	if err != nil {
		l.t.Fatalf("cut after %d steps: %v", step, err)
	}
	defer db.Close()
	if err := l.put(db, "after"); err != nil {
		l.t.Fatalf("cut after %d steps: write: %v", step, err)
	}
	for _, key := range l.acked {
		want(l.t, db, key, "value")
	}
	if nodes, err := readNodes(l.fs, "data"); err != nil || len(nodes) != 1 {
		l.t.Fatalf("cut after %d steps: the nodes are %v, %v", step, nodes, err)
	}
}

// TestEveryFile: all files of a node's folder are in the table above; check names
// each one that an interrupted write of a file system has left empty or as zeros,
// and a start continues without it or names it too.
func TestEveryFile(t *testing.T) {
	t.Parallel()
	whole := &nodeLife{t: t, fs: memfs.New(1)}
	if err := whole.run(); err != nil {
		t.Fatal(err)
	}
	unused := map[string]bool{}
	for _, row := range folderFiles {
		unused[row.pattern] = true
	}
	for _, name := range whole.names() {
		i := slices.IndexFunc(folderFiles, func(f folderFile) bool { return regexp.MustCompile(f.pattern).MatchString(name) })
		if i < 0 {
			t.Errorf("%s is not in the table of this test: does a start need it, does check read it, what if it is damaged?", name)
			continue
		}
		row := folderFiles[i]
		delete(unused, row.pattern)
		data, err := whole.fs.ReadFile(filepath.Join("data", name))
		if err != nil {
			t.Fatal(err)
		}
		for what, bad := range map[string][]byte{"empty": nil, "zeros": make([]byte, len(data))} {
			l := &nodeLife{t: t, fs: whole.fs.Clone(1)}
			l.fs.WriteFile(filepath.Join("data", name), bad)
			rep, err := Check("data", Options{FS: l.fs}, nil)
			if named := strings.Contains(strings.Join(rep.Problems, "\n"), filepath.Base(name)); err != nil || named == row.silent {
				t.Errorf("%s is %s: check says %v, %q", name, what, err, rep.Problems)
			}
			o := l.options()
			db, err := Open("data", o)
			o.Cluster.Listener.Close()
			if err == nil {
				_ = db.Close()
			}
			if starts := err == nil; starts != row.starts || !starts && !strings.Contains(err.Error(), filepath.Base(name)) {
				t.Errorf("%s is %s: the start says %v", name, what, err)
			}
		}
	}
	if len(unused) > 0 {
		t.Errorf("the node has no file for %v", slices.Collect(maps.Keys(unused)))
	}
}

// TestDamagedNodes: a node whose nodes.json is damaged or gone starts with nothing
// but its folder, and finds the others by what its log says of them.
func TestDamagedNodes(t *testing.T) {
	t.Parallel()
	c := newTrio(t, 3)
	for _, bad := range []string{"", "\x00\x00\x00\x00", `[{"id":0}]`, "gone"} {
		file := filepath.Join(c.dirs[2], clusterDir, nodesName)
		before, err := readNodes(c.dbs[2].opts.FS, c.dirs[2])
		if err != nil || len(before) != 3 {
			t.Fatalf("%v, %v", before, err)
		}
		if err := c.dbs[2].Close(); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(bad), 0o600); err != nil {
			t.Fatal(err)
		}
		if bad == "gone" {
			if err := os.Remove(file); err != nil {
				t.Fatal(err)
			}
		} else if _, err := Invite(c.dirs[2]); engine.CodeOf(err) != engine.CodeCorrupt || !strings.Contains(err.Error(), nodesName) {
			t.Errorf("invite: %v", err)
		}
		if _, err := OpenAdmin(c.dirs[2], "0.1.0"); err != nil {
			t.Error(err)
		}
		log := &logbuf.Buffer{}
		o := Options{Logger: slog.New(slog.NewTextHandler(log, nil)), Cluster: ClusterOptions{Version: "0.1.0", Tick: 10 * time.Millisecond}}
		db, err := Open(c.dirs[2], o)
		if err != nil {
			t.Fatalf("%q: %v", bad, err)
		}
		c.dbs[2] = db
		t.Cleanup(func() { _ = db.Close() })
		if said := strings.Contains(log.String(), nodesName); said != (bad != "gone") {
			t.Errorf("%q: the log says %s", bad, log.String())
		}
		eventually.True(c.t, "the file to be whole again", func() bool {
			after, err := readNodes(db.opts.FS, c.dirs[2])
			return err == nil && slices.Equal(after, before)
		})
	}
}

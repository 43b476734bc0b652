package cli

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// treeSite is notesSite with the collection tree.
func treeSite(t *testing.T) (*shell, *server) {
	t.Helper()
	t.Setenv("SITE_TREE", "1")
	return notesSite(t)
}

// TestImportTree: records of a file may refer to others of it, if these are in the same part or an earlier one.
func TestImportTree(t *testing.T) {
	s, _ := treeSite(t)
	var b strings.Builder
	s.write("cyclic.jsonl", `{"id":"a","data":{"parent":"b"}}`+"\n"+`{"id":"b","data":{"parent":"a"}}`)
	s.want("site import tree cyclic.jsonl --url $ADMIN", `! cyclic.jsonl: line 2 (parent): tree has no record "a"; that of line 1 cannot be imported before this one
! site import: 1 of 2 records cannot be imported; nothing was written
[1]
`)
	for i := range 1000 {
		parent := fmt.Sprint("t", i/2) // earlier, but for the first of ten
		if i == 0 {
			parent = "t0"
		} else if i%10 == 0 {
			parent = fmt.Sprint("t", i+3)
		}
		fmt.Fprintf(&b, `{"id":"t%d","data":{"parent":%q,"note":"note1","n":%d}}`+"\n", i, parent, i)
	}
	s.write("tree.jsonl", b.String())
	s.want("site import tree tree.jsonl --batch 100 --dry-run --url $ADMIN", "would create 1000 records, update 0, skip 0\n")
	s.want("site import tree tree.jsonl --batch 100 --url $ADMIN", "created 1000 records, updated 0, skipped 0\n")
	s.want("site import tree tree.jsonl --batch 100 --existing skip --url $ADMIN", "created 0 records, updated 0, skipped 1000\n")
	s.write("later.csv", "id,parent,note\nu1,u4,\nu2,t1,\nu3,none,\nu4,t1,\nu5,u2,none\n")
	s.want("site import tree later.csv --batch 2 --json --dry-run --url $ADMIN", `{"created":2,"updated":0,"skipped":0,"failed":3,"dry_run":true}
! later.csv: line 6, column 7 (note): notes has no record "none"
! later.csv: line 2, column 4 (parent): record "u4" is in line 5, in a later batch: move it up, or use --batch 10000
! later.csv: line 4, column 4 (parent): there is no record "none"
! site import: 3 of 5 records cannot be imported; nothing was written
[1]
`)
}

// TestImportFrom: an import goes on where another one ended.
func TestImportFrom(t *testing.T) {
	t.Parallel()
	s, p := notesSite(t)
	s.write("n.csv", "n,by\n1,a\n2,\"b\nb\"\n3,c\n4,d\n")
	refusing := between(t, p, func(n int32, forward http.Handler, w http.ResponseWriter, r *http.Request) {
		if n == 2 {
			http.Error(w, `{"code":"forbidden","status":403,"detail":"no"}`, http.StatusForbidden)
			return
		}
		forward.ServeHTTP(w, r)
	})
	got := s.run("site import notes n.csv --batch 2 --url " + refusing)
	if !strings.HasSuffix(got, "the lines up to 4 were imported; continue with --from 5\n[1]\n") {
		t.Errorf("it prints %s", got)
	}
	s.want("site import notes n.csv --from 5 --url $ADMIN", "created 2 records, updated 0, skipped 0\n")
	s.want("site export notes --filter 'old = null' --url $ADMIN | wc -l", "4\n")
	s.want("site import notes n.csv --from 4 --dry-run --url $ADMIN", "would create 2 records, update 0, skip 0\n")
	s.want("site import notes n.csv --from 8 --url $ADMIN", "! site import: --from: the file has only 6 lines\n! Run `site help import` for its usage.\n[2]\n")
}

// TestImportManyMistakes: a dry run lists every mistake, an import the first 100.
func TestImportManyMistakes(t *testing.T) {
	t.Parallel()
	s, _ := notesSite(t)
	s.write("bad.csv", "n\n"+strings.Repeat("x\n", 1500))
	s.want("site import notes bad.csv --dry-run --batch 400 --url $ADMIN 2>&1 | grep -c 'line .*, column 1 (n)'", "1500\n[1]\n")
	s.want("site import notes bad.csv --url $ADMIN 2>&1 | tail -n 4", `bad.csv: line 100, column 1 (n): must be a number, not a string
bad.csv: line 101, column 1 (n): must be a number, not a string
bad.csv: there are more; --dry-run lists all
site import: 1500 of 1500 records cannot be imported; nothing was written
[1]
`)
}

// TestExportSeveral: several collections are exported as they are at one moment, while others write to them, and can be
// imported one after the other.
func TestExportSeveral(t *testing.T) {
	s, p := treeSite(t)
	stop, done := make(chan struct{}), sync.WaitGroup{}
	done.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			ops := fmt.Sprintf(`{"ops":[{"op":"create","collection":"notes","id":"x%d","data":{"n":%d}},{"op":"create","collection":"tree","id":"x%d","data":{"note":"x%d"}}]}`, i, i, i, i)
			resp, err := http.Post(p.Admin+"/api/tx", "application/json", strings.NewReader(ops))
			if err != nil || resp.StatusCode != http.StatusOK {
				t.Errorf("write: %v %v", resp, err)
				return
			}
			resp.Body.Close()
		}
	})
	for i := range 5 {
		to := fmt.Sprint("all", i)
		s.run("site export notes tree --to " + to + " --url $ADMIN")
		notes := s.notes(to + "/notes.jsonl")
		tree := s.notes(to + "/tree.jsonl")
		for _, text := range tree {
			var data struct{ Note string }
			if err := json.Unmarshal([]byte(text), &data); err != nil || notes[data.Note] == "" {
				t.Fatalf("export %d: no note for %s (%v)", i, text, err)
			}
		}
		if len(notes) != len(tree)+3 {
			t.Errorf("export %d: %d notes and %d records that refer to them", i, len(notes), len(tree))
		}
	}
	close(stop)
	done.Wait()
	s.want("site export notes tree --to last --url $ADMIN | sed 's/[0-9].*//'", "last: \n")
	other, _ := treeSite(t)
	other.env = append(other.env, "FROM="+s.dir)
	for _, name := range []string{"notes", "tree"} {
		if got := other.run("site import " + name + " $FROM/last/" + name + ".jsonl --existing skip --url $ADMIN"); !strings.HasPrefix(got, "created ") {
			t.Errorf("%s: %s", name, got)
		}
	}
	if files, err := os.ReadDir(filepath.Join(s.dir, "last")); err != nil || len(files) != 2 {
		t.Errorf("the folder has %v (%v)", files, err)
	}
	s.want("site export notes nothing --to x --url $ADMIN; ls x", "! site export: there is no collection \"nothing\" [unknown_collection]\n! ls: cannot access 'x': No such file or directory\n[2]\n")
}

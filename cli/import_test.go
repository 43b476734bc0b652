package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

// notesSite starts a server of site with the collection notes, which has three records. $ADMIN is its admin address.
func notesSite(t *testing.T) (*shell, *server) {
	t.Helper()
	s := newSite(t)
	s.env = append(s.env, "SITE_NOTES=1")
	p := s.serve("--admin", "127.0.0.1:0")
	p.waitReady()
	s.env = append(s.env, "ADMIN="+p.Admin, "APP="+p.HTTP)
	return s, p
}

// want runs a command line and compares what it prints.
func (s *shell) want(line, want string) {
	s.t.Helper()
	if got := s.run(line); got != want {
		s.t.Errorf("%s prints\n%s\nwant\n%s", line, got, want)
	}
}

func (s *shell) write(name, text string) {
	s.t.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// notes returns the data of the records of a file of JSON lines by id.
func (s *shell) notes(name string) map[string]string {
	s.t.Helper()
	text, err := os.ReadFile(filepath.Join(s.dir, name))
	if err != nil {
		s.t.Fatal(err)
	}
	all := map[string]string{}
	for line := range bytes.Lines(text) {
		var r struct {
			ID   string
			Data json.RawMessage
		}
		if err := json.Unmarshal(line, &r); err != nil || all[r.ID] != "" {
			s.t.Fatalf("%s: %q: %v", name, line, err)
		}
		all[r.ID] = string(r.Data)
	}
	return all
}

// TestRecordsFromTheShell runs the verbs export and import. $APP is the address of the application.
func TestRecordsFromTheShell(t *testing.T) {
	t.Parallel()
	s, _ := notesSite(t)
	expectPlay(t, s, filepath.Join("testdata", "site", "records.txt"))
}

// TestImportMany: records come in as they went out, in several transactions, in both formats.
func TestImportMany(t *testing.T) {
	t.Parallel()
	s, _ := notesSite(t)
	var b strings.Builder
	for i := range 2500 {
		fmt.Fprintf(&b, `{"id":"many%d","data":{"n":%d,"by":"a, \"b\"\n%d","old":"ä"}}`+"\n", i, i, i)
	}
	s.write("many.jsonl", b.String())
	s.want("site import notes many.jsonl --batch 1000 --url $ADMIN", "created 2500 records, updated 0, skipped 0\n")
	for _, format := range []string{"jsonl", "csv"} {
		s.want("site export notes --to out."+format+" --url $ADMIN | cut -d, -f1", "out."+format+": 2503 records\n")
	}
	want := s.notes("out.jsonl")
	if got := want["many2499"]; len(want) != 2503 || got != `{"n":2499,"by":"a, \"b\"\n2499","old":"ä"}` {
		t.Fatalf("%d records, one is %s", len(want), got)
	}
	for _, format := range []string{"jsonl", "csv"} {
		other, _ := notesSite(t)
		other.env = append(other.env, "FROM="+s.dir)
		other.want("site import notes $FROM/out."+format+" --batch 1000 --existing update --url $ADMIN", "created 2500 records, updated 3, skipped 0\n")
		other.want("site export notes --url $ADMIN >back.jsonl", "")
		if !maps.Equal(other.notes("back.jsonl"), want) {
			t.Errorf("other records come out of %s", format)
		}
	}
}

// brokenCSV returns 2,500 records of two lines each, below a header; some are wrong.
func brokenCSV(wrong map[int]string) string {
	var b strings.Builder
	b.WriteString("id,by,n\n")
	for i := range 2500 {
		n, bad := wrong[i]
		if !bad {
			n = fmt.Sprint(i)
		}
		fmt.Fprintf(&b, "many%d,\"x\ny\",%s\n", i, n)
	}
	return b.String()
}

// TestImportBroken: mistakes are where the file has them, and nothing is written unless --partial is set.
func TestImportBroken(t *testing.T) {
	t.Parallel()
	s, _ := notesSite(t)
	s.write("broken.csv", brokenCSV(map[int]string{7: "x", 2400: "1,2", 2499: "y"}))
	s.write("cut.csv", brokenCSV(map[int]string{2400: `a"b`}))
	const mistakes = `! broken.csv: line 17, column 4 (n): must be a number, not a string
! broken.csv: line 4802, column 1: the line has 4 values, but the first line has 3 names
! broken.csv: line 5001, column 4 (n): must be a number, not a string
`
	for _, flags := range []string{"", "--dry-run --json "} {
		printed := ""
		if flags != "" {
			printed = `{"created":2497,"updated":0,"skipped":0,"failed":3,"dry_run":true}` + "\n"
		}
		s.want("site import notes broken.csv --batch 1000 "+flags+"--url $ADMIN", printed+mistakes+"! site import: 3 of 2500 records cannot be imported; nothing was written\n[1]\n")
	}
	const cut = "! cut.csv: line 4803, column 5: bare \" in non-quoted-field\n"
	s.want("site import notes cut.csv --batch 1000 --url $ADMIN", cut+"! site import: cut.csv cannot be imported; nothing was written\n[1]\n")
	s.want("site export notes --url $ADMIN | wc -l", "3\n")
	s.want("site import notes broken.csv --batch 1000 --partial --url $ADMIN", "created 2497 records, updated 0, skipped 0\n"+mistakes+"! site import: 3 of 2500 records were not imported\n[1]\n")
	s.want("site export notes --url $ADMIN | wc -l", "2500\n")
	s.want("site import notes cut.csv --batch 1000 --existing skip --partial --url $ADMIN", cut+"! site import: cut.csv cannot be imported; the lines up to 4001 were imported; continue with --from 4002\n[1]\n")
}

// between returns the address of a proxy before the admin address of p. Each import that writes goes through next.
func between(t *testing.T, p *server, next func(n int32, forward http.Handler, w http.ResponseWriter, r *http.Request)) string {
	t.Helper()
	to, err := url.Parse(p.Admin)
	if err != nil {
		t.Fatal(err)
	}
	forward := httputil.NewSingleHostReverseProxy(to)
	var writes atomic.Int32
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Host = to.Host
		if r.Method != http.MethodPost || r.FormValue("dry_run") != "" {
			forward.ServeHTTP(w, r)
			return
		}
		next(writes.Add(1), forward, w, r)
	}))
	t.Cleanup(srv.Close)
	return srv.URL
}

// TestImportAgain: a part of which the response was lost is sent again, and written once.
func TestImportAgain(t *testing.T) {
	t.Parallel()
	s, p := notesSite(t)
	lossy := between(t, p, func(n int32, forward http.Handler, w http.ResponseWriter, r *http.Request) {
		if n%2 == 1 {
			forward.ServeHTTP(httptest.NewRecorder(), r)
			panic(http.ErrAbortHandler)
		}
		forward.ServeHTTP(w, r)
	})
	s.write("new.jsonl", strings.Repeat(`{"data":{"n":1}}`+"\n", 3))
	s.want("site import notes new.jsonl --batch 2 --url "+lossy, "created 3 records, updated 0, skipped 0\n")
	s.want("site export notes --url $ADMIN | wc -l", "6\n")
}

// TestImportRace: a record that appears after the check stops the import, which says what it has written.
func TestImportRace(t *testing.T) {
	t.Parallel()
	s, p := notesSite(t)
	race := between(t, p, func(n int32, forward http.Handler, w http.ResponseWriter, r *http.Request) {
		if n == 2 {
			resp, err := http.Post(p.Admin+"/api/notes", "application/json", strings.NewReader(`{"id":"r4","data":{}}`))
			if err != nil || resp.StatusCode != http.StatusCreated {
				t.Errorf("create a record: %v %v", resp, err)
			}
		}
		forward.ServeHTTP(w, r)
	})
	s.write("r.csv", "id,n\nr1,1\nr2,2\n\nr3,3\nr4,4\nr5,5\n")
	s.want("site import notes r.csv --batch 2 --url "+race, `! r.csv: line 6: notes already has a record with the id r4
! site import: lines 4 to 6 cannot be imported; the lines up to 3 were imported; continue with --from 4
[1]
`)
	s.want("site export notes --url $ADMIN | wc -l", "6\n")
	s.want("site import notes r.csv --existing skip --url "+race, "created 2 records, updated 0, skipped 3\n")
}

// TestExportCutOff: an export that breaks off, or is none, fails and leaves the old file.
func TestExportCutOff(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		serve func(w http.ResponseWriter)
		want  string
	}{
		"cut off": {func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "application/jsonl")
			fmt.Fprint(w, "{\"id\":\"a\"}\n{\"id\":\"b\"}\n")
			http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}, "the export broke off after 2 records: unexpected EOF\n"},
		"half a line": {func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "application/jsonl; charset=utf-8")
			fmt.Fprint(w, "{\"id\":\"a\"}\n{\"id\"")
		}, "the export broke off after 1 record: unexpected EOF\n"},
		"a page": {func(w http.ResponseWriter) { fmt.Fprint(w, "<html>") }, "is not an export of a Skerry server\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/api/collections" {
					fmt.Fprint(w, `{"collections":[{"name":"notes"}]}`)
					return
				}
				c.serve(w)
			}))
			defer srv.Close()
			dir := t.TempDir()
			old := filepath.Join(dir, "old.jsonl")
			if err := os.WriteFile(old, []byte("old"), 0o600); err != nil {
				t.Fatal(err)
			}
			for _, to := range []string{old, filepath.Join(dir, "new.jsonl")} {
				if code, stdout, stderr := runApp("export", "notes", "--to", to, "--url", srv.URL); code != 1 || stdout != "" || !strings.HasSuffix(stderr, c.want) {
					t.Errorf("[%d] %s%s", code, stdout, stderr)
				}
			}
			if files, _ := filepath.Glob(filepath.Join(dir, "*")); len(files) != 1 {
				t.Errorf("the folder has %s", files)
			}
			if text, err := os.ReadFile(old); err != nil || string(text) != "old" {
				t.Errorf("the old file has %q, %v", text, err)
			}
			if code, _, _ := runApp("export", "notes", "--url", srv.URL); code != 1 {
				t.Errorf("to standard output: exit code %d", code)
			}
		})
	}
}

// TestProgress: a terminal shows how far an import and an export are.
func TestProgress(t *testing.T) {
	t.Parallel()
	need(t, "script") // gives a program a terminal
	s, _ := notesSite(t)
	s.write("new.jsonl", `{"data":{"n":1}}`+"\n")
	for command, want := range map[string]string{
		"site import notes new.jsonl --url $ADMIN":    "\rchecked 1 record, 17B of 17B" + eraseRest + "\r" + eraseRest + "\rimported 1 record, 17B of 17B" + eraseRest + "\r" + eraseRest + "created 1 record",
		"site export notes --to out.csv --url $ADMIN": "\rexported ",
	} {
		if got := s.run("TERM=xterm script -qec '" + command + "' /dev/null </dev/null"); !strings.Contains(got, want) {
			t.Errorf("%s prints %q", command, got)
		}
		if got := s.run(command); strings.Contains(got, "\r") {
			t.Errorf("without a terminal %s prints %q", command, got)
		}
	}
}

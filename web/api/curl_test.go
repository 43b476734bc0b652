package api_test

import (
	"fmt"
	"html"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/skerrydb/skerry/proc"
	"github.com/skerrydb/skerry/web/api"
)

// needCurl skips the test, or fails it where every server and tool must be there.
func needCurl(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("curl"); err == nil {
		return
	}
	if os.Getenv("SKERRY_REQUIRE_SERVERS") == "1" {
		t.Fatal("curl is not installed")
	}
	t.Skip("curl is not installed")
}

// shell runs a command line with URL set, and returns what it prints.
func shell(t *testing.T, s *server, line string) string {
	t.Helper()
	cmd := exec.Command("sh", "-c", line)
	cmd.Env = append(os.Environ(), "URL="+s.url(""))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%s: %v\n%s", line, err, out)
	}
	return string(out)
}

func TestCurl(t *testing.T) {
	needCurl(t)
	s := serve(t, api.Options{})
	const code = ` -w '%{http_code}\n' -o /dev/null `
	for _, step := range []struct{ line, want string }{
		{`curl -sS -XPOST $URL/db/foo -d bar`, ""},
		{`curl -sS $URL/db/foo`, "bar"},
		{`curl -sS $URL/db/foo -X DELETE` + code, "204\n"},
		{`curl -sS $URL/db/foo` + code, "404\n"},
		{`printf 'a\000b\r\n' | curl -sS -T - $URL/db/piped` + code, "201\n"},
		{`curl -sS $URL/db/piped | od -An -tx1`, " 61 00 62 0d 0a\n"},
		{`head -c 16777216 /dev/zero | curl -sS -X PUT --data-binary @- $URL/db/large` + code, "201\n"},
		{`curl -sS $URL/db/large | wc -c`, "16777216\n"},
		{`head -c 16777217 /dev/zero | curl -sS -X PUT --data-binary @- $URL/db/large` + code, "413\n"},
		{`curl -sS -I $URL/db/foo | head -1`, "HTTP/1.1 404 Not Found\r\n"},
		{`curl -sS -X PUT $URL/db/foo` + code, "411\n"},
		{`curl -sS -X PUT -d one -H 'If-None-Match: *' $URL/db/foo` + code, "201\n"},
		{`curl -sS -X PUT -d two -H 'If-None-Match: *' $URL/db/foo` + code, "412\n"},
		{`tag=$(curl -sS -I $URL/db/foo | sed -n 's/\r$//; s/^Etag: //p'); curl -sS -X PUT -d two -H "If-Match: $tag" $URL/db/foo` + code, "204\n"},
		{`curl -sS -X PUT -d x --path-as-is $URL/db/a/../b` + code, "201\n"},
		{`curl -sS -X PUT -d x $URL/db/a//b` + code, "201\n"},
		{`curl -sS "$URL/db/?prefix=a"`, "{\"items\":[\n{\"key\":\"a/../b\"},\n{\"key\":\"a//b\"}]}\n"},
		{`curl -sS $URL/healthz`, "{\"status\":\"ok\"}\n"},
		{`curl -sS -f $URL/backup | wc -c | tr -d ' ' | grep -c '^[1-9]'`, "1\n"},
	} {
		if got := shell(t, s, step.line); got != step.want {
			t.Errorf("%s\nprints %q, not %q", step.line, got, step.want)
		}
	}
}

// TestIndexExamples runs what the index page offers for copying.
func TestIndexExamples(t *testing.T) {
	needCurl(t)
	s := serveProcedures(t, testProcedures(), api.Options{})
	page := shell(t, s, `curl -sS -H 'Accept: text/html' $URL/`)
	var all strings.Builder
	for _, m := range regexp.MustCompile(`(?s)<pre>(.*?)</pre>`).FindAllStringSubmatch(page, -1) {
		all.WriteString(shell(t, s, html.UnescapeString(m[1])+" -sS"))
		all.WriteString("\n--\n")
	}
	got := all.String()
	for _, want := range []string{"--\nbar\n--", "HTTP/1.1 201 Created", "X-Skerry-Expires", `{"key":"foo","value":"bar"`, "412 Precondition", "204 No Content", "--\n\"x\"\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("the examples do not print %q:\n%s", want, got)
		}
	}
}

// docProcedures are those that docs/http.md calls.
func docProcedures() procedures {
	type voteIn struct {
		Contestant int    `json:"contestant"`
		Phone      uint64 `json:"phone"`
	}
	type resultsIn struct {
		Limit int `json:"limit"`
	}
	return procedures{
		proc.Define("vote", func(tx *proc.Tx, in voteIn) (int64, error) {
			return tx.KV(0).Add(fmt.Appendf(nil, "votes:%d", in.Contestant), 1)
		}),
		proc.DefineRead("results", func(tx *proc.Tx, _ resultsIn) ([]int64, error) {
			e, _, err := tx.KV(0).Get([]byte("votes:1"))
			if err != nil {
				return nil, err
			}
			n, err := strconv.ParseInt(string(e.Val), 10, 64)
			return []int64{n}, err
		}),
	}
}

// TestDocExamples runs the commands of docs/http.md.
func TestDocExamples(t *testing.T) {
	needCurl(t)
	doc, err := os.ReadFile("../../docs/http.md")
	if err != nil {
		t.Fatal(err)
	}
	s := serveProcedures(t, docProcedures(), api.Options{})
	blocks := regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(string(doc), -1)
	wants := []string{"bar{\"items\":[\n{\"key\":\"session/42\",\"value\":\"# HTTP", "1\n[1]\n{\"procedures\":[{\"name\":\"results\","}
	if len(blocks) != len(wants) {
		t.Fatalf("docs/http.md has %d blocks of commands", len(blocks))
	}
	for i, b := range blocks {
		script := strings.ReplaceAll(b[1], "localhost:7001", s.addr)
		script = strings.ReplaceAll(script, "/tmp/", t.TempDir()+"/")
		script = strings.ReplaceAll(script, "README.md", "../../docs/http.md")
		got := shell(t, s, "set -e\n"+strings.ReplaceAll(script, "curl ", "curl -fsS "))
		if !strings.HasPrefix(got, wants[i]) {
			t.Errorf("%s\nprints\n%.300s", b[1], got)
		}
	}
}

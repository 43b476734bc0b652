package todo_test

import (
	"bufio"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"testing"

	"github.com/skerrydb/skerry"
	"github.com/skerrydb/skerry/engine/embedded"
	"github.com/skerrydb/skerry/examples/exampletest"
	"github.com/skerrydb/skerry/examples/todo"
)

// TestEventsAfterHistory: a page that is older than the history that the server keeps gets an event to read
// everything again, and then one for each change.
func TestEventsAfterHistory(t *testing.T) {
	t.Parallel()
	s := exampletest.Serve(t, embedded.Options{HistoryBytes: 1}, skerry.Options{ // the last change only
		Procedures: todo.Procedures(), Web: skerry.Web{Name: "todo", Application: todo.Application, Debug: true},
	})
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Jar: jar, Timeout: patience}
	post := func(path string, form url.Values) {
		t.Helper()
		resp, err := client.PostForm(s.HTTPURL()+path, form)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != 200 {
			t.Fatalf("%s: %s", path, resp.Status)
		}
	}
	post("/register", url.Values{"email": {"anna@example.org"}, "password": {password}})
	post("/add", url.Values{"text": {"one"}})
	resp, err := client.Get(s.HTTPURL() + "/events?after=1")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	next := func() {
		t.Helper()
		for lines.Scan() {
			if strings.HasPrefix(lines.Text(), "event: changed") {
				return
			}
		}
		t.Fatalf("the stream ended: %v", lines.Err())
	}
	next()
	post("/add", url.Values{"text": {"two"}})
	next()
}

package todo_test

import (
	"bufio"
	"context"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"testing"

	"github.com/skerrydb/skerry"
	"github.com/skerrydb/skerry/engine/embedded"
	"github.com/skerrydb/skerry/examples/todo"
)

// TestEventsAfterHistory: a page that is older than the changes that the server keeps is told
// to read everything again, and then of each change.
func TestEventsAfterHistory(t *testing.T) {
	t.Parallel()
	db, err := embedded.Open(t.TempDir(), embedded.Options{HistoryBytes: 1}) // the last change only
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	s, err := skerry.Open(db, skerry.Options{HTTP: "127.0.0.1:0", RESP: skerry.Off, Admin: skerry.Off, Procedures: todo.Procedures(),
		Web: skerry.Web{Name: "todo", Application: todo.Application, Debug: true}})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Run(context.WithoutCancel(t.Context())) }()
	defer func() {
		s.Close()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
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

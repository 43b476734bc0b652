package examples_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/skerrydb/skerry/ci/pgserver"
	"github.com/skerrydb/skerry/ci/redisserver"
)

// running is an example that runs on an engine, as a process.
type running struct {
	t                 *testing.T
	path, url         string // the program, and the URL of the engine
	HTTP, RESP, Admin string
	stop              func(os.Signal)
}

// start starts the example, or starts it again on the same data.
func (r *running) start() {
	r.t.Helper()
	r.stop = launch(r.t, r, r.path, "serve", "--json", "--engine", r.url, "--http", "127.0.0.1:0", "--resp", "off", "--admin", "127.0.0.1:0", "--log-level", "warn")
}

// again ends the process and starts the next on the same data.
func (r *running) again(sig os.Signal) {
	r.t.Helper()
	r.stop(sig)
	r.start()
}

// ask posts JSON, or gets if body is "", and returns the status and what came. It may run in any goroutine.
func (r *running) ask(path, body string, header ...string) (int, string) {
	method := http.MethodGet
	if body != "" {
		method = http.MethodPost
	}
	q, err := http.NewRequestWithContext(r.t.Context(), method, r.HTTP+path, strings.NewReader(body))
	if err != nil {
		return 0, err.Error()
	}
	q.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(header); i += 2 {
		q.Header.Set(header[i], header[i+1])
	}
	client := http.Client{Timeout: startWait}
	resp, err := client.Do(q)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err.Error()
	}
	return resp.StatusCode, string(text)
}

// want asks, and reads the answer into v unless it is nil.
func (r *running) want(status int, v any, path, body string, header ...string) {
	r.t.Helper()
	got, text := r.ask(path, body, header...)
	if got != status {
		r.t.Fatalf("%s %s: status %d, want %d\n%s", path, body, got, status, text)
	}
	if v != nil {
		if err := json.Unmarshal([]byte(text), v); err != nil {
			r.t.Fatalf("%s: %v\n%s", path, err, text)
		}
	}
}

// call calls a procedure.
func (r *running) call(v any, name, in string) {
	r.t.Helper()
	r.want(http.StatusOK, v, "/api/call/"+name, in)
}

// prefixes are those of the tests in the shared Redis server.
var prefixes atomic.Int64

// onEngines runs the same program on each engine, of which it learns only the URL.
func onEngines(t *testing.T, example string, use func(r *running)) {
	t.Parallel()
	path := program(t, example+"/server")
	for _, e := range []struct {
		name string
		url  func(t *testing.T) string
	}{
		{"embedded", func(t *testing.T) string { return "embedded:" + t.TempDir() + "/data" }},
		{"postgres", func(t *testing.T) string { return pgserver.Shared(t).Database(t) }},
		{"keys", func(t *testing.T) string { return pgserver.Shared(t).Database(t) + "&records=keys" }},
		{"redis", func(t *testing.T) string {
			return fmt.Sprintf("%s?prefix=e%d:", redisserver.Shared(t).URL(), prefixes.Add(1))
		}},
	} {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			r := &running{t: t, path: path, url: e.url(t)}
			r.start()
			use(r)
		})
	}
}

// TestBankOnEngines: money is neither made nor lost by concurrent transfers, as every audit sees, and what was answered
// is there after the server was killed.
func TestBankOnEngines(t *testing.T) {
	onEngines(t, "bank", func(r *running) {
		const accounts, cents, clients, each = 4, 1_000, 8, 15
		for i := range accounts {
			r.call(nil, "open", fmt.Sprintf(`{"account":"a%d","cents":%d}`, i, cents))
		}
		wrong := make(chan string, clients)
		for c := range clients {
			go func() {
				said := ""
				for i := range each {
					in := fmt.Sprintf(`{"from":"a%d","to":"a%d","cents":%d}`, (c+i)%accounts, (c+2*i+1+i%2)%accounts, 200+i)
					status, text := r.ask("/api/call/transfer", in)
					if status != http.StatusOK && !strings.Contains(text, "insufficient_funds") && !strings.Contains(text, "two different accounts") {
						said += fmt.Sprintf("transfer %s: %d %s\n", in, status, text)
					}
					status, text = r.ask("/api/call/audit", "{}")
					if status != http.StatusOK || !strings.Contains(text, fmt.Sprintf(`"accounts":%d,"sum":%d,"least":`, accounts, accounts*cents)) || strings.Contains(text, `"least":-`) {
						said += fmt.Sprintf("audit: %d %s\n", status, text)
					}
				}
				wrong <- said
			}()
		}
		for range clients {
			if said := <-wrong; said != "" {
				r.t.Error(said)
			}
		}
		var before, after []json.RawMessage
		read := func() (all []json.RawMessage) {
			for i := range accounts {
				var list json.RawMessage
				r.call(&list, "statement", fmt.Sprintf(`{"account":"a%d","limit":1000}`, i))
				all = append(all, list)
			}
			return all
		}
		order := func() (int, string) {
			return r.ask("/api/call/transfer", `{"from":"a0","to":"a1","cents":1}`, "Idempotency-Key", `"order-1"`)
		}
		r.call(nil, "deposit", `{"account":"a0","cents":1}`)
		_, first := order()
		before = read()
		r.again(syscall.SIGKILL)
		if status, again := order(); status != http.StatusOK || again != first {
			r.t.Errorf("the same transfer again: %d %s; want %s", status, again, first)
		}
		after = read()
		for i := range before {
			if !bytes.Equal(before[i], after[i]) {
				r.t.Errorf("account %d before the server was killed:\n%s\nand after:\n%s", i, before[i], after[i])
			}
		}
	})
}

// TestVoterOnEngines: a phone has so many votes, however many come at once, and all counts agree.
func TestVoterOnEngines(t *testing.T) {
	onEngines(t, "voter", func(r *running) {
		const phones, callers, limit = 3, 6, 4
		r.call(nil, "initialize", `{"contestants":3}`)
		codes := make(chan string, phones*callers)
		for i := range phones * callers {
			go func() {
				status, text := r.ask("/api/call/vote", fmt.Sprintf(`{"phone":212555012%d,"contestant":%d,"max_votes":%d}`, i%phones, 1+i%2, limit))
				if status != http.StatusOK && strings.Contains(text, `"too_many_votes"`) {
					text = "too many"
				} else if status == http.StatusOK {
					text = "counted"
				}
				codes <- text
			}()
		}
		got := map[string]int{}
		for range phones * callers {
			got[<-codes]++
		}
		if got["counted"] != phones*limit || got["too many"] != phones*(callers-limit) {
			r.t.Errorf("%d phones with %d votes each, %d times: %v", phones, limit, callers, got)
		}
		right := func() {
			r.t.Helper()
			var totals struct {
				Phones       int `json:"phones"`
				ByPhone      int `json:"by_phone"`
				ByContestant int `json:"by_contestant"`
				ByState      int `json:"by_state"`
			}
			r.call(&totals, "check", "{}")
			if totals.Phones != phones || totals.ByPhone != phones*limit || totals.ByContestant != phones*limit || totals.ByState != phones*limit {
				r.t.Errorf("the counts are %+v, want %d votes of %d phones", totals, phones*limit, phones)
			}
		}
		right()
		r.again(syscall.SIGTERM)
		right()
		r.want(http.StatusUnprocessableEntity, nil, "/api/call/vote", fmt.Sprintf(`{"phone":2125550120,"contestant":1,"max_votes":%d}`, limit))
	})
}

// TestTodoOnEngines: a user registers, changes a list, and takes a change back; an open page hears of each change, and
// login and list outlive the server.
func TestTodoOnEngines(t *testing.T) {
	onEngines(t, "todo", func(r *running) {
		v := newVisitor(r.t)
		home := func() string {
			r.t.Helper()
			status, page := v.do(strings.TrimPrefix(r.HTTP, "http://"), "/", nil)
			if status != http.StatusOK {
				r.t.Fatalf("the list: status %d\n%s", status, page)
			}
			return page
		}
		send := func(path string, fields url.Values) {
			r.t.Helper()
			if status, text := v.do(strings.TrimPrefix(r.HTTP, "http://"), path, fields); status != http.StatusSeeOther {
				r.t.Fatalf("%s %v: status %d\n%s", path, fields, status, text)
			}
		}
		shows := func(has, lacks string) {
			r.t.Helper()
			page := home()
			if !strings.Contains(page, has) || strings.Contains(page, lacks) {
				r.t.Fatalf("the list must have %s and lack %s:\n%s", has, lacks, page)
			}
		}
		send("/register", url.Values{"email": {"anna@example.org"}, "password": {"correct horse"}})
		_, rest, _ := strings.Cut(home(), `data-position="`)
		position, _, _ := strings.Cut(rest, `"`)
		heard := r.listen("/events?after="+position, v)
		send("/add", url.Values{"text": {"buy milk"}})
		heard("event: changed")
		send("/add", url.Values{"text": {"sleep"}})
		heard("event: changed")
		send("/done", url.Values{"id": {"1"}})
		heard("event: changed")
		shows(`<li class="done" id="item-1">`, `<li class="done" id="item-2">`)
		send("/undo", url.Values{})
		heard("event: changed")
		shows(`<li id="item-1">`, `class="done"`)
		r.again(syscall.SIGKILL)
		shows("<span>sleep</span>", `class="done"`)
		send("/remove", url.Values{"id": {"2"}})
		shows("<span>buy milk</span>", "<span>sleep</span>")
	})
}

// listen opens a stream of events as a visitor; the returned function waits for the next line that is the given one.
func (r *running) listen(path string, v *visitor) func(line string) {
	r.t.Helper()
	q, err := http.NewRequestWithContext(r.t.Context(), http.MethodGet, r.HTTP+path, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	for name, value := range v.cookies {
		q.AddCookie(&http.Cookie{Name: name, Value: value})
	}
	client := http.Client{Timeout: startWait} // also for what is read
	resp, err := client.Do(q)
	if err != nil || resp.StatusCode != http.StatusOK {
		r.t.Fatalf("%s: %v, %+v", path, err, resp)
	}
	r.t.Cleanup(func() { resp.Body.Close() })
	lines := bufio.NewScanner(resp.Body)
	return func(line string) {
		r.t.Helper()
		for lines.Scan() {
			if lines.Text() == line {
				return
			}
		}
		r.t.Fatalf("%s: no %s: %v", path, line, lines.Err())
	}
}

// TestBlogOnEngines: an author writes and changes a post, others find it and comment, its history has every change, and
// all of that outlives the server.
func TestBlogOnEngines(t *testing.T) {
	onEngines(t, "blog", func(r *running) {
		cmd := exec.CommandContext(r.t.Context(), r.path, "users", "create", "anna@example.org", "--url", r.Admin, "--name", "Anna", "--new-password-file", "-")
		cmd.Stdin = strings.NewReader("correct horse\n")
		if out, err := cmd.CombinedOutput(); err != nil {
			r.t.Fatalf("create a user: %v\n%s", err, out)
		}
		var login struct {
			Token string `json:"access_token"`
		}
		r.want(http.StatusOK, &login, "/api/auth/login", `{"email":"anna@example.org","password":"correct horse","device":"phone"}`)
		as := []string{"Authorization", "Bearer " + login.Token}
		post := func(title, state string) string {
			r.t.Helper()
			var made struct{ ID string }
			r.want(http.StatusCreated, &made, "/api/posts", fmt.Sprintf(`{"data":{"title":%q,"body":"Text","tags":["sea"],"by":"Anna","state":%q,"published":"2026-01-02"}}`, title, state), as...)
			return made.ID
		}
		id := post("Tides", "public")
		post("Secret", "draft")
		r.want(http.StatusForbidden, nil, "/api/posts", `{"data":{"title":"Spam","body":"x","author":"anna","by":"Anna","state":"public"}}`)
		r.want(http.StatusOK, nil, "/api/tx", fmt.Sprintf(`{"ops":[{"op":"update","collection":"posts","id":%q,"data":{"title":"Islands"}},{"op":"create","collection":"comments","data":{"post":%q,"text":"I like rocks.","by":"Anna"}}]}`, id, id), as...)
		shown := func() {
			r.t.Helper()
			list := func(path string) string {
				r.t.Helper()
				var page json.RawMessage
				r.want(http.StatusOK, &page, path, "", as...)
				return string(page)
			}
			for path, want := range map[string][2]string{ // has, lacks
				"/api/posts?filter=tags%3F%3D%22sea%22%26%26state%3D%22public%22&sort=-published": {`"Islands"`, `"Secret"`},
				"/api/posts?sort=-created&count=true":                                             {`"Secret"`, `"Tides"`},
				"/api/comments?expand=post":                                                       {`"Islands"`, `"Tides"`},
				"/api/posts/" + id + "/history":                                                   {`"Tides"`, `"Secret"`},
			} {
				if text := list(path); !strings.Contains(text, want[0]) || strings.Contains(text, want[1]) {
					r.t.Errorf("%s must have %s and lack %s:\n%s", path, want[0], want[1], text)
				}
			}
			if _, page := r.ask("/posts/"+id, "", "Accept", "text/html"); !strings.Contains(page, "I like rocks.") || !strings.Contains(page, "Islands") {
				r.t.Errorf("the page of the post:\n%s", page)
			}
		}
		shown()
		r.again(syscall.SIGKILL)
		shown()
	})
}

// TestFraudOnEngines: the rings of a sample and one of new transfers are found, and are there after the server was killed.
func TestFraudOnEngines(t *testing.T) {
	onEngines(t, "fraud", func(r *running) {
		shows := func(text string) {
			r.t.Helper()
			if status, page := r.ask("/", "", "Accept", "text/html"); status != http.StatusOK || !strings.Contains(page, text) {
				r.t.Errorf("the page must have %q: %d\n%s", text, status, page)
			}
		}
		r.call(nil, "sample", `{"seed":1}`)
		shows("3 rings among 87 accounts and 600 transfers.")
		for _, way := range [][2]string{{"C-1", "C-2"}, {"C-2", "C-3"}, {"C-3", "C-1"}} {
			r.call(nil, "transfer", fmt.Sprintf(`{"from":%q,"to":%q,"cents":250000}`, way[0], way[1]))
		}
		r.want(http.StatusUnprocessableEntity, nil, "/api/call/transfer", `{"from":"C-1","to":"nobody","cents":250000}`)
		r.again(syscall.SIGKILL)
		shows("4 rings among 87 accounts and 603 transfers.")
	})
}

// TestEnginesRefused: on a Redis Cluster, whose transactions are over the keys of one slot, the examples do not start,
// and name the promise that is missing.
func TestEnginesRefused(t *testing.T) {
	t.Parallel()
	at := "redis+cluster://" + redisserver.Cluster(t, 1)[0].Addr()
	for example, capability := range map[string]string{"bank": "proc", "voter": "proc", "todo": "proc", "blog": "records", "fraud": "proc"} {
		cmd := exec.CommandContext(t.Context(), program(t, example+"/server"), "serve", "--engine", at, "--http", "127.0.0.1:0", "--resp", "off", "--admin", "off")
		out, err := cmd.CombinedOutput()
		if want := capability + " needs transactions over all keys, which this engine does not promise [unsupported]"; err == nil || !strings.Contains(string(out), want) {
			t.Errorf("%s: %v\n%s\nwant %s", example, err, out, want)
		}
	}
}

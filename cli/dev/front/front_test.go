package front_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skerrydb/skerry/cli/dev/front"
)

// patience is how long a test waits for what must happen.
const patience = 20 * time.Second

// serve returns a front and where it listens.
func serve(t *testing.T, o front.Options) (*front.Front, string) {
	t.Helper()
	f := front.New(o)
	s := httptest.NewServer(f)
	t.Cleanup(s.Close)
	return f, s.URL
}

// program is something behind a front.
func program(t *testing.T, h http.HandlerFunc) *url.URL {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return parse(t, s.URL)
}

func parse(t *testing.T, s string) *url.URL {
	t.Helper()
	u, err := url.Parse(s)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// answer is the response to a request.
type answer struct {
	status int
	body   string
	header http.Header
	err    error
}

func ask(method, at, accept, body string) answer {
	req, err := http.NewRequest(method, at, strings.NewReader(body))
	if err != nil {
		return answer{err: err}
	}
	req.Header.Set("Accept", accept)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return answer{err: err}
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, string(text), resp.Header, err}
}

// later is ask in the background.
func later(method, at, accept, body string) <-chan answer {
	c := make(chan answer, 1)
	go func() { c <- ask(method, at, accept, body) }()
	return c
}

// inside is later for a front in a bubble of synctest, where a request needs no connection.
func inside(f *front.Front, method, path, body string) <-chan answer {
	c := make(chan answer, 1)
	go func() {
		w := httptest.NewRecorder()
		f.ServeHTTP(w, httptest.NewRequest(method, "http://localhost"+path, strings.NewReader(body)))
		c <- answer{w.Code, w.Body.String(), w.Header(), nil}
	}()
	return c
}

// waits fails the test if a request gets a response although nothing happens.
func waits(t *testing.T, c <-chan answer) {
	t.Helper()
	synctest.Wait()
	select {
	case a := <-c:
		t.Fatalf("answered too early: %+v", a)
	default:
	}
}

func await[T any](t *testing.T, what string, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		t.Fatalf("waited in vain for %s", what)
		panic("unreachable")
	}
}

func echo(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	fmt.Fprintf(w, "%s %s %s %q for %s", r.Method, r.Host, r.URL, body, r.Header.Get("X-Forwarded-For"))
}

// TestWaits: requests wait while the program is away, even if it went away unnoticed, and lose nothing.
func TestWaits(t *testing.T) {
	t.Parallel()
	there := program(t, echo)
	synctest.Test(t, func(t *testing.T) {
		f := front.New(front.Options{})
		const want = `POST localhost /a?b=c "body" for 192.0.2.1`
		first := inside(f, "POST", "/a?b=c", "body")
		waits(t, first)
		f.Open(there)
		if a := <-first; a.body != want {
			t.Errorf("got %+v, want %s", a, want)
		}
		f.Open(parse(t, "http://127.0.0.1:1")) // nobody is there
		second := inside(f, "POST", "/a?b=c", "body")
		waits(t, second)
		f.Open(there)
		if a := <-second; a.body != want {
			t.Errorf("got %+v, want %s", a, want)
		}
	})
}

func TestWaitEnds(t *testing.T) {
	t.Parallel()
	_, at := serve(t, front.Options{Wait: 30 * time.Millisecond})
	if a := ask("GET", at, "", ""); a.status != http.StatusServiceUnavailable || !strings.Contains(a.body, "no response within 30ms") {
		t.Errorf("got %+v", a)
	}
}

// TestBuilding: a request that times out waiting for the first build gets a page that reports the build and
// reloads itself.
func TestBuilding(t *testing.T) {
	t.Parallel()
	f, at := serve(t, front.Options{Wait: 30 * time.Millisecond})
	built := regexp.MustCompile(`shop is still being built after (2[3-9]|[3-5]\d)s`)
	f.Building("shop", time.Now().Add(-23*time.Second))
	if a := ask("GET", at, "text/html", ""); a.status != http.StatusServiceUnavailable || !built.MatchString(a.body) || !strings.Contains(a.body, front.SeenPath) || strings.Contains(a.body, "<pre>") {
		t.Errorf("a page: %+v", a)
	}
	if a := ask("GET", at, "", ""); !built.MatchString(a.body) {
		t.Errorf("no page: %+v", a)
	}
	f.Building("", time.Time{})
	if a := ask("GET", at, "", ""); !strings.Contains(a.body, "The program does not respond") {
		t.Errorf("after it: %+v", a)
	}
}

// TestFailures: a failure of the build is shown instead of pages, and a crash
// instead of everything, each until it is over.
func TestFailures(t *testing.T) {
	t.Parallel()
	f, at := serve(t, front.Options{})
	f.Open(program(t, echo))
	f.Broken(&front.Failure{Title: "no <build>", Text: "main.go:1: <x>", Note: "old & running"})
	a := ask("GET", at, "text/html", "")
	if a.status != http.StatusServiceUnavailable || !strings.Contains(a.body, "main.go:1: &lt;x&gt;") || !strings.Contains(a.body, "old &amp; running") || strings.Contains(a.body, "<build>") {
		t.Errorf("the page: %+v", a)
	}
	if csp := a.header.Get("Content-Security-Policy"); !strings.Contains(csp, "default-src 'none'") || strings.Contains(csp, "unsafe") {
		t.Errorf("its policy: %s", csp)
	}
	for _, r := range [][2]string{{"GET", "*/*"}, {"POST", "text/html"}} {
		if a := ask(r[0], at, r[1], ""); a.status != http.StatusOK {
			t.Errorf("%v does not come through: %+v", r, a)
		}
	}
	if a := ask("GET", at+front.ReloadPath, "text/event-stream", ""); !strings.HasPrefix(a.body, "event: state\ndata: failure-") {
		t.Errorf("open pages are not reloaded: %+v", a)
	}
	f.Crashed(front.Failure{Title: "it fell", Text: "panic: here"})
	if a := ask("GET", at, "*/*", ""); a.status != http.StatusServiceUnavailable || a.body != "no <build>\nmain.go:1: <x>\nold & running\n" {
		t.Errorf("as text: %+v", a)
	}
	f.Broken(nil)
	if a := ask("POST", at, "text/html", "x"); a.body != "it fell\npanic: here\n" {
		t.Errorf("a crash: %+v", a)
	}
	f.Open(program(t, echo))
	if a := ask("GET", at, "text/html", ""); a.status != http.StatusOK {
		t.Errorf("after all is well: %+v", a)
	}
}

// TestSeen: a page that asks is answered when something changes.
func TestSeen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := front.New(front.Options{})
		now := <-inside(f, "GET", front.SeenPath, "")
		if _, err := strconv.Atoi(now.body); err != nil || now.status != http.StatusOK {
			t.Fatalf("got %+v", now)
		}
		next := inside(f, "GET", front.SeenPath+"?seen="+now.body, "")
		waits(t, next)
		f.Broken(&front.Failure{Title: "x"})
		if a := <-next; a.body == now.body {
			t.Errorf("got %+v again", a)
		}
	})
}

func TestLongFailure(t *testing.T) {
	t.Parallel()
	f, at := serve(t, front.Options{})
	f.Crashed(front.Failure{Title: "x", Text: strings.Repeat("ä", front.MaxFailureBytes)})
	if a := ask("GET", at, "", ""); len(a.body) > front.MaxFailureBytes+100 || !strings.HasSuffix(a.body, "the rest is in the terminal\n") {
		t.Errorf("%d bytes: …%s", len(a.body), a.body[max(0, len(a.body)-60):])
	}
}

// TestHold: requests in flight may end, and streams are cut at once.
func TestHold(t *testing.T) {
	t.Parallel()
	f, at := serve(t, front.Options{Cut: time.Hour})
	begun, goOn := make(chan string, 2), make(chan struct{})
	f.Open(program(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/stream" {
			w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
			fmt.Fprint(w, "data: 1\n\n")
			http.NewResponseController(w).Flush()
		}
		begun <- r.URL.Path
		if r.URL.Path == "/short" {
			<-goOn
			fmt.Fprint(w, "done")
			return
		}
		<-r.Context().Done()
	}))
	resp, err := http.Get(at + "/stream")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	lines := bufio.NewReader(resp.Body)
	if line, err := lines.ReadString('\n'); line != "data: 1\n" {
		t.Fatalf("the stream: %q, %v", line, err)
	}
	short := later("GET", at+"/short", "", "")
	for range 2 {
		await(t, "both to begin", begun)
	}
	f.Hold()
	close(goOn)
	if a := await(t, "the short one", short); a.body != "done" {
		t.Errorf("the short one: %+v", a)
	}
	if _, err := io.ReadAll(lines); err == nil {
		t.Error("the stream ended as if it were whole")
	}
}

// TestHoldCuts: requests that take too long are cut, too.
func TestHoldCuts(t *testing.T) {
	t.Parallel()
	f, at := serve(t, front.Options{Cut: 10 * time.Millisecond})
	begun := make(chan string, 1)
	f.Open(program(t, func(_ http.ResponseWriter, r *http.Request) {
		begun <- r.URL.Path
		<-r.Context().Done()
	}))
	long := later("GET", at+"/long", "", "")
	await(t, "it to begin", begun)
	f.Hold()
	if a := await(t, "the long one", long); a.status != http.StatusServiceUnavailable || !strings.Contains(a.body, "may have been carried out") {
		t.Errorf("the long one: %+v", a)
	}
}

// TestHoldSparesWaiting: Hold does not cut a request that no program has yet.
func TestHoldSparesWaiting(t *testing.T) {
	t.Parallel()
	there := program(t, echo)
	synctest.Test(t, func(t *testing.T) {
		f := front.New(front.Options{Cut: time.Millisecond})
		a := inside(f, "GET", "/", "")
		waits(t, a)
		f.Hold()
		f.Hold()
		time.Sleep(time.Second)
		waits(t, a)
		f.Open(there)
		if a := <-a; a.status != http.StatusOK {
			t.Errorf("got %+v", a)
		}
	})
}

// TestMaxWaiting: one more than may wait is refused at once.
func TestMaxWaiting(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := front.New(front.Options{})
		answers := make(chan answer, front.MaxWaiting+1)
		for range front.MaxWaiting + 1 {
			go func() { answers <- <-inside(f, "GET", "/", "") }()
		}
		synctest.Wait()
		if n := len(answers); n != 1 {
			t.Fatalf("%d were answered, want 1", n)
		}
		if a := <-answers; a.status != http.StatusServiceUnavailable {
			t.Errorf("got %+v", a)
		}
		time.Sleep(front.DefaultWait)
		synctest.Wait()
		if n := len(answers); n != front.MaxWaiting {
			t.Errorf("%d were answered after %v, want %d", n, front.DefaultWait, front.MaxWaiting)
		}
	})
}

// TestStrangersHost: a page that has a name of its own lead here does not read what the
// compiler or the program says.
func TestStrangersHost(t *testing.T) {
	t.Parallel()
	f := front.New(front.Options{Wait: 10 * time.Millisecond})
	f.Open(program(t, echo))
	f.Broken(&front.Failure{Title: "no build", Text: "secret.go:1"})
	read := func(host, path string) string {
		w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, path, nil)
		r.Host = host
		r.Header.Set("Accept", "text/html")
		f.ServeHTTP(w, r)
		return w.Body.String()
	}
	if got := read("localhost:7001", "/"); !strings.Contains(got, "secret.go") {
		t.Errorf("a developer reads %q", got)
	}
	if got := read("evil.test", "/"); !strings.Contains(got, "GET evil.test /") {
		t.Errorf("a stranger reads %q, want the program's answer", got)
	}
	f.Crashed(front.Failure{Title: "it fell", Text: "secret.go:2"})
	if got := read("evil.test", "/"); strings.Contains(got, "secret.go") {
		t.Errorf("a stranger reads %q", got)
	}
}

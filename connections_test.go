package skerry_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/skerrydb/skerry"
	"github.com/skerrydb/skerry/engine"
)

// TestConnectionsFor: however many files a process may open, the listeners together leave the reserved ones,
// each has room, and too few files are an error.
func TestConnectionsFor(t *testing.T) {
	for _, cluster := range []bool{false, true} {
		for files := skerry.MinFiles; files < 1<<21; files += files/3 + 1 {
			c, err := skerry.ConnectionsFor(files, cluster)
			if err != nil {
				t.Fatal(err)
			}
			if sum := c.HTTP + c.RESP + c.Admin + c.Plain + c.Nodes + c.NodeGuests + c.Upstreams; sum > files-skerry.ReservedFiles {
				t.Errorf("%d files, cluster %t: %d connections", files, cluster, sum)
			}
			if min(c.HTTP, c.RESP, c.Admin, c.Plain) < 3 || cluster && min(c.Nodes, c.NodeGuests, c.Upstreams) < 3 {
				t.Errorf("%d files, cluster %t: %+v", files, cluster, c)
			}
		}
		if _, err := skerry.ConnectionsFor(skerry.MinFiles-1, cluster); engine.CodeOf(err) != engine.CodeLimit {
			t.Errorf("too few files: %v", err)
		}
	}
	if _, err := skerry.Open(openEngine(t), skerry.Options{HTTP: "127.0.0.1:0", RESP: skerry.Off, Connections: skerry.Connections{HTTP: -1}}); engine.CodeOf(err) != engine.CodeInvalid {
		t.Errorf("a negative number: %v", err)
	}
}

// say opens a connection to HTTP that begins with text.
func say(t *testing.T, s *skerry.Server, text string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(s.HTTPURL(), "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(20 * time.Second))
	io.WriteString(c, text)
	return c
}

// answer returns the status and body of the next response.
func answer(c net.Conn) string {
	a, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return err.Error()
	}
	defer a.Body.Close()
	body, _ := io.ReadAll(a.Body)
	return fmt.Sprint(a.StatusCode, " ", string(body))
}

// TestFullListener: connections without a request under way are closed to make room. If all have one, a
// further connection gets an error, even if it has sent its request.
func TestFullListener(t *testing.T) {
	t.Parallel()
	entered, leave := make(chan bool, 10), make(chan bool)
	s, err := skerry.Open(openEngine(t), skerry.Options{HTTP: "127.0.0.1:0", RESP: skerry.Off, Admin: "127.0.0.1:0", Connections: skerry.Connections{HTTP: 3}, Web: skerry.Web{
		Application: func(*skerry.Services) (http.Handler, error) {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/slow" {
					entered <- true
					<-leave
				}
				fmt.Fprint(w, "ok")
			}), nil
		},
	}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	defer func() { cancel(); <-ended }()
	var held []net.Conn
	send := func(text string) net.Conn {
		held = append(held, say(t, s, text))
		return held[len(held)-1]
	}
	const get = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
	for _, text := range []string{"", "GET / HT", get} { // silent, too slow, and kept alive
		for range 6 {
			send(text)
		}
		if got := answer(send(get)); got != "200 ok" {
			t.Errorf("behind connections that say %q: %s", text, got)
		}
	}
	for range 3 {
		send("GET /slow HTTP/1.1\r\nHost: localhost\r\n\r\n")
		<-entered
	}
	if got := answer(send(get)); !strings.HasPrefix(got, "503 ") || !strings.Contains(got, `"code":"queue_full"`) {
		t.Errorf("one too many: %s", got)
	}
	metrics, err := http.Get(s.AdminURL() + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(metrics.Body)
	metrics.Body.Close()
	for _, want := range []string{`skerry_http_active_connections{listener="http"} 3`, `skerry_http_refused_connections_total{listener="http"} 1`, `skerry_http_max_connections{listener="http"} 3`, "skerry_wrong_passwords_total 0"} {
		if err != nil || !strings.Contains(string(body), want) {
			t.Errorf("/metrics does not have %s, %v", want, err)
		}
	}
	close(leave)
	for _, c := range held[len(held)-4 : len(held)-1] {
		if got := answer(c); got != "200 ok" {
			t.Errorf("a slow request: %s", got)
		}
	}
}

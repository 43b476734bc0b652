package lane_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestClientGoneLate: a client that goes away is noticed after the read deadline of its request, and although the request
// fills the lane's buffer.
func TestClientGoneLate(t *testing.T) {
	t.Parallel()
	head := func(length int) string {
		return fmt.Sprintf("PUT /k/a HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n", length)
	}
	const buffer = 2048
	full := buffer - len(head(2000))
	for name, sent := range map[string]string{
		"a short request": "GET /k/a HTTP/1.1\r\nHost: h\r\n\r\n",
		"a full buffer":   head(full) + strings.Repeat("x", full),
		"a long body":     head(20_000) + strings.Repeat("x", 20_000),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			running, gone := make(chan struct{}), make(chan error, 1)
			const limit = 200 * time.Millisecond
			_, addr := serve(t, &http.Server{ReadHeaderTimeout: limit, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				done := r.Context().Done()
				close(running)
				select {
				case <-done:
					gone <- nil
				case <-time.After(time.Minute):
					gone <- fmt.Errorf("nobody noticed that the client is gone")
				}
			})})
			c, err := net.Dial("tcp", addr)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			fmt.Fprint(c, sent)
			<-running
			time.Sleep(2 * limit) // the deadline is over; more changes nothing
			c.Close()
			if err := <-gone; err != nil {
				t.Error(err)
			}
		})
	}
}

// TestBreaksOff: a response that breaks off takes no earlier one with it.
func TestBreaksOff(t *testing.T) {
	t.Parallel()
	_, addr := serve(t, &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "of ", r.URL.Path)
		if strings.HasPrefix(r.URL.Path, "/k/long") {
			fmt.Fprint(w, strings.Repeat("x", 200_000))
		}
		if strings.HasSuffix(r.URL.Path, "off") {
			panic(http.ErrAbortHandler)
		}
	})})
	for _, last := range []string{"/k/off", "/k/long-off", "/f/off"} {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		for _, path := range []string{"/k/a", "/f/b", last} {
			fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: h\r\n\r\n", path)
		}
		r := bufio.NewReader(c)
		for _, path := range []string{"/k/a", "/f/b"} {
			res, err := http.ReadResponse(r, nil)
			if err != nil {
				t.Fatalf("before %s: %v", last, err)
			}
			if body, err := io.ReadAll(res.Body); err != nil || !strings.HasPrefix(string(body), "of "+path) {
				t.Errorf("before %s: %q, %v", last, body, err)
			}
		}
		if res, err := http.ReadResponse(r, nil); err == nil {
			if _, err := io.ReadAll(res.Body); err == nil {
				t.Errorf("%s: the response that breaks off is whole", last)
			}
		}
	}
}

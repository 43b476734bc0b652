package web_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skerrydb/skerry/web"
)

// slowEnv makes a second process of these tests act as the slow clients: one process may not be able to open
// both ends of so many connections.
const slowEnv = "SKERRY_SLOW_CLIENTS"

// perSlowClient bounds the memory of a slow connection, in bytes.
const perSlowClient = 48 << 10

// TestSlowClients: thousands of clients that send a byte a second, half of them in their headers and half in
// their bodies, delay nobody else, take a bounded amount of memory, and are all disconnected by the server's
// time limits.
func TestSlowClients(t *testing.T) {
	if at := os.Getenv(slowEnv); at != "" {
		beSlow(t, at)
		return
	}
	n := 10_000
	if testing.Short() || raceEnabled {
		n = 1000
	}
	app := newApp(t, web.Options{})
	app.Handle("POST /body", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err == nil {
			t.Error("a slow body has arrived")
		}
		w.WriteHeader(http.StatusRequestTimeout)
	}))
	srv := web.NewServer(app, slog.New(slog.DiscardHandler))
	if srv.ReadHeaderTimeout == 0 || srv.ReadTimeout == 0 || srv.WriteTimeout == 0 || srv.IdleTimeout == 0 {
		t.Errorf("a server without limits: %+v", srv)
	}
	srv.ReadHeaderTimeout, srv.ReadTimeout = 4*time.Second, 4*time.Second
	var c census
	srv.ConnState = c.count
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- srv.Serve(l) }()
	defer func() {
		srv.Close()
		<-done
	}()
	before, ended := memory(), make(chan error, 1)
	slow := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestSlowClients$", "-test.v", "-test.timeout=120s")
	slow.Env = append(os.Environ(), slowEnv+"="+l.Addr().String()+" "+strconv.Itoa(n))
	go func() {
		out, err := slow.CombinedOutput()
		if err != nil {
			err = fmt.Errorf("%w: %s", err, out)
		}
		ended <- err
	}()
	worst, grown, asked := time.Duration(0), int64(0), 0
	for running := true; running; asked++ {
		began := time.Now()
		if got := get(t, "http://"+l.Addr().String()+"/healthz"); got.status != 200 {
			t.Errorf("%+v", got)
		}
		worst = max(worst, time.Since(began))
		if c.open.Load() >= c.most.Load()*9/10 {
			grown = max(grown, memory()-before)
		}
		select {
		case err := <-ended:
			if running = false; err != nil {
				t.Fatal(err)
			}
		case <-time.After(20 * time.Millisecond):
		}
	}
	most := c.most.Load()
	t.Logf("%d clients, %d at once, %d kB each; %d other requests, the slowest took %v", n, most, grown/max(most, 1)>>10, asked, worst)
	if c.came.Load() < int64(n) || grown > most*perSlowClient+16<<20 || worst > 10*time.Second {
		t.Errorf("%d clients, %d bytes used, another request took %v", c.came.Load(), grown, worst)
	}
}

// census counts a server's connections.
type census struct{ came, open, most atomic.Int64 }

func (c *census) count(_ net.Conn, s http.ConnState) {
	switch s {
	case http.StateNew:
		c.came.Add(1)
		now := c.open.Add(1)
		for old := c.most.Load(); now > old && !c.most.CompareAndSwap(old, now); old = c.most.Load() {
		}
	case http.StateClosed:
		c.open.Add(-1)
	}
}

// memory returns the memory in use, as of the last collection.
func memory() int64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse + m.StackInuse)
}

// beSlow is the main function of the other process.
func beSlow(t *testing.T, at string) {
	addr, number, _ := strings.Cut(at, " ")
	n, err := strconv.Atoi(number)
	if err != nil {
		t.Fatal(err)
	}
	conns := make([]net.Conn, n)
	var wg sync.WaitGroup
	for w := range 64 {
		wg.Go(func() {
			for i := w; i < n; i += 64 {
				conn, err := net.DialTimeout("tcp", addr, time.Minute)
				if err != nil {
					panic(err)
				}
				conns[i] = conn
				head := "GET /healthz HTTP/1.1\r\nHost: x\r\nX-Slow: "
				if i%2 == 1 {
					head = "POST /body HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n"
				}
				_, _ = io.WriteString(conns[i], head)
			}
		})
	}
	wg.Wait()
	stop := make(chan struct{})
	go func() {
		for {
			for _, conn := range conns {
				_, _ = conn.Write([]byte("x")) // an error: it has been ended
			}
			select {
			case <-time.After(time.Second):
			case <-stop:
				return
			}
		}
	}()
	var cut atomic.Int64
	for i, conn := range conns {
		wg.Go(func() {
			defer conn.Close()
			_ = conn.SetReadDeadline(time.Now().Add(time.Minute))
			r := bufio.NewReaderSize(conn, 512)
			_, err := io.Copy(io.Discard, r)
			if ne, ok := errors.AsType[net.Error](err); ok && ne.Timeout() {
				t.Errorf("connection %d is not ended", i)
			}
			cut.Add(1)
		})
	}
	wg.Wait()
	close(stop)
	t.Logf("%d connections were ended", cut.Load())
}

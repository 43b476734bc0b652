package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/skerrydb/skerry/ci/npm"
)

// ioredisClient is ioredis in a process of node: testdata/ioredis/client.js. It is
// used by one goroutine.
type ioredisClient struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
	n   int
}

// ioredisAnswer is one line of client.js.
type ioredisAnswer struct {
	ID     int
	At     int // the connection
	Reply  any
	Error  string
	Server bool // the error is a reply
	Unsent bool
}

// newIORedis starts the client of one node; nil if it cannot be had here, which
// fails the test where SKERRY_REQUIRE_SERVERS=1.
func newIORedis(t *testing.T, addr string) *ioredisClient {
	t.Helper()
	modules, err := ioredisModules()
	if err != nil {
		if os.Getenv("SKERRY_REQUIRE_SERVERS") == "1" {
			t.Fatal(err)
		}
		t.Logf("without ioredis: %v", err)
		return nil
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	c := &ioredisClient{cmd: exec.Command("node", filepath.Join("testdata", "ioredis", "client.js"), host, port)}
	c.cmd.Env = append(os.Environ(), "NODE_PATH="+modules)
	c.cmd.Stderr = t.Output()
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if c.out = bufio.NewReader(out); c.cmd.Start() != nil {
		t.Fatal("node does not start")
	}
	return c
}

// ioredisModules installs the packages that the tests of resp have locked, once for all tests, and returns where modules
// are.
var ioredisModules = sync.OnceValues(func() (modules string, err error) {
	if _, err := exec.LookPath("node"); err != nil {
		return "", err
	}
	dir, err := npm.Install("ioredis-faults", filepath.Join("..", "resp", "testdata", "ioredis"))
	return filepath.Join(dir, "node_modules"), err
})

// ask sends one request and reads its reply; the client has its own timeout.
func (c *ioredisClient) ask(request map[string]any) (a ioredisAnswer, err error) {
	c.n++
	request["id"] = c.n
	line, err := json.Marshal(request)
	if err != nil {
		return a, err
	}
	if _, err := c.in.Write(append(line, '\n')); err != nil {
		return a, err
	}
	text, err := c.out.ReadString('\n')
	if err != nil {
		return a, err
	}
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&a); err != nil {
		return a, err
	}
	a.Reply = plain(a.Reply)
	switch {
	case a.ID != c.n:
		return a, fmt.Errorf("the answer is to request %d, not %d", a.ID, c.n)
	case a.Unsent:
		return a, errNotSent{errors.New(a.Error)}
	case a.Server:
		return a, serverError(a.Error)
	case a.Error != "":
		return a, errors.New(a.Error)
	}
	return a, nil
}

// plain makes the numbers of JSON what the other clients have.
func plain(v any) any {
	switch v := v.(type) {
	case json.Number:
		n, _ := v.Int64()
		return n
	case []any:
		for i := range v {
			v[i] = plain(v[i])
		}
	}
	return v
}

func (c *ioredisClient) do(_ context.Context, args ...string) (any, error) {
	a, err := c.ask(map[string]any{"args": args})
	return a.Reply, err
}

func (c *ioredisClient) transact(ctx context.Context, keys []string, plan func([]any) [][]string, sent func()) ([]any, error) {
	watch, err := c.ask(map[string]any{"args": append([]string{"WATCH"}, keys...)})
	if err != nil {
		return nil, errNotSent{err}
	}
	got, err := c.do(ctx, append([]string{"MGET"}, keys...)...)
	if err != nil {
		return nil, errNotSent{err}
	}
	cmds := plan(got.([]any))
	sent()
	a, err := c.ask(map[string]any{"watched": watch.At, "cmds": cmds})
	replies, _ := a.Reply.([]any)
	return replies, err
}

func (c *ioredisClient) close() {
	c.in.Close()
	c.cmd.Process.Kill()
	c.cmd.Wait()
}

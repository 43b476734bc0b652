// Package redisserver runs Redis servers for tests.
//
// It knows how redis-server is started and stopped. It must not know what tests store in it.
package redisserver

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/skerrydb/skerry/ci/daemon"
	"github.com/skerrydb/skerry/ci/eventually"
	"github.com/skerrydb/skerry/ci/ports"
)

// replyLimit bounds one command.
const replyLimit = 20 * time.Second

// slots is how many hash slots a cluster of Redis has.
const slots = 16384

// Server is one redis-server on a port of its own. Its methods fail the test that they are given.
type Server struct {
	*daemon.Daemon
	path string
	addr string
	args []string
}

// Start starts a server for one test. It is durable, with appendfsync always, unless args say otherwise; they are as on
// the command line, like "--maxmemory", "1mb". It skips the test if redis-server is not installed, or fails it if
// SKERRY_REQUIRE_SERVERS is set.
func Start(tb testing.TB, args ...string) *Server {
	tb.Helper()
	s := start(tb, args)
	s.EndWith(tb)
	return s
}

var shared struct {
	sync.Mutex
	*Server
}

// Shared returns the server of this test process, which starts with the first call and ends with the process. Tests
// must not stop it, and must keep to keys of their own.
func Shared(tb testing.TB) *Server {
	tb.Helper()
	shared.Lock()
	defer shared.Unlock()
	if shared.Server == nil {
		shared.Server = start(tb, nil)
	}
	return shared.Server
}

func start(tb testing.TB, args []string) *Server {
	tb.Helper()
	path, err := exec.LookPath("redis-server")
	if err != nil {
		daemon.Missing(tb, "redis-server", "redis-server")
	}
	s := &Server{path: path, addr: ports.Addr(tb), args: args}
	if s.Daemon, err = daemon.New("redis", syscall.SIGKILL); err != nil {
		tb.Fatal(err)
	}
	s.Restart(tb)
	return s
}

// InMemory starts a server without persistence for one test and returns its address.
func InMemory(tb testing.TB, args ...string) (addr string) {
	tb.Helper()
	return Start(tb, append([]string{"--appendonly", "no"}, args...)...).Addr()
}

// TLS returns the arguments that give a server a port for TLS too, and its address. write stores a certificate, which is
// its own CA, and its key in a folder.
func TLS(tb testing.TB, write func(tb testing.TB, dir string) (certFile, keyFile string)) (args []string, addr string) {
	tb.Helper()
	certFile, keyFile := write(tb, tb.TempDir())
	addr = ports.Addr(tb)
	_, port, _ := net.SplitHostPort(addr)
	return []string{
		"--tls-port", port, "--tls-cert-file", certFile, "--tls-key-file", keyFile, "--tls-ca-cert-file", certFile, "--tls-auth-clients", "no",
	}, addr
}

// Cluster starts a Redis Cluster of n servers without replicas.
func Cluster(tb testing.TB, n int, args ...string) []*Server {
	tb.Helper()
	return ClusterOf(tb, n, func(int) []string { return args })
}

// ClusterOf is Cluster with arguments that differ from server to server.
func ClusterOf(tb testing.TB, n int, args func(i int) []string) []*Server {
	tb.Helper()
	all := make([]*Server, n)
	var meet []string
	for i := range all {
		var bus string
		all[i], bus = node(tb, args(i))
		all[i].Do(tb, "CLUSTER", "ADDSLOTSRANGE", fmt.Sprint(slots*i/n), fmt.Sprint(slots*(i+1)/n-1))
		if i == 0 {
			host, port, _ := net.SplitHostPort(all[0].addr)
			meet = []string{"CLUSTER", "MEET", host, port, bus}
			continue
		}
		all[i].Do(tb, meet...)
	}
	for _, s := range all {
		eventually.True(tb, "the cluster is complete", func() bool {
			return strings.Contains(s.Do(tb, "CLUSTER", "INFO"), "cluster_state:ok") &&
				strings.Contains(s.Do(tb, "CLUSTER", "INFO"), fmt.Sprintf("cluster_known_nodes:%d", n))
		})
	}
	return all
}

func node(tb testing.TB, args []string) (s *Server, bus string) {
	tb.Helper()
	_, bus, _ = net.SplitHostPort(ports.Addr(tb))
	return Start(tb, append([]string{"--cluster-enabled", "yes", "--cluster-port", bus}, args...)...), bus
}

// Replica adds a replica of one of a cluster's servers, and waits until it could take over.
func Replica(tb testing.TB, all []*Server, of *Server, args ...string) *Server {
	tb.Helper()
	s, bus := node(tb, args)
	host, port, _ := net.SplitHostPort(s.addr)
	all[0].Do(tb, "CLUSTER", "MEET", host, port, bus)
	id := of.Do(tb, "CLUSTER", "MYID")
	eventually.True(tb, "the replica knows its primary", func() bool {
		reply, err := s.Try("CLUSTER", "REPLICATE", id)
		return err == nil && reply == "OK"
	})
	mine := s.Do(tb, "CLUSTER", "MYID")
	eventually.True(tb, "all know the replica, which knows them and has the data", func() bool {
		known := s.Do(tb, "CLUSTER", "NODES")
		for _, other := range all {
			if !strings.Contains(other.Do(tb, "CLUSTER", "NODES"), mine+" "+s.addr+"@"+bus+" slave "+id) ||
				!strings.Contains(known, other.Do(tb, "CLUSTER", "MYID")+" ") { // until it has met the other, a random id stands there
				return false
			}
		}
		return strings.Contains(s.Do(tb, "INFO", "replication"), "master_link_status:up")
	})
	return s
}

// Addr returns the server's HOST:PORT, which stays the same when it is restarted.
func (s *Server) Addr() string { return s.addr }

// URL returns the URL of database 0.
func (s *Server) URL() string { return "redis://" + s.addr }

// Restart starts the server after Kill or Stop with more arguments, and waits until it has loaded its data. It stops a
// server that runs.
func (s *Server) Restart(tb testing.TB, more ...string) {
	tb.Helper()
	s.Stop(tb)
	s.args = append(s.args, more...)
	host, port, _ := net.SplitHostPort(s.addr)
	args := append([]string{"--bind", host, "--port", port, "--dir", s.Dir, "--daemonize", "no", "--save", "", "--appendonly", "yes", "--appendfsync", "always", "--repl-diskless-sync-delay", "0"}, s.args...)
	s.Start(tb, exec.Command(s.path, args...), func() bool {
		reply, err := s.Try("PING")
		return err == nil && !strings.HasPrefix(reply, "-LOADING")
	})
}

// Stop stops the server cleanly.
func (s *Server) Stop(tb testing.TB) {
	tb.Helper()
	s.End(tb, syscall.SIGTERM)
}

// Kill ends the server at once.
func (s *Server) Kill(tb testing.TB) {
	tb.Helper()
	s.End(tb, syscall.SIGKILL)
}

// Do sends a command and returns its reply as one text: of a simple string, a number or a bulk string. An error fails
// the test.
func (s *Server) Do(tb testing.TB, args ...string) string {
	tb.Helper()
	reply, err := s.Try(args...)
	if err != nil || strings.HasPrefix(reply, "-") {
		tb.Fatalf("%q: %s, %v", args, reply, err)
	}
	return reply
}

// Try is Do for a command that may fail. An error of the server begins with "-".
func (s *Server) Try(args ...string) (string, error) {
	c, err := net.DialTimeout("tcp", s.addr, replyLimit)
	if err != nil {
		return "", err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(replyLimit)); err != nil {
		return "", err
	}
	text := fmt.Sprintf("*%d\r\n", len(args))
	for _, a := range args {
		text += fmt.Sprintf("$%d\r\n%s\r\n", len(a), a)
	}
	if _, err := c.Write([]byte(text)); err != nil {
		return "", err
	}
	r := bufio.NewReader(c)
	line, err := r.ReadString('\n')
	if err != nil {
		return "", err
	}
	line = strings.TrimRight(line, "\r\n")
	var n int
	switch line[0] {
	case '$':
		if _, err := fmt.Sscan(line[1:], &n); err != nil {
			return "", err
		}
		bulk := make([]byte, max(n, 0))
		_, err := io.ReadFull(r, bulk)
		return string(bulk), err
	case '-':
		return line, nil
	}
	return line[1:], nil
}

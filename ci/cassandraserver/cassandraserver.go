// Package cassandraserver runs Apache Cassandra for tests.
//
// It knows how nodes are configured, started and ended. It must not know what tests store in them.
package cassandraserver

import (
	"crypto/sha256"
	_ "embed"
	"fmt"
	"maps"
	"math"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/apache/cassandra-gocql-driver/v2"

	"github.com/skerrydb/skerry/ci/daemon"
	"github.com/skerrydb/skerry/ci/eventually"
	"github.com/skerrydb/skerry/ci/ports"
)

// startLimit is how long nodes have to start: 8 to 17 seconds, and far more on a machine that does other work.
const startLimit = 4 * time.Minute

// pom names the jars. ci/jars brings them.
//
//go:embed pom.xml
var pom []byte

// jvm are the options without which Cassandra does not run on Java 17.
//
//go:embed jvm.options
var jvm []byte

// Server is one node on addresses of its own. Its methods fail the test that they are given.
type Server struct {
	*daemon.Daemon
	java, jars string
	host, port string // of clients
	storage    string // the port of the other nodes
	seeds      string // all nodes: one that is none gives up if the others are slower
	token      int64
	rack       string
	settings   map[string]string
}

// Start starts one node for one test. It is durable, with commitlog_sync batch, unless settings, which are lines of
// cassandra.yaml, say otherwise. It skips the test if Java or the jars are missing, or fails it if
// SKERRY_REQUIRE_SERVERS is set.
func Start(tb testing.TB, settings ...string) *Server {
	tb.Helper()
	return Cluster(tb, 1, settings...)[0]
}

// shared is the server of Shared, with keyspaces that tests have left. Each costs the server memory, and each start of it
// begins with none.
var shared struct {
	sync.Mutex
	*Server
	c    *gocql.Session
	n    int      // keyspaces whose names were given
	left []string // those that are not in use
}

// Shared returns the node of this test process, which starts with the first call and ends with the process. Tests must
// not stop it, and must keep to keyspaces of their own.
func Shared(tb testing.TB) *Server {
	tb.Helper()
	shared.Lock()
	defer shared.Unlock()
	if shared.Server == nil {
		all := prepare(tb, 1, nil)
		await(tb, all)
		shared.Server = all[0]
		cfg := gocql.NewCluster(shared.Addr())
		cfg.Timeout, cfg.ConnectTimeout = startLimit, startLimit
		var err error
		if shared.c, err = cfg.CreateSession(); err != nil {
			tb.Fatal(err)
		}
	}
	return shared.Server
}

// Keyspace returns the name of a keyspace of the shared server, which does not exist or whose tables, but those of keep, are
// empty. done says that it is not used any more.
func Keyspace(tb testing.TB, keep ...string) (name string, done func()) {
	tb.Helper()
	Shared(tb)
	shared.Lock()
	defer shared.Unlock()
	if n := len(shared.left); n > 0 {
		name, shared.left = shared.left[n-1], shared.left[:n-1]
	} else {
		shared.n++
		name = fmt.Sprintf("test%d", shared.n)
	}
	return name, func() {
		if err := empty(name, keep); err != nil {
			tb.Errorf("empty the keyspace %s: %v", name, err)
			return
		}
		shared.Lock()
		defer shared.Unlock()
		shared.left = append(shared.left, name)
	}
}

// empty empties the tables of a keyspace but those of keep. To empty one takes longer than to see that it is.
func empty(keyspace string, keep []string) error {
	iter := shared.c.Query("SELECT table_name FROM system_schema.tables WHERE keyspace_name = ?", keyspace).Iter()
	var tables []string
	for table := ""; iter.Scan(&table); {
		tables = append(tables, table)
	}
	if err := iter.Close(); err != nil {
		return err
	}
	for _, table := range tables {
		if slices.Contains(keep, table) || shared.c.Query("SELECT * FROM "+keyspace+"."+table+" LIMIT 1").Iter().NumRows() == 0 {
			continue
		}
		if err := shared.c.Query("TRUNCATE " + keyspace + "." + table).Exec(); err != nil {
			return err
		}
	}
	return nil
}

// Cluster starts n nodes, at most 9, in datacenter dc1. Each has a rack and an address of its own, and all have the same port.
func Cluster(tb testing.TB, n int, settings ...string) []*Server {
	tb.Helper()
	all := prepare(tb, n, settings)
	for _, s := range all {
		s.EndWith(tb)
	}
	await(tb, all)
	return all
}

// prepare starts n nodes without waiting for them.
func prepare(tb testing.TB, n int, settings []string) []*Server {
	tb.Helper()
	java, err := exec.LookPath("java")
	if err != nil {
		daemon.Missing(tb, "java", "openjdk-17-jre-headless")
	}
	jars, err := jars()
	if err != nil {
		daemon.Missing(tb, fmt.Sprintf("Cassandra (%v; ci/jars cassandraserver cassandra fetches it)", err), "maven")
	}
	_, port, _ := net.SplitHostPort(ports.Addr(tb))
	_, storage, _ := net.SplitHostPort(ports.Addr(tb))
	all, hosts := make([]*Server, n), make([]string, n)
	for i := range hosts {
		hosts[i] = fmt.Sprintf("127.0.0.%d", i+1)
	}
	for i := range all {
		s := &Server{
			java: java, jars: jars, host: hosts[i], port: port, storage: storage, seeds: strings.Join(hosts, ","),
			token: math.MinInt64 + 1 + int64(i)*int64(math.MaxUint64/uint64(n)>>1)*2, rack: fmt.Sprintf("rack%d", i+1),
		}
		s.set(settings)
		if s.Daemon, err = daemon.NewIn(daemon.Memory(), "cassandra", syscall.SIGKILL); err != nil {
			tb.Fatal(err)
		}
		s.launch(tb)
		all[i] = s
	}
	return all
}

// jars returns the folder to which ci/jars brings the jars.
func jars() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "skerry", fmt.Sprintf("cassandra-%.6x", sha256.Sum256(pom)))
	_, err = os.Stat(dir)
	return dir, err
}

// await waits until all nodes serve and know each other.
func await(tb testing.TB, all []*Server) {
	tb.Helper()
	for _, s := range all {
		if !eventually.Within(startLimit, func() bool { return s.failed() || s.serves() && (len(all) == 1 || s.sees() == len(all)-1) }) {
			tb.Fatalf("the node %s does not serve after %v:\n%s", s.Addr(), startLimit, s.text())
		}
		if !s.serves() {
			tb.Fatalf("the node %s has not started:\n%s", s.Addr(), s.text())
		}
	}
}

// failed reports whether the node has given up. It says so in its log.
func (s *Server) failed() bool {
	return !s.serves() && (strings.Contains(s.text(), "encountered during startup") || strings.Contains(s.text(), "ConfigurationException"))
}

func (s *Server) text() string {
	log, _ := os.ReadFile(s.Log())
	return string(log)
}

func (s *Server) serves() bool {
	c, err := net.DialTimeout("tcp", s.Addr(), time.Second)
	if err != nil {
		return false
	}
	_ = c.Close() // nothing was sent
	return true
}

// sees returns how many other nodes this one tells clients about.
func (s *Server) sees() (n int) {
	cfg := gocql.NewCluster(s.Addr())
	cfg.Timeout, cfg.ConnectTimeout = startLimit, startLimit
	cfg.DisableInitialHostLookup = true
	cfg.Logger = gocql.NewLogger(gocql.LogLevelNone)
	c, err := cfg.CreateSession()
	if err != nil {
		return 0
	}
	defer c.Close()
	iter := c.Query("SELECT rpc_address, host_id, data_center, rack, tokens FROM system.peers").Iter()
	for row := map[string]any{}; iter.MapScan(row); clear(row) {
		if tokens, _ := row["tokens"].([]string); len(tokens) > 0 && row["data_center"] != "" && row["rack"] != "" {
			n++
		}
	}
	_ = iter.Close() // it is asked again
	return n
}

// Addr returns the node's HOST:PORT for clients, which stays the same when it is restarted.
func (s *Server) Addr() string { return net.JoinHostPort(s.host, s.port) }

// Host returns the node's address without the port, which is also its address for other nodes.
func (s *Server) Host() string { return s.host }

// URL returns the URL of a keyspace.
func (s *Server) URL(keyspace string) string { return "cassandra://" + s.Addr() + "/" + keyspace }

// Restart starts the node after Kill or Stop with more settings, and waits until it serves. It stops a node that runs.
func (s *Server) Restart(tb testing.TB, settings ...string) {
	tb.Helper()
	s.Stop(tb)
	if err := os.Remove(s.Log()); err != nil {
		tb.Fatal(err)
	}
	s.set(settings)
	s.launch(tb)
	await(tb, []*Server{s})
}

// Stop stops the node cleanly.
func (s *Server) Stop(tb testing.TB) {
	tb.Helper()
	s.End(tb, syscall.SIGTERM)
}

// Kill ends the node at once.
func (s *Server) Kill(tb testing.TB) {
	tb.Helper()
	s.End(tb, syscall.SIGKILL)
}

func (s *Server) set(lines []string) {
	if s.settings == nil {
		s.settings = map[string]string{}
	}
	for _, l := range lines {
		name, val, _ := strings.Cut(l, ":")
		s.settings[name] = val
	}
}

// launch writes the node's files and starts it.
func (s *Server) launch(tb testing.TB) {
	tb.Helper()
	conf := filepath.Join(s.Dir, "conf")
	if err := os.MkdirAll(conf, 0o755); err != nil {
		tb.Fatal(err)
	}
	for name, text := range map[string]string{
		"cassandra.yaml":              s.yaml(),
		"cassandra-rackdc.properties": "dc=dc1\nrack=" + s.rack + "\n",
		"logback.xml":                 logback,
		"jvm.options":                 string(jvm),
	} {
		if err := os.WriteFile(filepath.Join(conf, name), []byte(text), 0o644); err != nil {
			tb.Fatal(err)
		}
	}
	cmd := exec.Command(s.java, "@"+filepath.Join(conf, "jvm.options"),
		"-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xms512M", "-Xmx512M", "-Xss512k", "-XX:+ExitOnOutOfMemoryError",
		"-Dcassandra.config=file://"+filepath.Join(conf, "cassandra.yaml"), "-Dcassandra.storagedir="+s.Dir, "-Dcassandra.logdir="+s.Dir,
		"-Dcassandra-foreground=yes", "-Djava.io.tmpdir="+s.Dir,
		"-Dcassandra.ring_delay_ms=1000", "-Dcassandra.skip_wait_for_gossip_to_settle=0", "-Dcassandra.superuser_setup_delay_ms=0",
		"-Dio.netty.eventLoopThreads=2",
		"-cp", conf+":"+s.jars+"/*", "org.apache.cassandra.service.CassandraDaemon")
	cmd.Dir = s.Dir
	s.Start(tb, cmd, func() bool { return true })
}

// yaml returns the node's cassandra.yaml: little memory, and what makes tests fast.
func (s *Server) yaml() string {
	all := map[string]string{
		"cluster_name": "skerry-test", "num_tokens": "1", "initial_token": fmt.Sprintf("%q", fmt.Sprint(s.token)), "auto_bootstrap": "false",
		"partitioner": "org.apache.cassandra.dht.Murmur3Partitioner", "endpoint_snitch": "GossipingPropertyFileSnitch",
		"listen_address": s.host, "rpc_address": s.host, "storage_port": s.storage, "native_transport_port": s.port,
		"seed_provider":         "[ { class_name: org.apache.cassandra.locator.SimpleSeedProvider, parameters: [ { seeds: \"" + s.seeds + "\" } ] } ]",
		"data_file_directories": "[ " + filepath.Join(s.Dir, "data") + " ]",
		"commitlog_directory":   filepath.Join(s.Dir, "commitlog"), "hints_directory": filepath.Join(s.Dir, "hints"),
		"saved_caches_directory": filepath.Join(s.Dir, "saved_caches"), "cdc_raw_directory": filepath.Join(s.Dir, "cdc"),
		"commitlog_sync": "batch", "auto_snapshot": "false",
		"memtable_heap_space": "96MiB", "memtable_offheap_space": "96MiB", "file_cache_size": "64MiB",
		"concurrent_compactors": "1", "concurrent_reads": "8", "concurrent_writes": "8", "concurrent_counter_writes": "2",
		"concurrent_materialized_view_writes": "2", "native_transport_max_threads": "16",
	}
	maps.Copy(all, s.settings)
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(all)) {
		fmt.Fprintf(&b, "%s: %s\n", name, all[name])
	}
	return b.String()
}

const logback = `<configuration><appender name="O" class="ch.qos.logback.core.ConsoleAppender"><encoder>
<pattern>%-5level %date{ISO8601} %logger{0} - %msg%n</pattern>
</encoder></appender><root level="INFO"><appender-ref ref="O"/></root></configuration>
`

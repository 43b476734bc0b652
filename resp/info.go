package resp

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/skerrydb/skerry/kv"
)

// newRunID returns a random name for this run of the server.
func newRunID() string {
	var b [20]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// infoSection is one section of INFO. Its lines have no line ends.
type infoSection struct {
	name  string
	lines func(*call) ([]string, error)
	extra bool // not shown by default
}

func noLines(*call) ([]string, error) { return nil, nil }

func infoSections() []infoSection {
	return []infoSection{
		{"server", infoServer, false},
		{"clients", infoClients, false},
		{"memory", infoMemory, false},
		{"persistence", infoPersistence, false},
		{"stats", infoStats, false},
		{"replication", infoReplication, false},
		{"cpu", infoCPU, false},
		{"modules", noLines, false},
		{"commandstats", infoCommandStats, true},
		{"errorstats", infoErrorStats, false},
		{"latencystats", noLines, true},
		{"cluster", func(x *call) ([]string, error) {
			return []string{fmt.Sprintf("cluster_enabled:%d", number(x.srv.opts.Cluster != nil))}, nil
		}, false},
		{"engine", infoEngine, false},
		{"keyspace", infoKeyspace, false},
	}
}

func infoCmd(x *call) error {
	usual, all := len(x.args) == 1, false
	var names []string
	for _, a := range x.args[1:] {
		name := string(lower(a))
		usual = usual || name == "default"
		all = all || name == "all" || name == "everything"
		names = append(names, name)
	}
	var parts []string
	for _, s := range infoSections() {
		if !all && !(usual && !s.extra) && !slices.Contains(names, s.name) {
			continue
		}
		lines, err := s.lines(x)
		if err != nil {
			return err
		}
		title := strings.ToUpper(s.name[:1]) + s.name[1:]
		if s.name == "cpu" {
			title = "CPU"
		}
		parts = append(parts, "# "+title+"\r\n"+strings.Join(append(lines, ""), "\r\n"))
	}
	x.out.Verbatim("txt", strings.Join(parts, "\r\n"))
	return nil
}

// lines are the lines of a section.
type lines []string

func (l *lines) add(name string, value any) { *l = append(*l, fmt.Sprint(name, ":", value)) }

// bytes adds a number of bytes, also in human-readable form.
func (l *lines) bytes(name string, n int64) {
	l.add(name, n)
	l.add(name+"_human", human(n))
}

// none adds counters that are always zero here.
func (l *lines) none(names ...string) {
	for _, name := range names {
		l.add(name, 0)
	}
}

func infoServer(x *call) ([]string, error) {
	s := x.srv
	up := s.clock()
	mode := "standalone"
	if s.opts.Cluster != nil {
		mode = "cluster"
	}
	program, err := os.Executable()
	if err != nil {
		program = ""
	}
	_, port, tlsPort := s.bound()
	var l lines
	l.add("redis_version", Version)
	l.add("redis_mode", mode)
	l.add("server_name", "skerry")
	l.add("skerry_version", s.opts.Build)
	l.add("os", runtime.GOOS+" "+runtime.GOARCH)
	l.add("arch_bits", 32<<(^uint(0)>>63))
	l.add("go_version", runtime.Version())
	l.add("process_id", os.Getpid())
	l.add("run_id", s.runID)
	l.add("tcp_port", port+tlsPort)
	l.add("server_time_usec", time.Now().UnixMicro())
	l.add("uptime_in_seconds", int(up.Seconds()))
	l.add("uptime_in_days", int(up.Hours()/24))
	l.add("executable", program)
	l.add("config_file", "")
	l.add("io_threads_active", 0)
	return l, nil
}

func infoClients(x *call) ([]string, error) {
	s := x.srv
	blocked, timed, tracking, pubsub := 0, 0, 0, 0
	var in, out int64
	list := s.clients()
	for _, c := range list {
		c.mu.Lock()
		blocked += int(number(c.blocked || c.paused))
		timed += int(number(c.timed))
		tracking += int(number(c.shown.tracking))
		pubsub += c.shown.subs
		c.mu.Unlock()
		in, out = max(in, c.qbuf.Load()+c.qfree.Load()), max(out, c.raw.waiting())
	}
	var l lines
	l.add("connected_clients", len(list))
	l.add("maxclients", s.opts.MaxClients)
	l.add("guests", s.gateStats().Guests)
	l.add("client_recent_max_input_buffer", in)
	l.add("client_recent_max_output_buffer", out)
	l.add("blocked_clients", blocked)
	l.add("tracking_clients", tracking)
	l.add("pubsub_clients", pubsub)
	l.add("clients_in_timeout_table", timed)
	return l, nil
}

// infoPersistence reports a snapshot as a background save, and the log as the append-only
// file, which is never rewritten.
func infoPersistence(x *call) ([]string, error) {
	s, f := x.srv, x.srv.engineMetrics()
	last, status := "-1", "ok"
	if f["engine_snapshot_time_seconds"] > 0 {
		last = fmt.Sprint(int64(f["engine_snapshot_last_seconds"]))
	}
	if f["engine_snapshot_failing"] > 0 {
		status = "err"
	}
	current := "-1"
	running := f["engine_snapshot_running_seconds"]
	if running > 0 {
		current = fmt.Sprint(int64(running))
	}
	var l lines
	l.none("loading", "async_loading")
	l.add("rdb_changes_since_last_save", int64(f["engine_position"]-f["engine_snapshot_position"]))
	l.add("rdb_bgsave_in_progress", number(running > 0))
	l.add("rdb_last_save_time", s.lastSave(f))
	l.add("rdb_last_bgsave_status", status)
	l.add("rdb_last_bgsave_time_sec", last)
	l.add("rdb_current_bgsave_time_sec", current)
	l.add("rdb_saves", int64(f["engine_snapshots_total"]))
	l.none("rdb_last_cow_size")
	l.add("aof_enabled", number(s.opts.Durable))
	l.none("aof_rewrite_in_progress", "aof_rewrite_scheduled")
	l.add("aof_last_write_status", "ok") // otherwise the node would have stopped
	l.none("module_fork_in_progress")
	return l, nil
}

func infoStats(x *call) ([]string, error) {
	t := &x.srv.stats
	x.srv.tracker.mu.Lock()
	keys, items, bcast := len(x.srv.tracker.keys), 0, len(x.srv.tracker.bcast)
	for _, list := range x.srv.tracker.keys {
		items += len(list)
	}
	x.srv.tracker.mu.Unlock()
	ops, in, out := x.srv.lately()
	n := x.srv.counted()
	var l lines
	l.add("total_connections_received", t.connections.Load())
	l.add("total_commands_processed", n.processed.Load())
	l.add("instantaneous_ops_per_sec", int64(ops+0.5))
	l.add("total_net_input_bytes", n.netIn.Load())
	l.add("total_net_output_bytes", n.netOut.Load())
	l.add("instantaneous_input_kbps", fmt.Sprintf("%.2f", in/kilobyte))
	l.add("instantaneous_output_kbps", fmt.Sprintf("%.2f", out/kilobyte))
	l.add("rejected_connections", t.rejected.Load())
	l.add("evicted_guests", x.srv.gateStats().Evicted)
	l.add("wrong_passwords", x.srv.opts.Guesses.Stats().Wrong)
	l.none("sync_full", "sync_partial_ok", "sync_partial_err")
	l.add("expired_keys", x.srv.store.Expired())
	l.none("evicted_keys", "evicted_clients")
	l.add("client_output_buffer_limit_disconnections", t.limited.Load())
	l.add("keyspace_hits", n.hits.Load())
	l.add("keyspace_misses", n.misses.Load())
	l.add("pubsub_channels", number(x.srv.subscribers() > 0))
	l.none("pubsub_patterns", "pubsubshard_channels", "latest_fork_usec", "total_forks", "migrate_cached_sockets",
		"slave_expires_tracked_keys", "active_defrag_hits", "active_defrag_misses", "active_defrag_key_hits", "active_defrag_key_misses")
	l.add("tracking_total_keys", keys)
	l.add("tracking_total_items", items)
	l.add("tracking_total_prefixes", bcast)
	l.add("tracking_invalidations", t.invalidations.Load())
	l.add("total_error_replies", t.errors.Load())
	l.add("protocol_errors", t.protoErr.Load())
	l.add("total_reads_processed", n.reads.Load())
	l.add("total_writes_processed", n.writes.Load())
	l.none("io_threaded_reads_processed", "io_threaded_writes_processed")
	if x.srv.opts.Cluster != nil {
		l = append(l, x.srv.clusterStats()...)
	}
	return l, nil
}

func infoEngine(x *call) ([]string, error) {
	if x.srv.opts.Meter == nil {
		return nil, nil
	}
	var lines []string
	for m := range x.srv.opts.Meter.Metrics() {
		lines = append(lines, fmt.Sprintf("%s:%g", m.Name, m.Value))
	}
	return lines, nil
}

// sampleKeys is how many keys of a database INFO samples to count those that expire. With
// more keys, the result is an estimate.
const sampleKeys = 1000

func infoKeyspace(x *call) ([]string, error) {
	var lines []string
	if can := x.srv.store.Lacks() == nil; !can {
		return lines, nil // keys cannot be counted
	}
	err := x.eachDatabase(func() { lines = nil }, func(t *kv.Tx, db uint8, n int) error {
		if n == 0 {
			return nil
		}
		expires, avg, err := sampleExpiry(t, n)
		lines = append(lines, fmt.Sprintf("db%d:keys=%d,expires=%d,avg_ttl=%d", db, n, expires, avg))
		return err
	})
	return lines, err
}

// eachDatabase calls fn with the number of keys of each database, all in one state. It calls
// reset first, and again if it has to start over.
func (x *call) eachDatabase(reset func(), fn func(t *kv.Tx, db uint8, n int) error) error {
	each := func(t *kv.Tx) error {
		reset()
		for db := range uint8(x.srv.opts.Databases) {
			t.Select(db)
			n, err := t.Count()
			if err == nil {
				err = fn(t, db, n)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
	if x.tx != nil {
		defer x.tx.Select(x.db)
		return each(x.tx)
	}
	_, err := x.srv.store.View(context.Background(), x.srv.loosely(), 0, each)
	return err
}

// sampleExpiry returns how many of the n keys of t's space expire, and their mean time to
// live in milliseconds.
func sampleExpiry(t *kv.Tx, n int) (expires int, avg int64, err error) {
	step := (n + sampleKeys - 1) / sampleKeys
	looked := 0
	total := time.Duration(0)
	for i := 0; i < n; i += step {
		it, ok, err := t.At(i)
		if err != nil {
			return 0, 0, err
		}
		looked++
		if ok && !it.Expires.IsZero() {
			expires++
			total += it.Expires.Sub(t.Now()) / sampleKeys // divided first, to avoid overflow of the sum
		}
	}
	if expires > 0 {
		avg = int64(float64(total) / float64(expires) * sampleKeys / float64(time.Millisecond))
	}
	return expires * n / looked, avg, nil
}

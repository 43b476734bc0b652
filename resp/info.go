package resp

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"runtime"
	"runtime/metrics"
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

// infoSection is one section of INFO. Lines have no line ends.
type infoSection struct {
	name  string
	lines func(*call) ([]string, error)
}

func infoSections() []infoSection {
	return []infoSection{
		{"server", infoServer},
		{"clients", infoClients},
		{"memory", infoMemory},
		{"persistence", infoPersistence},
		{"stats", infoStats},
		{"replication", infoReplication},
		{"cpu", infoCPU},
		{"modules", func(*call) ([]string, error) { return nil, nil }},
		{"errorstats", func(*call) ([]string, error) { return nil, nil }},
		{"cluster", func(x *call) ([]string, error) {
			return []string{fmt.Sprintf("cluster_enabled:%d", number(x.srv.opts.Cluster != nil))}, nil
		}},
		{"engine", infoEngine},
		{"keyspace", infoKeyspace},
	}
}

func infoCmd(x *call) error {
	all := len(x.args) == 1
	var names []string
	for _, a := range x.args[1:] {
		name := string(lower(a))
		all = all || name == "all" || name == "default" || name == "everything"
		names = append(names, name)
	}
	var parts []string
	for _, s := range infoSections() {
		if !all && !slices.Contains(names, s.name) {
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

func infoServer(x *call) ([]string, error) {
	s := x.srv
	up := time.Since(s.started)
	mode := "standalone"
	if s.opts.Cluster != nil {
		mode = "cluster"
	}
	return []string{
		"redis_version:" + Version,
		"redis_mode:" + mode,
		"server_name:skerry",
		"skerry_version:" + s.opts.Build,
		"os:" + runtime.GOOS + " " + runtime.GOARCH,
		"arch_bits:" + fmt.Sprint(32<<(^uint(0)>>63)),
		"go_version:" + runtime.Version(),
		fmt.Sprintf("process_id:%d", os.Getpid()),
		"run_id:" + s.runID,
		fmt.Sprintf("server_time_usec:%d", time.Now().UnixMicro()),
		fmt.Sprintf("uptime_in_seconds:%d", int(up.Seconds())),
		fmt.Sprintf("uptime_in_days:%d", int(up.Hours()/24)),
	}, nil
}

func infoClients(x *call) ([]string, error) {
	s := x.srv
	blocked, tracking, pubsub := 0, 0, 0
	list := s.clients()
	for _, c := range list {
		c.mu.Lock()
		blocked += int(number(c.blocked))
		tracking += int(number(c.shown.tracking))
		pubsub += c.shown.subs
		c.mu.Unlock()
	}
	return []string{
		fmt.Sprintf("connected_clients:%d", len(list)),
		fmt.Sprintf("maxclients:%d", s.opts.MaxClients),
		fmt.Sprintf("blocked_clients:%d", blocked),
		fmt.Sprintf("tracking_clients:%d", tracking),
		fmt.Sprintf("pubsub_clients:%d", pubsub),
	}, nil
}

func infoCPU(*call) ([]string, error) {
	sample := []metrics.Sample{{Name: "/cpu/classes/user:cpu-seconds"}}
	metrics.Read(sample)
	return []string{fmt.Sprintf("used_cpu_user:%f", sample[0].Value.Float64())}, nil
}

func infoMemory(*call) ([]string, error) {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return []string{
		fmt.Sprintf("used_memory:%d", m.HeapAlloc),
		fmt.Sprintf("used_memory_rss:%d", m.Sys-m.HeapReleased),
		"maxmemory_policy:noeviction",
		"mem_allocator:go",
	}, nil
}

func infoPersistence(x *call) ([]string, error) {
	return []string{
		"loading:0",
		fmt.Sprintf("aof_enabled:%d", number(x.srv.opts.Durable)),
	}, nil
}

func infoStats(x *call) ([]string, error) {
	t := &x.srv.stats
	x.srv.tracker.mu.Lock()
	keys, bcast := len(x.srv.tracker.keys), len(x.srv.tracker.bcast)
	x.srv.tracker.mu.Unlock()
	lines := []string{
		fmt.Sprintf("total_connections_received:%d", t.connections.Load()),
		fmt.Sprintf("total_commands_processed:%d", t.commands.Load()),
		fmt.Sprintf("total_net_input_bytes:%d", t.netIn.Load()),
		fmt.Sprintf("total_net_output_bytes:%d", t.netOut.Load()),
		fmt.Sprintf("rejected_connections:%d", t.rejected.Load()),
		fmt.Sprintf("client_output_buffer_limit_disconnections:%d", t.limited.Load()),
		fmt.Sprintf("keyspace_hits:%d", t.hits.Load()),
		fmt.Sprintf("keyspace_misses:%d", t.misses.Load()),
		"evicted_keys:0",
		"pubsub_channels:0",
		fmt.Sprintf("tracking_total_keys:%d", keys),
		fmt.Sprintf("tracking_total_prefixes:%d", bcast),
		fmt.Sprintf("tracking_invalidations:%d", t.invalidations.Load()),
		fmt.Sprintf("total_error_replies:%d", t.errors.Load()),
		fmt.Sprintf("protocol_errors:%d", t.protoErr.Load()),
	}
	if x.srv.opts.Cluster != nil {
		lines = append(lines, x.srv.clusterStats()...)
	}
	return lines, nil
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

// sampleKeys is how many keys of a database INFO looks at to tell how many of
// them expire; with more keys the figure is an estimate.
const sampleKeys = 1000

func infoKeyspace(x *call) ([]string, error) {
	var lines []string
	look := func(t *kv.Tx) error {
		lines = lines[:0]
		for db := range uint8(x.srv.opts.Databases) {
			t.Select(db)
			n, err := t.Count()
			if err != nil {
				return err
			}
			if n == 0 {
				continue
			}
			expires, avg, err := sampleExpiry(t, n)
			if err != nil {
				return err
			}
			lines = append(lines, fmt.Sprintf("db%d:keys=%d,expires=%d,avg_ttl=%d", db, n, expires, avg))
		}
		return nil
	}
	if x.tx != nil {
		defer x.tx.Select(x.db)
		err := look(x.tx)
		return lines, err
	}
	_, err := x.srv.store.View(context.Background(), x.srv.loosely(), 0, look)
	return lines, err
}

// sampleExpiry returns how many of the n keys of t's space expire, and their
// mean time to live in milliseconds.
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
			total += it.Expires.Sub(t.Now()) / sampleKeys // the sum of all stays in range
		}
	}
	if expires > 0 {
		avg = int64(float64(total) / float64(expires) * sampleKeys / float64(time.Millisecond))
	}
	return expires * n / looked, avg, nil
}

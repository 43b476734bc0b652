package resp

import (
	"fmt"
	"os"
	"runtime/metrics"
	"strconv"
	"strings"

	"github.com/skerrydb/skerry/decimal"
	"github.com/skerrydb/skerry/kv"
)

func memoryCommands() []command {
	return []command{
		{name: "memory|doctor", arity: 2, kind: kindAdmin, flags: flagLooks, run: memoryDoctor},
		{name: "memory|help", arity: 2, kind: kindPlain, run: helpCmd},
		{name: "memory|malloc-stats", arity: 2, kind: kindPlain, run: mallocStats},
		{name: "memory|purge", arity: 2, kind: kindPlain, run: memoryPurge},
		{name: "memory|stats", arity: 2, kind: kindAdmin, flags: flagLooks, run: memoryStats},
		{name: "memory|usage", arity: -3, kind: kindRead, flags: flagUntrack, keys: keyRange{2, 2, 1}, run: memoryUsage},
	}
}

// entryOverhead is the memory of a key in the embedded engine besides the bytes of key and
// value, for MEMORY USAGE.
const entryOverhead = 80

func memoryUsage(x *call) error {
	switch {
	case len(x.args) == 5 && x.is(3, "SAMPLES"):
		n, ok := decimal.Parse(x.args[4])
		if !ok {
			return errNotInteger
		}
		if n < 0 {
			return errSyntax
		}
	case len(x.args) != 3:
		return errSyntax
	}
	e, ok, err := x.tx.Get(x.args[2])
	if err != nil || !ok {
		return x.replyNull(err)
	}
	x.out.Int(int64(len(x.args[2]) + len(e.Val) + entryOverhead))
	return nil
}

// engineMetrics are the engine's metrics by name; nil if it has none.
type engineMetrics map[string]float64

func (s *Server) engineMetrics() engineMetrics {
	if s.opts.Meter == nil {
		return nil
	}
	f := engineMetrics{}
	for m := range s.opts.Meter.Metrics() {
		f[m.Name] = m.Value
	}
	return f
}

// memoryLimit returns the value of maxmemory, or 0 if the engine has no limit.
func (f engineMetrics) memoryLimit() int64 { return int64(f["engine_memory_limit_bytes"]) }

// dataBytes returns the bytes that count against that limit.
func (f engineMetrics) dataBytes() int64 { return int64(f["engine_data_bytes"]) }

// heap is the memory of the process as reported by Go's runtime and the system.
type heap struct {
	allocated int64 // objects, including those not swept yet
	active    int64 // pages that contain them
	resident  int64 // obtained by the runtime from the system
	rss       int64 // in physical memory
}

func readHeap() heap {
	const classes = "/memory/classes/"
	s := []metrics.Sample{
		{Name: classes + "heap/objects:bytes"}, {Name: classes + "heap/unused:bytes"},
		{Name: classes + "total:bytes"}, {Name: classes + "heap/released:bytes"},
	}
	metrics.Read(s)
	v := func(i int) int64 { return int64(s[i].Value.Uint64()) }
	h := heap{allocated: v(0), active: v(0) + v(1), resident: v(2) - v(3)}
	h.rss = h.resident
	if text, err := os.ReadFile("/proc/self/statm"); err == nil {
		if f := strings.Fields(string(text)); len(f) > 1 {
			if pages, err := strconv.ParseInt(f[1], 10, 64); err == nil {
				h.rss = pages * int64(os.Getpagesize())
			}
		}
	}
	return h
}

// human formats a number of bytes in Redis's human-readable form.
func human(n int64) string {
	v := float64(n)
	if n < 1<<10 {
		return strconv.FormatInt(n, 10) + "B"
	}
	for _, unit := range "KMGTP" {
		if v /= 1 << 10; v < 1<<10 || unit == 'P' {
			return fmt.Sprintf("%.2f%c", v, unit)
		}
	}
	panic("BUG: unreachable")
}

// infoMemory reports the memory that counts against maxmemory as used_memory, as in Redis.
// The values of the allocator and the system are in the other fields.
func infoMemory(x *call) ([]string, error) {
	f, h := x.srv.engineMetrics(), readHeap()
	used, limit := f.dataBytes(), f.memoryLimit()
	peak := x.srv.rates.peakOf(used)
	var l lines
	l.bytes("used_memory", used)
	l.bytes("used_memory_rss", h.rss)
	l.bytes("used_memory_peak", peak)
	l.add("used_memory_peak_perc", fmt.Sprintf("%.2f%%", percent(used, peak)))
	l.add("used_memory_dataset", used)
	l.add("allocator_allocated", h.allocated)
	l.add("allocator_active", h.active)
	l.add("allocator_resident", h.resident)
	if total := x.srv.opts.MachineMemory; total > 0 {
		l.bytes("total_system_memory", total)
	}
	l.none("used_memory_lua", "used_memory_vm_eval", "used_memory_scripts_eval", "number_of_cached_scripts")
	n, libraries := len(x.srv.schemas()), 0
	if n > 0 {
		libraries = 1
	}
	l.add("number_of_functions", n)
	l.add("number_of_libraries", libraries)
	l.bytes("maxmemory", limit)
	l.add("maxmemory_policy", "noeviction")
	l.add("allocator_frag_ratio", fmt.Sprintf("%.2f", ratio(h.active, h.allocated)))
	l.add("allocator_frag_bytes", h.active-h.allocated)
	l.add("allocator_rss_ratio", fmt.Sprintf("%.2f", ratio(h.resident, h.active)))
	l.add("allocator_rss_bytes", h.resident-h.active)
	l.add("rss_overhead_ratio", fmt.Sprintf("%.2f", ratio(h.rss, h.resident)))
	l.add("rss_overhead_bytes", h.rss-h.resident)
	l.add("mem_clients_normal", x.srv.clientMemory())
	l.none("mem_not_counted_for_evict", "mem_replication_backlog", "mem_clients_slaves", "active_defrag_running",
		"lazyfree_pending_objects", "lazyfreed_objects")
	l.add("mem_allocator", "go")
	return l, nil
}

func ratio(a, b int64) float64 { return float64(a) / float64(max(b, 1)) }

func percent(a, b int64) float64 { return 100 * ratio(a, b) }

// clientMemory returns the sum of tot-mem in CLIENT LIST.
func (s *Server) clientMemory() (sum int64) {
	for _, c := range s.clients() {
		c.mu.Lock()
		sum += c.memory()
		c.mu.Unlock()
	}
	return sum
}

func memoryStats(x *call) error {
	f, h := x.srv.engineMetrics(), readHeap()
	used := f.dataBytes()
	peak := x.srv.rates.peakOf(used)
	keys, err := x.countKeys()
	if err != nil {
		return err
	}
	perKey := int64(0)
	if keys > 0 {
		perKey = used / keys
	}
	stats := []struct {
		name  string
		value any // int64 or float64
	}{
		{"peak.allocated", peak}, {"total.allocated", used}, {"replication.backlog", int64(0)}, {"clients.slaves", int64(0)},
		{"clients.normal", x.srv.clientMemory()}, {"lua.caches", int64(0)}, {"keys.count", keys}, {"keys.bytes-per-key", perKey},
		{"dataset.bytes", used}, {"peak.percentage", percent(used, peak)},
		{"allocator.allocated", h.allocated}, {"allocator.active", h.active}, {"allocator.resident", h.resident},
		{"allocator-fragmentation.ratio", ratio(h.active, h.allocated)}, {"allocator-fragmentation.bytes", h.active - h.allocated},
		{"allocator-rss.ratio", ratio(h.resident, h.active)}, {"allocator-rss.bytes", h.resident - h.active},
		{"rss-overhead.ratio", ratio(h.rss, h.resident)}, {"rss-overhead.bytes", h.rss - h.resident},
	}
	x.out.Map(len(stats))
	for _, s := range stats {
		x.out.BulkString(s.name)
		if f, ok := s.value.(float64); ok {
			x.out.Double(f)
		} else {
			x.out.Int(s.value.(int64))
		}
	}
	return nil
}

// countKeys returns the number of keys in all databases.
func (x *call) countKeys() (sum int64, err error) {
	err = x.eachDatabase(func() { sum = 0 }, func(_ *kv.Tx, _ uint8, n int) error {
		sum += int64(n)
		return nil
	})
	return sum, err
}

// doctorNeeds is the minimum size of the data in bytes for MEMORY DOCTOR, as in Redis.
const doctorNeeds = 5 << 20

// doctorWarns is the percentage of the limit above which it warns.
const doctorWarns = 90

func memoryDoctor(x *call) error {
	f := x.srv.engineMetrics()
	used, limit := f.dataBytes(), f.memoryLimit()
	switch {
	case limit > 0 && used >= limit/100*doctorWarns:
		x.out.Verbatim("txt", fmt.Sprintf("Sam, the data uses %.1f%% of maxmemory (%s of %s). At the limit, writes that need more memory will fail.\n", percent(used, limit), human(used), human(limit)))
	case used < doctorNeeds:
		x.out.Verbatim("txt", "Hi Sam, this instance is empty or is using very little memory, my issues detector can't be used in these conditions. "+
			"Please, leave for your mission on Earth and fill it with some data. The new Sam and I will be back to our programming as soon as I finished rebooting.\n")
	default:
		x.out.Verbatim("txt", "Hi Sam, I can't find any memory issue in your instance. I can only account for what occurs on this base.\n")
	}
	return nil
}

// mallocStats and memoryPurge reply as Redis does with an allocator other than jemalloc.
func mallocStats(x *call) error {
	x.out.BulkString("Stats not supported for the current allocator")
	return nil
}

func memoryPurge(x *call) error {
	x.out.OK()
	return nil
}

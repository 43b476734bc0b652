package resp_test

import (
	"fmt"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/skerrydb/skerry/ci/eventually"
	"github.com/skerrydb/skerry/ci/redisserver"
	"github.com/skerrydb/skerry/resp"
)

// info returns the fields of an INFO section.
func (a *asker) info(section string) map[string]string {
	a.Helper()
	fields := map[string]string{}
	for line := range strings.Lines(string(a.ask("INFO", section).Str)) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			fields[name] = value
		}
	}
	return fields
}

// infoInt returns a number in INFO.
func (a *asker) infoInt(name string) int {
	a.Helper()
	n, err := strconv.Atoi(a.info("everything")[name])
	if err != nil {
		a.Fatalf("%s: %v", name, err)
	}
	return n
}

// awaitInfo waits until a number in INFO is n.
func (a *asker) awaitInfo(name string, n int) {
	a.Helper()
	eventually.True(a, fmt.Sprintf("%s:%d", name, n), func() bool { return a.infoInt(name) == n })
}

// TestCommandStats checks that after the same commands INFO commandstats has the same
// counts as Redis's.
func TestCommandStats(t *testing.T) {
	t.Parallel()
	usec := regexp.MustCompile(`usec=\d+,usec_per_call=[\d.]+`)
	counts := func(addr string) string {
		a := newAsker(t, addr)
		a.ask("CONFIG", "RESETSTAT")
		pipeline := strings.Repeat("SET k v\r\nGET k\r\nPING\r\nPING\r\nGET k\r\nGET k\r\nINCR k\r\n", 20)
		if _, err := a.nc.Write([]byte(pipeline)); err != nil {
			t.Fatal(err)
		}
		for range 20 * 7 {
			if _, err := a.rd.Read(); err != nil {
				t.Fatal(err)
			}
		}
		for _, line := range []string{"GET", "GET a b", "CLIENT ID x", "CLIENT BOGUS", "CLIENT", "BOGUS", "MULTI", "SET x 1", "INCR k", "GET x", "EXEC",
			"MULTI", "SET", "EXEC", "EXEC", "MULTI", "PING", "CLIENT ID", "EXEC", "WATCH x", "UNWATCH", "KEYS *", "DEL x y", "OBJECT ENCODING k", "SELECT 99"} {
			a.ask(strings.Fields(line)...)
		}
		lines := []string{}
		for name, value := range a.info("commandstats") {
			lines = append(lines, name+":"+usec.ReplaceAllString(value, ""))
		}
		for name, value := range a.info("errorstats") {
			lines = append(lines, name+":"+value)
		}
		slices.Sort(lines)
		return strings.Join(lines, "\n")
	}
	got, want := counts(startSkerry(t, resp.Options{})), counts(redisserver.InMemory(t))
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestCommandTime checks that the time of commands is measured, including in pipelines.
func TestCommandTime(t *testing.T) {
	t.Parallel()
	a := newAsker(t, startSkerry(t, resp.Options{}))
	began := time.Now()
	a.ask("SET", "a", strings.Repeat("ab", 1000))
	a.ask("SET", "b", strings.Repeat("ba", 1000))
	for range 20 {
		a.ask("LCS", "a", "b")
	}
	took := time.Since(began)
	stat := a.info("commandstats")["cmdstat_lcs"]
	var calls, usec int
	if _, err := fmt.Sscanf(stat, "calls=%d,usec=%d,", &calls, &usec); err != nil {
		t.Fatal(stat, err)
	}
	if calls != 20 || usec < 20*1000 || time.Duration(usec)*time.Microsecond > took {
		t.Errorf("20 calls of LCS on 2,000 bytes within %v: %s", took, stat)
	}
}

// monitored are the fields of INFO that redis_exporter reads from Redis 7.0, except those
// that docs/redis.md lists as missing.
const monitored = `uptime_in_seconds process_id tcp_port run_id redis_version redis_mode os executable config_file
connected_clients blocked_clients maxclients tracking_clients clients_in_timeout_table pubsub_clients
client_recent_max_output_buffer client_recent_max_input_buffer
allocator_active allocator_allocated allocator_resident allocator_frag_ratio allocator_frag_bytes allocator_rss_ratio allocator_rss_bytes
rss_overhead_ratio rss_overhead_bytes used_memory used_memory_human used_memory_rss used_memory_rss_human used_memory_peak
used_memory_peak_human used_memory_peak_perc used_memory_lua used_memory_vm_eval used_memory_scripts_eval used_memory_dataset
number_of_cached_scripts number_of_functions number_of_libraries total_system_memory total_system_memory_human maxmemory maxmemory_human
maxmemory_policy mem_clients_slaves mem_clients_normal mem_replication_backlog mem_not_counted_for_evict mem_allocator
lazyfree_pending_objects lazyfreed_objects active_defrag_running migrate_cached_sockets
active_defrag_hits active_defrag_misses active_defrag_key_hits active_defrag_key_misses
loading async_loading rdb_changes_since_last_save rdb_bgsave_in_progress rdb_last_save_time rdb_last_bgsave_status
rdb_last_bgsave_time_sec rdb_current_bgsave_time_sec rdb_saves rdb_last_cow_size aof_enabled aof_rewrite_in_progress aof_rewrite_scheduled
aof_last_write_status module_fork_in_progress
pubsub_channels pubsub_patterns pubsubshard_channels latest_fork_usec total_forks tracking_total_keys tracking_total_items tracking_total_prefixes
role connected_slaves repl_backlog_active master_repl_offset master_replid slave_expires_tracked_keys
total_connections_received total_commands_processed instantaneous_ops_per_sec instantaneous_input_kbps instantaneous_output_kbps
rejected_connections total_net_input_bytes total_net_output_bytes expired_keys evicted_keys evicted_clients
keyspace_hits keyspace_misses used_cpu_sys used_cpu_user used_cpu_sys_children used_cpu_user_children
total_error_replies total_reads_processed total_writes_processed io_threaded_reads_processed io_threaded_writes_processed
sync_full sync_partial_ok sync_partial_err client_output_buffer_limit_disconnections cluster_enabled`

// TestInfoFields checks that the fields that monitors read exist in Redis's format.
func TestInfoFields(t *testing.T) {
	t.Parallel()
	have := newAsker(t, startSkerry(t, resp.Options{MachineMemory: 1 << 33})).info("everything")
	real := newAsker(t, redisserver.InMemory(t)).info("everything")
	forms := []*regexp.Regexp{regexp.MustCompile(`^-?\d+$`), regexp.MustCompile(`^-?\d+\.\d+$`), regexp.MustCompile(`^[\d.]+[BKMGTP]$`),
		regexp.MustCompile(`^[\d.]+%$`), regexp.MustCompile(`^[0-9a-f]{40}$`), regexp.MustCompile(``)}
	form := func(s string) int {
		return slices.IndexFunc(forms, func(re *regexp.Regexp) bool { return re.MatchString(s) })
	}
	for _, name := range strings.Fields(monitored) {
		got, ok := have[name]
		if want, known := real[name]; !ok || known && form(got) != form(want) {
			t.Errorf("%s:%s, in Redis %s:%s", name, got, name, want)
		}
	}
}

// TestInfoIsTrue compares fields with the actual events.
func TestInfoIsTrue(t *testing.T) {
	t.Parallel()
	addr := startSkerry(t, resp.Options{})
	a := newAsker(t, addr)
	a.ask("SET", "k", strings.Repeat("v", 100_000))
	a.ask("SET", "gone", "v", "PX", "1")
	a.ask("MSET", "a", "1", "b", "2")
	num := a.infoInt
	a.awaitInfo("expired_keys", 1)
	_, port, _ := net.SplitHostPort(addr)
	if got := a.info("server")["tcp_port"]; got != port {
		t.Errorf("tcp_port:%s, want %s", got, port)
	}
	used := num("used_memory")
	if used < 100_000 || num("used_memory_peak") < used || num("used_memory_rss") < used {
		t.Errorf("used_memory %d, peak %d, rss %d", used, num("used_memory_peak"), num("used_memory_rss"))
	}
	a.ask("DEL", "k")
	if now, peak := num("used_memory"), num("used_memory_peak"); now >= used || peak < used {
		t.Errorf("after DEL used_memory %d, peak %d; it was %d", now, peak, used)
	}
	eventually.True(t, "instantaneous_ops_per_sec", func() bool { return num("instantaneous_ops_per_sec") > 0 })
	all := a.info("everything") // there is no snapshot
	if pos := num("master_repl_offset"); pos < 4 || all["rdb_changes_since_last_save"] != all["engine_position"] {
		t.Errorf("position %d, changes since the last snapshot %s, position of the engine %s", pos, all["rdb_changes_since_last_save"], all["engine_position"])
	}
	reads, commands := num("total_reads_processed"), num("total_commands_processed")
	a.ask("PING")
	if r, c := num("total_reads_processed"), num("total_commands_processed"); r != reads+3 || c != commands+3 { // INFO, PING, INFO
		t.Errorf("%d reads and %d commands more, want 3 each", r-reads, c-commands)
	}
	for name, want := range map[string]string{"port": port, "bind": "127.0.0.1", "maxmemory": a.info("memory")["maxmemory"]} {
		if v := a.ask("CONFIG", "GET", name); len(v.List) != 2 || string(v.List[1].Str) != want {
			t.Errorf("CONFIG GET %s: %+v, want %s", name, v.List, want)
		}
	}
}

// TestPausedIsBlocked checks that a client blocked by CLIENT PAUSE is reported as in Redis.
func TestPausedIsBlocked(t *testing.T) {
	t.Parallel()
	for name, addr := range map[string]string{"skerry": startSkerry(t, resp.Options{}), "redis": redisserver.InMemory(t)} {
		a, paused := newAsker(t, addr), newAsker(t, addr)
		id := paused.ask("CLIENT", "ID").Int
		a.ask("CLIENT", "PAUSE", "60000", "WRITE")
		if _, err := paused.nc.Write([]byte("SET k v\r\n")); err != nil {
			t.Fatal(err)
		}
		line := ""
		if !eventually.Within(eventually.Limit, func() bool {
			line = string(a.ask("CLIENT", "LIST", "ID", strconv.FormatInt(id, 10)).Str)
			return strings.Contains(line, " flags=b ") && strings.Contains(line, " cmd=set ")
		}) {
			t.Fatalf("%s: a paused client is listed as %q", name, line)
		}
		if n := a.info("clients")["blocked_clients"]; n != "1" {
			t.Errorf("%s: blocked_clients:%s", name, n)
		}
		if name == "skerry" { // Redis 7.0 crashes
			if v := a.ask("CLIENT", "UNBLOCK", strconv.FormatInt(id, 10)); v.Int != 0 {
				t.Errorf("CLIENT UNBLOCK of a paused client: %d", v.Int)
			}
		}
		a.ask("CLIENT", "UNPAUSE")
		if v, err := paused.rd.Read(); err != nil || string(v.Str) != "OK" {
			t.Errorf("%s: SET after the pause: %q %v", name, v.Str, err)
		}
		if n := a.info("clients")["blocked_clients"]; n != "0" {
			t.Errorf("%s: after the pause blocked_clients:%s", name, n)
		}
	}
}

// TestSlowlogKeepsNoSecrets sends passwords in all possible ways.
func TestSlowlogKeepsNoSecrets(t *testing.T) {
	t.Parallel()
	const secret = "hunter2"
	a := newAsker(t, startSkerry(t, resp.Options{Password: secret}))
	a.ask("AUTH", secret)
	a.ask("CONFIG", "SET", "slowlog-log-slower-than", "0")
	for _, line := range []string{"AUTH hunter2", "AUTH default hunter2", "HELLO 3 AUTH default hunter2", "HELLO 3 SETNAME me AUTH hunter2 hunter2",
		"CONFIG SET requirepass hunter2", "CONFIG SET timeout 0 masterauth hunter2", "CONFIG SET hunter2x hunter2",
		"MIGRATE 127.0.0.1 1 k 0 10 AUTH hunter2", "MIGRATE 127.0.0.1 1 k 0 10 COPY AUTH2 hunter2 hunter2 KEYS a"} {
		a.ask(strings.Fields(line)...)
	}
	a.ask("MULTI")
	a.ask("AUTH", secret)
	a.ask("EXEC")
	list := a.ask("SLOWLOG", "GET", "-1").List
	if len(list) < 10 {
		t.Errorf("only %d entries", len(list))
	}
	redacted := 0
	for _, e := range list {
		for _, arg := range e.List[3].List {
			if string(arg.Str) == "(redacted)" {
				redacted++
			} else if string(arg.Str) == secret {
				t.Errorf("%s is logged with its secret", e.List[3].List[0].Str)
			}
		}
	}
	if redacted < 13 {
		t.Errorf("only %d arguments are redacted", redacted)
	}
}

// TestSlowlogLimits exceeds the log's limits on the number of entries and on their size.
func TestSlowlogLimits(t *testing.T) {
	t.Parallel()
	entries := func(addr string) (texts []string) {
		a := newAsker(t, addr)
		a.ask("CONFIG", "SET", "slowlog-log-slower-than", "0")
		long := []string{"MSET"}
		for i := range 40 {
			long = append(long, fmt.Sprint("k", i), "v")
		}
		a.ask(long...)
		a.ask("SET", "k", strings.Repeat("x", 200))
		a.ask("CONFIG", "SET", "slowlog-max-len", "3")
		for i := range 5 {
			a.ask("GET", fmt.Sprint(i))
			if i == 0 {
				texts = append(texts, slowTexts(a)...)
			}
		}
		return append(texts, slowTexts(a)...)
	}
	addr := startSkerry(t, resp.Options{})
	if got, want := entries(addr), entries(redisserver.InMemory(t)); !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	a := newAsker(t, addr)
	if v := a.ask("CONFIG", "SET", "slowlog-max-len", strconv.Itoa(resp.MaxSlowlogLen+1)); !strings.Contains(string(v.Str), "must be between 0 and 10000") {
		t.Errorf("over the limit: %q", v.Str)
	}
}

func slowTexts(a *asker) (texts []string) {
	for _, e := range a.ask("SLOWLOG", "GET").List {
		words := []string{}
		for _, arg := range e.List[3].List {
			words = append(words, string(arg.Str))
		}
		texts = append(texts, strings.Join(words, " "))
	}
	return texts
}

// TestSlowlogFindsTheSlow checks that one slow command among fast ones in a pipeline is the
// only one logged.
func TestSlowlogFindsTheSlow(t *testing.T) {
	t.Parallel()
	a := newAsker(t, startSkerry(t, resp.Options{}))
	a.ask("CONFIG", "SET", "slowlog-log-slower-than", "3000") // above slowlogEach
	a.ask("SET", "a", strings.Repeat("ab", 2000))
	a.ask("SET", "b", strings.Repeat("ba", 2000))
	quick := strings.Repeat("GET none\r\nPING\r\nSET c d\r\n", 10)
	if _, err := a.nc.Write([]byte(quick + "LCS a b\r\n" + quick)); err != nil {
		t.Fatal(err)
	}
	for range 61 {
		if _, err := a.rd.Read(); err != nil {
			t.Fatal(err)
		}
	}
	// LCS of 4,000 bytes each fills a table of 16,000,000 cells.
	if texts := slowTexts(a); !slices.Contains(texts, "LCS a b") {
		t.Errorf("the log has %q", texts)
	}
}

package tsbs

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// regions have their data centers as letters after their names.
var regions = []struct{ name, letters string }{
	{"us-east-1", "abce"}, {"us-west-1", "ab"}, {"us-west-2", "abc"},
	{"eu-west-1", "abc"}, {"eu-central-1", "ab"},
	{"ap-southeast-1", "ab"}, {"ap-southeast-2", "ab"}, {"ap-northeast-1", "ac"},
	{"sa-east-1", "abc"},
}

func pick(r *rand.Rand, choices ...string) string { return choices[r.IntN(len(choices))] }

// newHost returns the ten tags of a host.
func newHost(host int, r *rand.Rand) (tags string, constants []float64) {
	region := regions[r.IntN(len(regions))]
	return fmt.Sprintf(",hostname=host_%d,region=%s,datacenter=%s%c,rack=%d,os=%s,arch=%s,team=%s,service=%d,service_version=%d,service_environment=%s",
		host, region.name, region.name, region.letters[r.IntN(len(region.letters))], r.IntN(100),
		pick(r, "Ubuntu16.10", "Ubuntu16.04LTS", "Ubuntu15.10"), pick(r, "x64", "x86"), pick(r, "SF", "NYC", "LON", "CHI"),
		r.IntN(20), r.IntN(2), pick(r, "production", "staging", "test")), nil
}

// devops returns the measurements of a host in the order of TSBS, the CPU first.
func devops() []*measurement {
	usage := clamped(0, 1, 0, 100, 0)
	usage.spread = 100
	small, large := counter(5, 1), counter(50, 1)
	few := clamped(5, 1, 0, 1000, 0)
	load := clamped(5, 1, 0, 100, 0)
	return []*measurement{
		(&measurement{name: "cpu"}).
			add("usage_user usage_system usage_idle usage_nice usage_iowait usage_irq usage_softirq usage_steal usage_guest usage_guest_nice", integer, usage),
		(&measurement{name: "diskio", tags: func(r *rand.Rand) string {
			return fmt.Sprintf(",serial=%03d-%03d-%03d", r.IntN(1000), r.IntN(1000), r.IntN(1000))
		}}).
			add("reads writes", integer, large).
			add("read_bytes write_bytes", integer, counter(100, 1)).
			add("read_time write_time io_time", integer, small),
		disk(),
		kernel(small),
		mem(),
		(&measurement{name: "net", tags: func(r *rand.Rand) string { return fmt.Sprintf(",interface=eth%d", r.IntN(4)) }}).
			add("bytes_sent bytes_recv packets_sent packets_recv", integer, large).
			add("err_in err_out drop_in drop_out", integer, small),
		(&measurement{name: "nginx", tags: server("nginx")}).
			add("accepts", integer, small).add("active", integer, load).
			add("handled", integer, small).add("reading", integer, load).
			add("requests", integer, small).add("waiting writing", integer, load),
		postgres(few),
		redis(small, large, few),
	}
}

// server returns the tags of a service with a port.
func server(name string) func(r *rand.Rand) string {
	return func(r *rand.Rand) string {
		return fmt.Sprintf(",port=%d,server=%s_%d", 1024+r.IntN(20_000), name, r.IntN(100_000))
	}
}

func disk() *measurement {
	const total, inode = 1 << 40, 4096
	m := &measurement{
		name: "disk",
		tags: func(r *rand.Rand) string {
			return fmt.Sprintf(",path=/dev/sda%d,fstype=%s", r.IntN(10), pick(r, "ext3", "ext4", "btrfs"))
		},
		values: func(s *series, dst []float64) []float64 {
			free := int64(s.state[0])
			used := total - free
			return append(dst, total, float64(free), float64(used), 100*float64(used)/total,
				total/inode, float64(free/inode), float64(total/inode-free/inode))
		},
	}
	m.add("total free used used_percent inodes_total inodes_free inodes_used", integer, walk{})
	m.walks = []walk{clamped(50, 1, 0, total, total/2)}
	return m
}

func kernel(small walk) *measurement {
	m := &measurement{name: "kernel", fields: []field{{"boot_time", integer}}}
	m.constants = func(r *rand.Rand) []float64 { return []float64{float64(r.IntN(240))} }
	return m.add("interrupts context_switches processes_forked disk_pages_in disk_pages_out", integer, small)
}

// mem walks in parts of the total, which differs between hosts.
func mem() *measurement {
	m := &measurement{
		name:      "mem",
		constants: func(r *rand.Rand) []float64 { return []float64{float64(int64(8+4*r.IntN(3)) << 30)} },
		values: func(s *series, dst []float64) []float64 {
			total := s.constants[0]
			part := func(i int) float64 { return float64(int64(s.state[i] * total)) }
			used, cached, buffered := part(0), part(1), part(2)
			available := total - used
			return append(dst, total, available, used, available, cached, buffered,
				100*(used/total), 100*(available/total), 100*buffered/total)
		},
	}
	m.add("total available used free cached buffered", integer, walk{})
	m.add("used_percent available_percent buffered_percent", exact, walk{})
	part := clamped(0, 1.0/64, 0, 1, 0)
	part.spread = 1
	m.walks = []walk{part, part, part}
	return m
}

func postgres(few walk) *measurement {
	m := &measurement{name: "postgresl"} // as TSBS spells it
	m.add("numbackends xact_commit xact_rollback blks_read blks_hit", integer, few)
	m.add("tup_returned tup_fetched tup_inserted tup_updated tup_deleted conflicts temp_files", integer, few)
	m.add("temp_bytes", integer, clamped(1024, 1, 0, 1<<30, 0))
	return m.add("deadlocks blk_read_time blk_write_time", integer, few)
}

func redis(small, large, few walk) *measurement {
	const memory = 16 << 30
	m := &measurement{name: "redis", tags: server("redis"), fields: []field{{"uptime_in_seconds", integer}}}
	m.add("total_connections_received", integer, small)
	m.add("expired_keys evicted_keys keyspace_hits keyspace_misses", integer, large)
	m.add("instantaneous_ops_per_sec instantaneous_input_kbps instantaneous_output_kbps", integer, free(1, 1))
	m.add("connected_clients", integer, clamped(50, 1, 0, 10_000, 0))
	m.add("used_memory used_memory_rss used_memory_peak used_memory_lua", integer, clamped(50, 1, 0, memory, memory/2))
	m.add("rdb_changes_since_last_save", integer, clamped(50, 1, 0, 10_000, 0))
	m.add("sync_full sync_partial_ok sync_partial_err pubsub_channels pubsub_patterns latest_fork_usec connected_slaves", integer, few)
	m.add("master_repl_offset repl_backlog_active repl_backlog_size repl_backlog_histlen", integer, few)
	m.add("mem_fragmentation_ratio", integer, clamped(5, 1, 0, 100, 0))
	m.add("used_cpu_sys used_cpu_user used_cpu_sys_children used_cpu_user_children", integer, few)
	m.values = func(s *series, dst []float64) []float64 {
		return append(append(dst, float64(s.elapsed/time.Second)), s.state...)
	}
	return m
}

package embedded

import (
	"iter"
	"slices"
	"sync/atomic"
	"time"

	"github.com/skerrydb/skerry/engine"
)

// counters only grow.
type counters struct {
	batches, transactions, batchBytes, snapshots atomic.Uint64

	snapshotAt  atomic.Int64  // when the last one was written, Unix seconds
	snapshotPos atomic.Uint64 // the position of the newest one on disk

	loadNanos, replayNanos atomic.Int64 // of the start: reading the snapshot, and then the log

	commits, commitNanos atomic.Uint64 // commits of batches built here, and their duration
	slow, slower         atomic.Uint64 // those over slowCommit and slowerCommit

	leader       atomic.Uint64 // the last one known
	led, leaders atomic.Uint64 // terms in which this node was the leader; how often the known leader changed
}

// Thresholds of slow commits: one for a busy disk or network, one for a failing one.
const (
	slowCommit   = 100 * time.Millisecond
	slowerCommit = time.Second
)

// committed counts a batch and the time that it took to become durable.
func (c *counters) committed(took time.Duration) {
	c.commits.Add(1)
	c.commitNanos.Add(uint64(max(0, took)))
	if took > slowCommit {
		c.slow.Add(1)
	}
	if took > slowerCommit {
		c.slower.Add(1)
	}
}

// gauge returns a gauge metric.
func gauge[N int | int64 | uint64 | float64](name, help string, v N) engine.Metric {
	return engine.Metric{Name: name, Help: help, Value: float64(v)}
}

func counted[N int | int64 | uint64 | float64](name, help string, v N) engine.Metric {
	return engine.Metric{Name: name, Help: help, Counter: true, Value: float64(v)}
}

// Metrics implements engine.Meter.
func (db *DB) Metrics() iter.Seq[engine.Metric] {
	return func(yield func(engine.Metric) bool) {
		all := slices.Concat(db.metrics(), db.memoryMetrics(), db.spill.metrics())
		if g := db.group; g != nil && g.node != nil {
			all = append(all, g.metrics()...)
		}
		for _, m := range all {
			if !yield(m) {
				return
			}
		}
	}
}

func (db *DB) metrics() []engine.Metric {
	log, c := db.log.Stats(), &db.counts
	db.exec.mu.Lock()
	queued, tree := len(db.exec.queue), db.exec.size
	db.exec.mu.Unlock()
	failing, running := 0, 0.0
	if db.saver.failing.Load() {
		failing = 1
	}
	if began := db.saver.began.Load(); began != nil {
		running = max(db.opts.mono().Sub(*began).Seconds(), 1e-9)
	}
	return []engine.Metric{
		gauge("engine_position", "Position of the newest committed transaction.", db.durable.Load()),
		gauge("engine_keys", "Keys in the newest committed state, of all capabilities.", tree.keys),
		gauge("engine_data_bytes", "Memory allocated for the data, which the memory limit bounds.", tree.Allocated),
		gauge("engine_memory_limit_bytes", "The memory limit.", db.opts.MemoryBytes),
		gauge("engine_queued_calls", "Calls waiting to run.", queued),
		counted("engine_transactions_total", "Committed transactions that wrote.", c.transactions.Load()),
		counted("engine_batches_total", "Batches made durable.", c.batches.Load()),
		counted("engine_batch_bytes_total", "Bytes of those batches.", c.batchBytes.Load()),
		counted("engine_snapshots_total", "Snapshots written.", c.snapshots.Load()),
		gauge("engine_snapshot_time_seconds", "When this node last wrote a snapshot, in seconds since 1970; 0: not since it started.", c.snapshotAt.Load()),
		gauge("engine_snapshot_position", "Position of the newest snapshot on this node's disk.", c.snapshotPos.Load()),
		gauge("engine_snapshot_last_seconds", "How long the last snapshot took.", time.Duration(db.saver.lastNanos.Load()).Seconds()),
		gauge("engine_snapshot_running_seconds", "How long the current snapshot has been running; 0: none is running.", running),
		gauge("engine_snapshot_failing", "1 if the last snapshot could not be written; the log still has everything.", failing),
		gauge("engine_log_since_snapshot_bytes", "Bytes of log that a recovery would replay.", db.saver.plan.log.Load()),
		gauge("engine_log_since_snapshot_writes", "Writes in them.", db.saver.plan.writes.Load()),
		gauge("engine_recovery_predicted_seconds", "How long a recovery of the present state would take, by a model that the last start has corrected.", db.saver.plan.predicted().Seconds()),
		gauge("engine_recovery_load_seconds", "How long the last start read the snapshot.", time.Duration(c.loadNanos.Load()).Seconds()),
		gauge("engine_recovery_replay_seconds", "How long it then replayed the log.", time.Duration(c.replayNanos.Load()).Seconds()),
		counted("engine_fsyncs_total", "Fsyncs of the log.", log.Fsyncs),
		counted("engine_log_bytes_total", "Bytes written to the log.", log.Bytes),
		gauge("engine_log_segments", "Log files on disk.", log.Segments),
		counted("engine_commits_total", "Committed batches of calls made on this node.", c.commits.Load()),
		counted("engine_commit_seconds_total", "Time from the end of such a batch to its commit: one fsync, in a cluster a majority's. Divided by engine_commits_total it is the mean.", float64(c.commitNanos.Load())/1e9),
		counted("engine_commits_over_100ms_total", "Such batches that took longer than 0.1 s.", c.slow.Load()),
		counted("engine_commits_over_1s_total", "Such batches that took longer than 1 s.", c.slower.Load()),
	}
}

// metrics returns the metrics of a node of a cluster.
func (g *group) metrics() []engine.Metric {
	v, rs, c := g.view.Load(), g.node.Status(), &g.db.counts
	var behind, dropped uint64
	var connected int
	var skew, rtt time.Duration
	for _, f := range rs.Followers {
		if f.ID != g.self {
			behind = max(behind, rs.Commit-min(rs.Commit, f.Match))
		}
	}
	for _, p := range g.port.Peers() {
		dropped += p.Dropped
		if p.Connected {
			connected++
			skew, rtt = max(skew, p.Skew.Abs()), max(rtt, p.RTT)
		}
	}
	leads, voter := 0, 0
	if v.serves {
		leads = 1
	}
	if slices.Contains(v.roster.Members.Voters, g.self) {
		voter = 1
	}
	replicas, _ := v.roster.counts()
	stats := g.port.Stats()
	return []engine.Metric{
		gauge("cluster_leads", "1 if this node leads and takes writes.", leads),
		gauge("cluster_votes", "1 if this node has a vote; a learner has none yet.", voter),
		gauge("cluster_term", "Term that this node knows; every election begins a new one.", v.term),
		gauge("cluster_leader", "Id of the leader; 0: none is known.", v.leader),
		gauge("cluster_without_leader_seconds", "How long no leader has been known; 0: one is.", g.sinceLeader().Seconds()),
		counted("cluster_elections_won_total", "Times that this node became the leader.", c.led.Load()),
		counted("cluster_leader_changes_total", "Times that this node learned of another leader than before.", c.leaders.Load()),
		gauge("cluster_nodes", "Nodes of the cluster.", len(v.roster.Nodes)),
		gauge("cluster_voters", "Nodes with a vote.", len(v.roster.Members.Voters)),
		gauge("cluster_replicas", "Nodes that have no vote and get none by themselves.", replicas),
		gauge("cluster_connected_nodes", "Other nodes that this one can send to.", connected),
		gauge("cluster_commit_index", "Log record up to which this node knows all to be committed.", rs.Commit),
		gauge("cluster_applied_index", "Log record up to which this node's state includes all.", rs.Applied),
		gauge("cluster_behind_entries", "Committed log records that the node furthest behind has not acknowledged, as the leader knows it; 0 on others.", behind),
		counted("cluster_refused_batches_total", "Batches of deposed leaders, which no node applied.", g.log.refused.Load()),
		counted("cluster_dropped_messages_total", "Messages to or from other nodes that were lost because too many waited or a connection broke; they are sent again.", dropped+g.node.Dropped()),
		counted("cluster_refused_connections_total", "Connections to the port between nodes that were refused with a reason.", stats.Refused),
		counted("cluster_strange_connections_total", "Connections to that port that sent no valid greeting.", stats.Strange),
		gauge("cluster_clock_skew_seconds", "Greatest difference between this node's clock and that of a connected one.", skew.Seconds()),
		gauge("cluster_round_trip_seconds", "Longest round trip to a connected node.", rtt.Seconds()),
	}
}

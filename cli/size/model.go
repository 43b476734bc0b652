package size

import (
	"math"
	"strconv"
	"time"
)

// Need is what the caller wants.
type Need struct {
	Keys       float64       `json:"keys"`
	KeyBytes   float64       `json:"key_bytes"`
	ValueBytes float64       `json:"value_bytes"`
	Writes     float64       `json:"writes_per_second"`
	Nodes      int           `json:"nodes"` // with a vote
	Replicas   int           `json:"replicas"`
	Sites      int           `json:"sites"` // that nodes with a vote are spread over
	RoundTrip  time.Duration `json:"round_trip_nanoseconds"`
	Sync       time.Duration `json:"sync_nanoseconds"`
	CatchUp    float64       `json:"catch_up_bytes_per_second"` // 0: no limit
}

// Machine is one node's machine; 0: unknown, so not checked.
type Machine struct {
	Memory  float64 `json:"memory_bytes,omitempty"`
	Disk    float64 `json:"disk_bytes,omitempty"`
	Cores   float64 `json:"cores,omitempty"`
	Network float64 `json:"network_bytes_per_second,omitempty"`
	Write   float64 `json:"disk_write_bytes_per_second,omitempty"`
}

// Answer is what the model computes; sizes and rates are of one node.
type Answer struct {
	Need    Need    `json:"need"`
	Machine Machine `json:"machine"`

	Live     float64 `json:"live_memory_bytes"`
	Resident float64 `json:"resident_memory_bytes"`
	Snapshot float64 `json:"snapshot_bytes"`
	Log      float64 `json:"log_bytes"` // at most
	Disk     float64 `json:"disk_bytes"`
	Recovery float64 `json:"recovery_seconds"`

	Micros       float64 `json:"cpu_micros_per_write"` // over all nodes
	LeaderMicros float64 `json:"leader_cpu_micros_per_write"`
	LeaderCPU    float64 `json:"leader_cores"`
	OtherCPU     float64 `json:"other_cores"`
	LogRate      float64 `json:"log_bytes_per_second"`
	WriteRate    float64 `json:"disk_write_bytes_per_second"`
	LeaderSend   float64 `json:"leader_send_bytes_per_second"`
	SiteSend     float64 `json:"send_bytes_per_second_to_each_site"`

	LocalMajority   bool    `json:"majority_in_one_site"` // that of the leader
	Write           float64 `json:"write_seconds"`
	FarWrite        float64 `json:"write_from_another_site_seconds"`
	SnapshotEvery   float64 `json:"seconds_between_snapshots"` // 0: never
	SnapshotSeconds float64 `json:"snapshot_seconds"`
	CatchUpSeconds  float64 `json:"new_node_seconds"` // -1: never, as writes are faster

	Warnings []string `json:"warnings"`
	Fits     bool     `json:"fits"`
}

// Parts of the model that are not measured but follow from the design, and assumptions.
const (
	floorBytes     = 128 << 20 // of log before a snapshot, however small the last one is; embedded.Options.SnapshotBytes
	leastLog       = 0.25      // of the last snapshot's size: no snapshot is begun with less log; with as much as that size one is
	recoveryTarget = 2.5       // seconds: a longer recovery begins a snapshot; embedded.DefaultRecoveryTarget
	wireFactor     = 1.1       // bytes on the network for one of the log: TLS, framing, acknowledgements
	mostUse        = 0.7       // of cores, memory, disk and network in steady use: the rest is for snapshots, elections and peaks
	memoryUse      = 0.8
	bigResident    = 256 << 30 // of one node: beyond it a restart takes long, and machines are dear
	bigValue       = 1 << 10   // bytes: the CPU of a write was measured with values of 100
	keysFactor     = 10        // beyond the most measured keys: the model only guesses
)

// compute applies the model.
func compute(n Need, m Machine, c constants) Answer {
	a := Answer{Need: n, Machine: m, Warnings: []string{}}
	pair := n.KeyBytes + n.ValueBytes
	a.Live = n.Keys * (pair + c.keyBytes.value)
	a.Resident = c.emptyBytes.value + a.Live*c.residentRatio.value
	a.Snapshot = n.Keys * (pair + c.snapshotBytes.value)
	a.SnapshotSeconds = a.Snapshot / c.snapshotRate.value
	a.LogRate = n.Writes * (pair + c.logBytes.value)
	due := max(floorBytes, min(max(recoveryTarget*c.recoveryRate.value-a.Snapshot, leastLog*a.Snapshot), a.Snapshot))
	a.Log = due + a.LogRate*a.SnapshotSeconds // the log is cut when the snapshot is complete
	a.Disk = 2*a.Snapshot + a.Log
	a.Recovery = (a.Snapshot + a.Log) / c.recoveryRate.value

	one, three := at(c.oneNode, n.Keys), at(c.threeNodes, n.Keys)
	leader, other := one, 0.0
	if n.Nodes+n.Replicas > 1 { // three nodes cost a leader, who also sends, and two others
		other = max(0, three-one) / 3
		leader = three - 2*other
	}
	others := float64(n.Nodes + n.Replicas - 1)
	a.Micros, a.LeaderMicros = leader+others*other, leader
	a.LeaderCPU, a.OtherCPU = n.Writes*leader/1e6, n.Writes*other/1e6

	a.WriteRate = a.LogRate
	if n.Writes > 0 {
		a.SnapshotEvery = due / a.LogRate
		a.WriteRate += a.Snapshot / a.SnapshotEvery
	}
	a.LeaderSend = a.LogRate * wireFactor * others
	if n.Sites > 1 {
		a.SiteSend = a.LogRate * wireFactor * math.Ceil(float64(n.Nodes)/float64(n.Sites))
	}
	a.latency()
	a.catchUp(c)
	a.round()
	a.warn(c)
	return a
}

// round rounds the results to six digits, so that JSON does not depend on the order of operations.
func (a *Answer) round() {
	for _, v := range []*float64{
		&a.Live, &a.Resident, &a.Snapshot, &a.Log, &a.Disk, &a.Recovery, &a.Micros, &a.LeaderMicros, &a.LeaderCPU, &a.OtherCPU, &a.LogRate, &a.WriteRate,
		&a.LeaderSend, &a.SiteSend, &a.Write, &a.FarWrite, &a.SnapshotEvery, &a.SnapshotSeconds, &a.CatchUpSeconds,
	} {
		*v, _ = strconv.ParseFloat(strconv.FormatFloat(*v, 'g', 6, 64), 64) // what was formatted parses
	}
}

// latency is that of one write: the leader and a majority have it on disk.
func (a *Answer) latency() {
	n := a.Need
	inSite := (n.Nodes + n.Sites - 1) / n.Sites // of the leader, which has the most nodes
	a.LocalMajority = inSite > n.Nodes/2
	a.Write = n.Sync.Seconds()
	if !a.LocalMajority {
		a.Write += n.RoundTrip.Seconds()
	}
	a.FarWrite = a.Write
	if n.Sites > 1 || n.Replicas > 0 {
		a.FarWrite += n.RoundTrip.Seconds()
	}
}

// catchUp is how long a new node takes: it gets a snapshot, then what was written meanwhile.
func (a *Answer) catchUp(c constants) {
	speed := c.recoveryRate.value
	for _, limit := range []float64{a.Need.CatchUp, a.Machine.Network * mostUse} {
		if limit > 0 {
			speed = min(speed, limit)
		}
	}
	a.CatchUpSeconds = -1
	if left := speed - a.LogRate*wireFactor; left > 0 {
		a.CatchUpSeconds = a.Snapshot * wireFactor / left
	}
}

// at interpolates a cost between the measured numbers of keys, over their logarithm; beyond the last it goes on as between the
// last two.
func at(costs []cost, keys float64) float64 {
	if keys <= float64(costs[0].keys) || len(costs) == 1 {
		return costs[0].micros
	}
	i := 1
	for i < len(costs)-1 && keys > float64(costs[i].keys) {
		i++
	}
	a, b := costs[i-1], costs[i]
	share := math.Log(keys/float64(a.keys)) / math.Log(float64(b.keys)/float64(a.keys))
	return a.micros + share*(b.micros-a.micros)
}

package size

// constants are what the model was measured to be. The test of this package computes them from the last output of
// `make bench-growth`, and `go test ./cli/size -rewrite` writes their values here: change nothing else by hand.
type constants struct {
	keyBytes      constant // of memory, beyond key and value
	residentRatio constant
	emptyBytes    constant
	logBytes      constant // beyond key and value
	snapshotBytes constant
	snapshotRate  constant
	recoveryRate  constant
	oneNode       []cost
	threeNodes    []cost
	mostKeys      uint64 // measured
}

// constant is a number with its meaning.
type constant struct {
	value float64
	unit  string
	what  string
	from  string // the measurement
}

// cost is the CPU time of a write with that many keys, over all nodes.
type cost struct {
	keys   uint64
	micros float64
}

// measured returns the constants.
func measured() constants {
	return constants{
		keyBytes:      constant{52.7, "bytes", "live memory of a key beyond its own bytes and those of its value", "one node, 10 M keys"},
		residentRatio: constant{1.66, "", "resident memory as a multiple of live keys and values: garbage and room for the collector", "one node, 10 M keys"},
		emptyBytes:    constant{6.8e+07, "bytes", "resident memory of a busy server with next to no data, with the kept history of changes", "one node, 1 k keys"},
		logBytes:      constant{15.3, "bytes", "log of a write beyond its key and value", "one node, 10 M keys"},
		snapshotBytes: constant{13, "bytes", "snapshot of a key beyond its own bytes and those of its value", "one node, 10 M keys"},
		snapshotRate:  constant{1.81e+08, "bytes/s", "speed of a snapshot beside writes", "one node, 10 M keys"},
		recoveryRate:  constant{8.27e+08, "bytes/s", "speed of recovery over snapshot and log, from the page cache", "one node, 10 M keys"},
		oneNode:       []cost{{1000, 1.83}, {100000, 2.52}, {1000000, 2.54}, {10000000, 3.69}},
		threeNodes:    []cost{{100000, 7.11}, {1000000, 9.13}, {10000000, 68.1}},
		mostKeys:      10000000,
	}
}

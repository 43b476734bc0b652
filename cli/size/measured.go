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
		keyBytes:      constant{60, "bytes", "live memory of a key beyond its own bytes and those of its value", "one node, 10 M keys"},
		residentRatio: constant{1.44, "", "resident memory as a multiple of live keys and values: garbage and room for the collector", "one node, 10 M keys"},
		emptyBytes:    constant{6.69e+07, "bytes", "resident memory of a busy server with next to no data, with the kept history of changes", "one node, 1 k keys"},
		logBytes:      constant{15.3, "bytes", "log of a write beyond its key and value", "one node, 10 M keys"},
		snapshotBytes: constant{13, "bytes", "snapshot of a key beyond its own bytes and those of its value", "one node, 10 M keys"},
		snapshotRate:  constant{1.53e+08, "bytes/s", "speed of a snapshot beside writes", "one node, 10 M keys"},
		recoveryRate:  constant{7.77e+08, "bytes/s", "speed of recovery over snapshot and log, from the page cache", "one node, 10 M keys"},
		oneNode:       []cost{{1000, 1.61}, {100000, 2.37}, {1000000, 3.14}, {10000000, 5.48}},
		threeNodes:    []cost{{100000, 8}, {1000000, 10.8}, {10000000, 47.9}},
		mostKeys:      10000000,
	}
}

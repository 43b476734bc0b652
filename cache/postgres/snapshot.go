package postgres

import (
	"slices"
	"strconv"
	"strings"

	"github.com/skerrydb/skerry/engine"
)

// snapshot tells which transactions are visible: those before xmax that were not running.
type snapshot struct {
	xmin, xmax uint64
	running    []uint64 // sorted
}

// parseSnapshot reads a pg_snapshot: xmin:xmax:xid,xid,…
func parseSnapshot(s string) (snapshot, error) {
	bad := engine.Errorf(engine.CodeInternal, "cache/postgres: %.100q is not a snapshot", s)
	parts := strings.Split(s, ":")
	if len(parts) != 3 {
		return snapshot{}, bad
	}
	var n snapshot
	var err1, err2 error
	n.xmin, err1 = strconv.ParseUint(parts[0], 10, 64)
	n.xmax, err2 = strconv.ParseUint(parts[1], 10, 64)
	if err1 != nil || err2 != nil {
		return snapshot{}, bad
	}
	if parts[2] != "" {
		for x := range strings.SplitSeq(parts[2], ",") {
			id, err := strconv.ParseUint(x, 10, 64)
			if err != nil {
				return snapshot{}, bad
			}
			n.running = append(n.running, id)
		}
	}
	slices.Sort(n.running)
	return n, nil
}

// sees reports whether a transaction that has committed is visible.
func (s *snapshot) sees(xid uint64) bool {
	if xid < s.xmin {
		return true
	}
	_, running := slices.BinarySearch(s.running, xid)
	return xid < s.xmax && !running
}

// full returns the 64-bit id of a transaction from its lower half, which is what the replication protocol has. It is
// within 2^31 transactions of the snapshot.
func (s *snapshot) full(xid uint32) uint64 {
	x := s.xmax&^(1<<32-1) | uint64(xid)
	switch {
	case x > s.xmax+1<<31 && x >= 1<<32:
		x -= 1 << 32
	case x+1<<31 < s.xmax:
		x += 1 << 32
	}
	return x
}

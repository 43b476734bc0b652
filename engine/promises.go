package engine

import "fmt"

// Promises is what an engine guarantees, or what a capability needs of one.
// The zero value promises, or needs, nothing beyond single-key atomicity.
type Promises struct {
	Atomic       Scope
	Serializable bool // Update behaves as if transactions ran one at a time
	Ordered      bool // Scan is ordered over the whole key space; otherwise it yields ErrUnsupported
	Feed         bool // Changes is supported; otherwise it yields ErrUnsupported
	Durable      bool // a nil error from Update survives the loss of all processes
	Snapshot     bool // a View is one state of all keys; otherwise only of one partition, or of one key
	Clock        bool // Now and AsOf never go back from one committed transaction to the next

	// Positions: commits have positions in one order, and View honors Read.AtLeast.
	// Otherwise all positions are 0, and a View with another AtLeast is ErrUnsupported.
	Positions bool

	// ExactPositions: the position of a View is that of its snapshot. Otherwise the
	// snapshot may be newer.
	ExactPositions bool

	Fence bool // honors FenceKey

	// DistinctTimes: no two transactions that wrote have the same Now. Nothing needs
	// it, but it avoids notifying clients of changes that may be their own.
	DistinctTimes bool

	MaxKeyBytes int // largest key; 0 means 512 for engines, "any" for needs
	MaxValBytes int // largest value; 0 means 65536 for engines, "any" for needs
	MaxTxBytes  int // largest sum of keys and values written by one transaction; 0: 1 MiB
}

// Meets returns an error, matching ErrUnsupported, that names the first promise
// that need asks for and p lacks. It is called once per capability at startup, so
// that gaps show before the first request.
func (p Promises) Meets(who string, need Promises) error {
	lack := func(what string) error {
		return Errorf(CodeUnsupported, "%s needs %s, which this engine does not promise", who, what)
	}
	switch {
	case p.Atomic < need.Atomic:
		return lack("transactions over " + need.Atomic.String())
	case need.Serializable && !p.Serializable:
		return lack("serialisable transactions")
	case need.Ordered && !p.Ordered:
		return lack("ordered scans")
	case need.Feed && !p.Feed:
		return lack("a change feed")
	case need.Durable && !p.Durable:
		return lack("durable commits")
	case need.Snapshot && !p.Snapshot:
		return lack("views of one state of all keys")
	case need.Clock && !p.Clock:
		return lack("a clock that does not go back")
	case need.Positions && !p.Positions:
		return lack("positions")
	case need.ExactPositions && !p.ExactPositions:
		return lack("exact positions of views")
	case need.DistinctTimes && !p.DistinctTimes:
		return lack("a distinct time for each transaction")
	case need.Fence && !p.Fence:
		return lack("a fence, which stops all writes")
	case orDefault(p.MaxKeyBytes, 512) < need.MaxKeyBytes:
		return lack(fmt.Sprintf("keys of %d bytes", need.MaxKeyBytes))
	case orDefault(p.MaxValBytes, 64<<10) < need.MaxValBytes:
		return lack(fmt.Sprintf("values of %d bytes", need.MaxValBytes))
	case orDefault(p.MaxTxBytes, 1<<20) < need.MaxTxBytes:
		return lack(fmt.Sprintf("transactions of %d bytes", need.MaxTxBytes))
	}
	return nil
}

func orDefault(n, def int) int {
	if n == 0 {
		return def
	}
	return n
}

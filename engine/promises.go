package engine

import "fmt"

// Promises is what an engine guarantees, or what a capability needs of one.
// The zero value promises, or needs, nothing beyond single-key atomicity.
type Promises struct {
	Atomic       Scope
	Serializable bool // Update behaves as if transactions ran one at a time
	Ordered      bool // Scan is ordered over the whole key space
	Feed         bool // Changes is supported
	Durable      bool // a nil error from Update survives the loss of all processes

	// DistinctTimes: no two transactions that wrote have the same Now. Nothing needs
	// it; it saves telling clients of changes that may be their own.
	DistinctTimes bool

	MaxKeyBytes int // largest key; 0 means 512 for engines, "any" for needs
	MaxValBytes int // largest value; 0 means 65536 for engines, "any" for needs
	MaxTxBytes  int // largest sum of keys and values written by one transaction; 0: 1 MiB
}

// Meets returns an error, matching ErrUnsupported, that names the first thing
// which need asks and p lacks. It is called once per capability at start, so
// that gaps show before traffic does.
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
	case need.DistinctTimes && !p.DistinctTimes:
		return lack("a time of its own for each transaction")
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

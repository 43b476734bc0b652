package engine

import "context"

// PathStore is an engine that is atomic only within one partition, and keeps access paths of records in a table of its own. It
// need not promise what records on ordered keys need: package record uses the table instead of an ordered scan.
type PathStore interface {
	Engine

	// Paths returns the table of access paths, and creates it if there is none.
	Paths(ctx context.Context) (Paths, error)
}

// Paths is a table of keys in partitions, without values. It is written without transactions: the Stamp of an entry decides
// which of two writes of one key counts, in whatever order they arrive. Its methods are safe for concurrent use.
type Paths interface {
	// Insert stores entries. If it fails, some may be stored; to repeat it is harmless.
	Insert(ctx context.Context, list []PathEntry) error

	// Remove removes entries whose Stamp is not greater than that of list. If it fails, some may be removed; to repeat it is
	// harmless.
	Remove(ctx context.Context, list []PathEntry) error

	// Range returns the first limit keys of a partition with lo <= key < hi, ascending, or with back the last ones, descending.
	// A nil lo or hi is no bound. With r.Level Local the result may lack entries that were just inserted.
	Range(ctx context.Context, partition, lo, hi []byte, back bool, limit int, r Read) (keys [][]byte, err error)
}

// PathEntry is a key in a partition of Paths. Neither may be empty.
type PathEntry struct {
	Partition, Key []byte
	Stamp          int64 // greater than 0
}

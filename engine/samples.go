package engine

import (
	"context"
	"iter"
	"time"
)

// SampleStore is an engine with tables of its own for time series. It need not promise what series on keys need:
// package series uses the tables instead.
type SampleStore interface {
	Engine

	// Samples returns the tables of a collection, and creates them if there are none. The samples are kept for
	// retention; 0 is forever. Letters, digits, - and _ may be in the name, which has at most 64 of them.
	Samples(ctx context.Context, collection string, retention time.Duration) (SampleTables, error)
}

// SampleTables has the samples of one collection. Its methods are safe for concurrent use.
type SampleTables interface {
	// Define stores series. To store one again is harmless.
	Define(ctx context.Context, list []SampleSeries) error

	// Defined yields the series that were stored at since or later, by the clocks of those who did, and perhaps
	// others; zero is all. A series may come twice.
	Defined(ctx context.Context, since time.Time) iter.Seq2[SampleSeries, error]

	// Append stores samples, which it only reads. A series is in list once. Of samples with the same time the last one
	// counts. If it fails, some may be stored; to repeat it is harmless.
	Append(ctx context.Context, list []SampleRun) error

	// Read returns the samples of a series from one time to another, both included, ascending. It returns at most
	// limit samples, and one more if there are more.
	Read(ctx context.Context, id [16]byte, from, to int64, limit int, r Read) (SampleRun, error)

	// Last returns the newest sample of a series from one time to another, both included, or none.
	Last(ctx context.Context, id [16]byte, from, to int64, r Read) (SampleRun, error)
}

// SampleLoader is satisfied by SampleTables that take samples of another engine.
type SampleLoader interface {
	// Load is Append for samples that were stored elsewhere at about their own time: it never replaces a sample that
	// Append has stored since.
	Load(ctx context.Context, list []SampleRun) error
}

// SampleSeries is the definition of a series.
type SampleSeries struct {
	ID     [16]byte          // of the labels; the caller makes it
	Labels map[string]string // by name
}

// SampleRun has samples of one series.
type SampleRun struct {
	ID     [16]byte
	Times  []int64 // Unix nanoseconds
	Values []float64
}

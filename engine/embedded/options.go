package embedded

import (
	"cmp"
	"io"
	"log/slog"
	"runtime"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/journal"
)

// Limits of one key, value and transaction. They are part of the engine's
// promises; larger ones get engine.CodeKeyTooLarge, CodeValueTooLarge or
// CodeTxTooLarge.
const (
	MaxKeyBytes = 4096
	MaxValBytes = 16<<20 + 64 // 16 MiB of a user's and a capability's header
	MaxTxBytes  = 64 << 20    // keys and values written by one transaction
	MaxTxScan   = 1_000_000   // pairs that one Update may scan; a View has no limit
)

// batchBytes is the size at which a batch is full: later transactions wait for the next
// one. A batch can be larger by one transaction.
const batchBytes = 4 << 20

// keyOverhead estimates the memory of a new key beyond its own and its value's bytes.
// It decides only whether that one write fits; what the tree has allocated is exact.
const keyOverhead = 64

// memoryOvershoot is how far writes that grow the data can exceed Options.MemoryBytes:
// the last one may have to copy and split a leaf, and the allocator rounds.
const memoryOvershoot = 64 << 10

// Options of an embedded engine. The zero value works.
type Options struct {
	// MemoryBytes bounds the memory that is allocated for the data: keys, values, the
	// nodes of the tree and their free room. Above it, writes that grow the data fail with
	// engine.ErrMemoryFull. The process needs up to twice as much: for garbage, kept
	// history, and old data that reads in progress hold. If such reads would need more than
	// that, writes fail as well, and the oldest of them is ended. Default 4 GiB.
	MemoryBytes int64

	// HistoryBytes bounds the memory of the committed changes kept for Changes. At least
	// the newest batch is kept, and, while there are no readers, those of the last 16 MiB.
	// Default 16 MiB.
	HistoryBytes int

	// SnapshotBytes is how many bytes of new log there are at least before a background
	// snapshot. Default 128 MiB. A snapshot also waits until the log is a quarter of the
	// size of the last one, and begins at the latest when the log is as large.
	SnapshotBytes int64

	// SpillBytes is the length above which a value is kept in a file and read from there,
	// so that only keys and shorter values take memory. Values are moved to files in the
	// background. Values that are in files stay there if it is 0 later, until they are
	// written again. Default 0: all values are in memory.
	SpillBytes int64

	// RecoveryTarget is how long a start after a crash should take. Within the bounds
	// of SnapshotBytes a snapshot begins when, by a model, it would take longer.
	// Default DefaultRecoveryTarget.
	RecoveryTarget time.Duration

	// QueueCalls bounds the calls that wait to run. More fail with
	// engine.ErrQueueFull. Default 65,536.
	QueueCalls int

	// PositionWait bounds how long a View waits for Read.AtLeast. Then it fails with
	// engine.ErrPositionTimeout. Default 5 s.
	PositionWait time.Duration

	// Now is the clock; default time.Now. Transactions' times never go back even if
	// the clock does.
	Now func() time.Time

	// LogReserveBytes is how much of the log's file is filled with zeros ahead of the
	// writer, so that a commit changes no metadata. Default journal.DefaultReserveBytes.
	LogReserveBytes int64

	// FS stores the files; default the operating system's file system.
	FS journal.FS

	// Logger logs messages for operators; default slog.Default.
	Logger *slog.Logger

	// Cluster configures a node of a cluster. A folder that is not a node does not use
	// it, and a node needs only its own folder.
	Cluster ClusterOptions

	spillSoon      bool               // values to spill do not wait for others
	valueFileBytes int64              // of a file of values; 0: spill.MaxFileBytes
	pieceBytes     int                // of a fuzzy snapshot, between transactions; 0: pieceBytes
	segmentBytes   int64              // of log in one file; 0: the journal's default
	mono           func() time.Time   // a monotonic clock; nil: time.Now
	liveHeap       func() int64       // bytes; nil: the process's
	sim            func(*DB) proposer // connects the simulation that drives the node; nil: none
	random         io.Reader          // for a log that does all work in its caller's goroutine; nil: the log has a background
	homeSettle     time.Duration      // for tests; 0: the constant
	aheadFrom      int                // for tests; 0: the constant
	yield          func()             // for tests; nil: runtime.Gosched
}

// journal returns the options of the log.
func (o Options) journal() journal.Options {
	return journal.Options{
		FS: o.FS, MaxRecordBytes: maxRecordBytes, SegmentBytes: o.segmentBytes, ReserveBytes: o.LogReserveBytes,
		Inline: o.random != nil, Random: o.random,
	}
}

func (o Options) withDefaults() (Options, error) {
	for _, n := range []struct {
		name string
		v    int64
	}{
		{"MemoryBytes", o.MemoryBytes},
		{"HistoryBytes", int64(o.HistoryBytes)},
		{"SnapshotBytes", o.SnapshotBytes},
		{"SpillBytes", o.SpillBytes},
		{"RecoveryTarget", int64(o.RecoveryTarget)},
		{"QueueCalls", int64(o.QueueCalls)},
		{"PositionWait", int64(o.PositionWait)},
		{"LogReserveBytes", o.LogReserveBytes},
	} {
		if n.v < 0 {
			return o, engine.Errorf(engine.CodeInvalid, "embedded: option %s is negative: %d", n.name, n.v)
		}
	}
	o.MemoryBytes = cmp.Or(o.MemoryBytes, 4<<30)
	o.HistoryBytes = cmp.Or(o.HistoryBytes, 16<<20)
	o.SnapshotBytes = cmp.Or(o.SnapshotBytes, 128<<20)
	o.RecoveryTarget = cmp.Or(o.RecoveryTarget, DefaultRecoveryTarget)
	o.QueueCalls = cmp.Or(o.QueueCalls, 65536)
	o.PositionWait = cmp.Or(o.PositionWait, 5*time.Second)
	o.aheadFrom = cmp.Or(o.aheadFrom, aheadFrom)
	o.pieceBytes = cmp.Or(o.pieceBytes, pieceBytes)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.mono == nil {
		o.mono = time.Now
	}
	if o.yield == nil {
		o.yield = runtime.Gosched
	}
	if o.liveHeap == nil {
		o.liveHeap = liveHeap
	}
	if o.FS == nil {
		o.FS = journal.OS()
	}
	o.Logger = cmp.Or(o.Logger, slog.Default())
	return o, nil
}

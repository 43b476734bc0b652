package postgres

import (
	"cmp"
	"log/slog"
	"time"

	"github.com/skerrydb/skerry/engine"
)

// Limits. MaxKeyBytes is what fits into one entry of a B-tree of PostgreSQL.
const (
	MaxKeyBytes = 2600
	MaxValBytes = 16<<20 + 64
	MaxTxBytes  = 64 << 20
)

// Defaults of Options.
const (
	DefaultSchema       = "skerry"
	DefaultHistory      = 100_000
	DefaultHistoryBytes = 256 << 20
	DefaultHistoryAge   = 7 * 24 * time.Hour
	DefaultViewConns    = 16
	DefaultFeedConns    = 2
	DefaultQueue        = 4096
	DefaultPatience     = 10 * time.Second
)

// Bounds that are not options.
const (
	maxBatchCalls = 512                    // calls that one batch begins
	maxBatchBytes = 8 << 20                // a batch runs no further transaction once it has written so much
	statementTime = 30 * time.Second       // one round trip; the server is taken for lost after it
	idleTime      = 60 * time.Second       // a function that keeps the writer waiting for longer loses its batch
	lockTime      = 10 * time.Second       // how long a batch waits for those of other processes
	rowLockTime   = 100 * time.Millisecond // how long a batch waits for a row that another program has locked
	probeTime     = 10 * time.Second       // a round trip that asks for nothing but the position
	pollEvery     = 2 * time.Second        // how often the position is read in case a notification was lost
	standbyPoll   = 20 * time.Millisecond
	closeGrace    = 5 * time.Second // how long Close waits for a batch that is on its way
	maxAgain      = 3               // how often a transaction is run again because of other programs
	maxTries      = 20              // of one batch or view
)

// Options configures Open. The zero value works.
type Options struct {
	Logger *slog.Logger     // nil: none
	Now    func() time.Time // the clock of transactions; nil: the server's

	// How many changes are kept for readers of Changes: at most History transactions,
	// HistoryBytes of keys and values and those of the last HistoryAge, with some slack. 0:
	// the defaults.
	History      int
	HistoryBytes int
	HistoryAge   time.Duration

	// Attached is what transactions carry as engine.Attacher. Setup has the statements that
	// create what it needs; they run on a primary whenever it is opened, and must not fail when
	// they run again.
	Attached any
	Setup    []string

	ViewConns int           // connections for views; 0: DefaultViewConns
	FeedConns int           // connections for readers of Changes; 0: DefaultFeedConns
	Queue     int           // updates that wait; 0: DefaultQueue. One more is refused with queue_full
	Patience  time.Duration // how long a call waits for a server that is away; 0: DefaultPatience

	limits limits // the zero value: the constants
}

func (o Options) withDefaults() Options {
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	o.History = cmp.Or(o.History, DefaultHistory)
	o.HistoryBytes = cmp.Or(o.HistoryBytes, DefaultHistoryBytes)
	o.HistoryAge = cmp.Or(o.HistoryAge, DefaultHistoryAge)
	o.ViewConns = cmp.Or(o.ViewConns, DefaultViewConns)
	o.FeedConns = cmp.Or(o.FeedConns, DefaultFeedConns)
	o.Queue = cmp.Or(o.Queue, DefaultQueue)
	o.Patience = cmp.Or(o.Patience, DefaultPatience)
	o.limits = o.limits.withDefaults()
	return o
}

func (o Options) check() error {
	for _, n := range []struct {
		name string
		val  int
	}{
		{"History", o.History}, {"HistoryBytes", o.HistoryBytes}, {"HistoryAge", int(o.HistoryAge)}, {"ViewConns", o.ViewConns},
		{"FeedConns", o.FeedConns}, {"Queue", o.Queue}, {"Patience", int(o.Patience)},
	} {
		if n.val < 0 {
			return engine.Errorf(engine.CodeInvalid, "postgres: Options.%s is negative", n.name)
		}
	}
	return nil
}

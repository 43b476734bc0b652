package series

import "time"

// Limits of what callers ask for. Beyond them the errors are engine.CodeLimit, or the code that is named.
const (
	MaxCollections  = 100        // of one engine
	MaxSeries       = 16 << 20   // of one collection, whatever its options say
	MaxLabels       = 100        // of one series, with its name
	MaxNameBytes    = 256        // of the name of a label
	MaxValueBytes   = 2048       // of the value of a label, and of the name of a series
	MaxLabelsBytes  = 8 << 10    // of all labels of a series, in their encoding
	MaxMatchers     = 64         // of one query
	MaxRegexpBytes  = 4096       // of one matcher
	MaxDefine       = 10_000     // series that one transaction defines; more are defined in several
	MaxBatchSamples = 1_000_000  // of one Append: CodeBatchTooLarge
	MaxHeadSamples  = 32 << 20   // in memory of one collection, not sealed yet: CodeBusy
	MaxQuerySeries  = 200_000    // that one query reads samples of: CodeQueryLimit
	MaxQuerySamples = 20_000_000 // that one query returns: CodeQueryLimit
	MaxReadSamples  = 2e9        // that one query reads to aggregate them: CodeQueryLimit
	MaxWindows      = 11_000     // of one series, in one query that aggregates: CodeQueryLimit
	MaxWatches      = 1000       // of one collection
)

const (
	maxCollectionName = 64
	maxID             = 1<<32 - 2 // of a series
	defaultAhead      = 10 * time.Minute
	defaultMaxSeries  = 1_000_000

	generationSamples = 2 << 20        // after which a generation is full
	generationBatches = 64 << 10       // likewise
	generationAge     = 24 * time.Hour // likewise, see worker.age
	maxBatchBytes     = 12 << 20       // of one encoded batch
	maxTxBytes        = 16 << 20       // that one transaction of ours writes
	blockBytes        = 64 << 10       // after which a block of chunks is full
	sealTxBytes       = 2 << 20        // of blocks that one transaction writes
	agePause          = time.Minute    // between looks at the age of a generation
	leaseFor          = 10 * time.Second
	mergeFanIn        = 8
	workPause         = 2 * time.Second // between looks for work, and after an error
	checkedWithin     = time.Minute     // before a batch is appended, its samples were within the bounds
	applyWait         = 5 * time.Second // for a committed batch to be in memory
	sweepAtLeast      = time.Hour       // between looks for series without samples
	sweepBytes        = 8 << 20         // of blocks that one view of a sweep reads
	appendTries       = 100             // of a batch while series are removed: CodeBusy
)

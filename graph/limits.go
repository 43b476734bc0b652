package graph

// Limits of what callers ask for. Beyond them the errors are engine.CodeLimit.
const (
	MaxGraphs           = 1000     // of one engine
	MaxNames            = 1 << 20  // labels and keys of properties of one graph, together
	MaxNameBytes        = 256      // of one of them, and of a graph's name
	MaxIDBytes          = 256      // of an id that is a string
	MaxLabels           = 16       // of one vertex
	MaxProperties       = 100_000  // of one element
	MaxDepth            = 32       // of lists and maps in a property
	MaxIndexes          = 100      // of one graph
	MaxIndexKeys        = 8        // of one index
	MaxPropertyBytes    = 16 << 20 // of one value
	MaxEntries          = 100_000  // of one element in one index: with several values of its keys, one for each combination
	MaxSchemaTypes      = 1000     // types of vertices and of edges that a schema declares, together
	MaxSchemaProperties = 10_000   // properties that the types of a schema have, and labels at the ends of edges, together
	MaxLeaving          = 1000     // vertices of one graph that DB.RemoveVertex is removing
)

const (
	// ownIDs is the least number that no id without a name of its own has: a whole
	// number below is a vertex's number, so that the counter must pass it.
	ownIDs = 1 << 52
	// firstPage and maxPage are how many elements a scan reads at once, from the
	// first page to later ones, unless they have more than maxPageBytes.
	firstPage    = 32
	maxPage      = 1024
	maxPageBytes = 1 << 20
	// indexText is how much of a string an index has, with its escapes. It is stored:
	// do not change it.
	indexText = 200
	// maxKeyBytes bounds the keys of graphs: those of an index with MaxIndexKeys
	// strings are the longest.
	maxKeyBytes = 2048
	// A transaction of a batch ends after one of these. They keep other writers
	// waiting for some milliseconds, and are far below the limits of all engines.
	batchWrites    = 1000
	batchBytes     = 4 << 20
	batchReads     = 4000
	batchReadBytes = 16 << 20
	// leastTxBytes is what a transaction can write on an engine that does not say it.
	leastTxBytes = 1 << 20
)

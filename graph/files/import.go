package files

import (
	"cmp"
	"context"
	"iter"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/graph"
)

// The batches of an import, by default.
const (
	defaultBatch      = 500
	defaultBatchBytes = 1 << 20
)

// Source is a graph in files.
type Source struct {
	Format   Format
	Vertices []File
	Edges    []File // of CSV; in other formats the files of vertices have the edges, and Edges is empty
}

// edges returns the files that have the edges.
func (s Source) edges() []File {
	if s.Format == CSV {
		return s.Edges
	}
	return s.Vertices
}

// size returns how many bytes both passes read; 0: unknown.
func (s Source) size() (n int64) {
	for _, files := range [][]File{s.Vertices, s.edges()} {
		for _, f := range files {
			if f.Size <= 0 {
				return 0
			}
			n += f.Size
		}
	}
	return n
}

// ImportOptions are options of Import. The zero value works.
type ImportOptions struct {
	ReadOptions
	// Batch and BatchBytes bound a transaction: by the number of elements, and by
	// about how many bytes it writes, which one element alone may exceed. 0 means 500, and
	// 1 MiB.
	Batch, BatchBytes int
	// Resume leaves out elements that are in the graph already. They must be as in
	// the file: the same labels, properties in the same order, and vertices of an edge.
	// Otherwise the error is CodeDiffers. Without it they are graph.CodeExists.
	Resume bool
	// SkipDangling leaves out edges whose vertices are not in the graph. Otherwise they
	// are CodeDangling.
	SkipDangling bool
	// EdgeIDs begins the ids of edges that have none in the file: what follows is the
	// number of the edge in its file. "": the graph gives them ids, and they cannot be
	// resumed. Only GraphML has such edges.
	EdgeIDs string
	// Progress is called after each transaction; nil: never.
	Progress func(Stats)
}

// Stats counts what was done.
type Stats struct {
	Vertices, Edges int64 // that were written
	Present         int64 // elements that an import left out, since the graph had them
	Dangling        int64 // edges that an import left out
	LeftOut         int64 // values that an export left out
	Bytes           int64 // that were read or written; both passes over a file count
	Total           int64 // that are to be read; 0: unknown
}

// Import adds the elements of files to the graph with a name: in one pass the
// vertices, in another the edges, in transactions of a bounded size. The ids in the files
// become the elements' own ones.
//
// After an error, elements of completed transactions stay in the graph. Stats counts
// them. Calling Import again with Resume set continues.
func Import(ctx context.Context, db *graph.DB, name string, src Source, o ImportOptions) (Stats, error) {
	im := &importer{db: db, name: name, o: o, stats: Stats{Total: src.size()}}
	if err := im.check(src); err != nil {
		return im.stats, err
	}
	base := int64(0)
	for _, f := range src.Vertices {
		if err := importFile(ctx, im, base, f.Vertices(src.Format, o.ReadOptions), im.vertex, &im.stats.Vertices); err != nil {
			return im.stats, err
		}
		base = im.passed(base, f)
	}
	for _, f := range src.edges() {
		im.edgeIDs = cmp.Or(f.EdgeIDs, o.EdgeIDs)
		if err := importFile(ctx, im, base, f.Edges(src.Format, o.ReadOptions), im.edge, &im.stats.Edges); err != nil {
			return im.stats, err
		}
		base = im.passed(base, f)
	}
	return im.stats, nil
}

// passed returns the bytes that have been read after a file.
func (im *importer) passed(base int64, f File) int64 {
	if f.Size > 0 {
		im.stats.Bytes = base + f.Size
	}
	return im.stats.Bytes
}

// importer is a call of Import.
type importer struct {
	db    *graph.DB
	name  string
	o     ImportOptions
	stats Stats

	edgeIDs string // of the file that is read
}

func (im *importer) check(src Source) error {
	switch {
	case im.o.Batch < 0 || im.o.Batch > MaxBatch:
		return engine.Errorf(engine.CodeInvalid, "Batch is from 0 to %d (MaxBatch)", MaxBatch)
	case im.o.BatchBytes < 0 || im.o.BatchBytes > MaxBatchBytes:
		return engine.Errorf(engine.CodeInvalid, "BatchBytes is from 0 to %d (MaxBatchBytes)", MaxBatchBytes)
	case src.Format != CSV && len(src.Edges) > 0:
		return engine.Errorf(engine.CodeInvalid, "only CSV has files of edges; in %v they are in those of vertices", src.Format)
	}
	if im.o.Batch == 0 {
		im.o.Batch = defaultBatch
	}
	if im.o.BatchBytes == 0 {
		im.o.BatchBytes = defaultBatchBytes
	}
	return nil
}

// record is a *Vertex or an *Edge.
type record interface {
	position() Position
	// weight is about how many bytes adding it writes: its record is written again
	// for each property.
	weight() int
}

func (v *Vertex) position() Position { return v.At }
func (e *Edge) position() Position   { return e.At }

func (v *Vertex) weight() int { return int(v.At.Bytes) * (2 + len(v.Properties)) / 2 }
func (e *Edge) weight() int   { return int(e.At.Bytes) * (2 + len(e.Properties)) / 2 }

// outcome is what became of a record.
type outcome uint8

const (
	written outcome = iota
	present
	dangling
)

// importFile imports the records of a file in batches. base is how many bytes were
// read before. written is the count to raise.
func importFile[R record](ctx context.Context, im *importer, base int64, all iter.Seq2[R, error], add func(*graph.Tx, R) (outcome, error), count *int64) error {
	var batch []R
	size := 0
	flush := func() error {
		if len(batch) == 0 {
			return nil
		}
		if err := commit(ctx, im, batch, add, count); err != nil {
			return err
		}
		last := batch[len(batch)-1].position()
		im.stats.Bytes = base + last.Offset + last.Bytes
		clear(batch) // may be large
		batch, size = batch[:0], 0
		if im.o.Progress != nil {
			im.o.Progress(im.stats)
		}
		return nil
	}
	for rec, err := range all {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		n := rec.weight()
		if len(batch) > 0 && size+n > im.o.BatchBytes {
			if err := flush(); err != nil {
				return err
			}
		}
		batch, size = append(batch, rec), size+n
		if len(batch) >= im.o.Batch {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	return flush()
}

// commit adds a batch in one transaction, or in several if the engine finds it too
// large.
func commit[R record](ctx context.Context, im *importer, batch []R, add func(*graph.Tx, R) (outcome, error), count *int64) error {
	var n [dangling + 1]int64
	_, err := im.db.Update(ctx, im.name, func(t *graph.Tx) error {
		clear(n[:]) // this may run again
		for _, rec := range batch {
			out, err := add(t, rec)
			if err != nil {
				return err
			}
			n[out]++
		}
		return nil
	})
	if engine.CodeOf(err) == engine.CodeTxTooLarge && len(batch) > 1 {
		half := len(batch) / 2
		if err := commit(ctx, im, batch[:half], add, count); err != nil {
			return err
		}
		return commit(ctx, im, batch[half:], add, count)
	}
	if err != nil {
		return err
	}
	*count += n[written]
	im.stats.Present += n[present]
	im.stats.Dangling += n[dangling]
	return nil
}

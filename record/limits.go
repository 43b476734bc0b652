package record

import (
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/record/keys"
	"github.com/skerrydb/skerry/record/query"
)

// Limits of one query of an actor who is not System. They are lower than those of package keys, because anyone may ask
// who may list a collection.
const (
	MaxCounted      = 10_000  // records that a count or aggregates read; a count beyond it is a lower bound
	MaxPast         = 2_000   // records whose history a query of the past reads, besides those that it returns, and its expansions
	MaxFollowed     = 100_000 // references that the filter and the rules follow
	MaxExpandedRead = 20_000  // records that expansions read

	// MaxExpandedBytes bounds the records that expansions read, and those that they add to the page, in bytes as they are
	// stored. A record that several others refer to is added to each of them.
	MaxExpandedBytes = 16 << 20
)

// counting returns a search as it is for counts and aggregates of the actor.
func (t *Tx) counting(s *keys.Search) *keys.Search {
	all := *s
	if !t.actor.System {
		all.Most, all.AtLeast = MaxCounted, true
		if s.Past != nil {
			all.Most = MaxPast
		}
	}
	return &all
}

// follows counts a reference that a query follows.
func (t *Tx) follows() error {
	if !t.finding || t.actor.System {
		return nil
	}
	if t.followed++; t.followed > MaxFollowed {
		return engine.Errorf(CodeScan, "the query would follow more than %d references; narrow the filter, or follow fewer in it", MaxFollowed)
	}
	return nil
}

// allow counts n records that expansions read.
func (l *lookup) allow(n int) error {
	if l.past != nil {
		if l.read += n; l.read > MaxPast && !l.t.actor.System {
			return engine.Errorf(CodeScan, "the expansions would read the histories of more than %d records; ask for smaller pages, or for fewer references to them", MaxPast)
		}
		return nil
	}
	if l.read += n; l.read > MaxExpandedRead && !l.t.actor.System {
		return engine.Errorf(CodeScan, "the expansions would read more than %d records; ask for smaller pages, or index the fields that refer to their records", MaxExpandedRead)
	}
	return nil
}

// allowBytes counts n bytes of records that expansions have read, in read, or add to the page, in shown.
func (l *lookup) allowBytes(read, shown int) error {
	l.bytes += read
	l.shown += shown
	if max(l.bytes, l.shown) > MaxExpandedBytes && !l.t.actor.System {
		return engine.Errorf(CodeTooLarge, "the expansions have more than %d bytes of records; ask for smaller pages or fewer references", MaxExpandedBytes)
	}
	return nil
}

// sizeOf returns how many bytes of records an expansion adds to a page.
func sizeOf(all []query.Related) (n int) {
	for i := range all {
		for _, row := range all[i].Rows {
			n += row.(*Record).Size() // as lookup returns them
		}
		for _, of := range all[i].Of {
			n += sizeOf(of)
		}
	}
	return n
}

package cli

import (
	"cmp"
	"fmt"
	"hash/maphash"
	"slices"

	"github.com/skerrydb/skerry/web/records"
)

// references follows those between records of a file whose parts are checked one by one. The nil *references follows
// none.
type references struct {
	seed  maphash.Seed
	lines map[uint64]int32  // of the records that were found, by the hashes of their ids
	open  []records.Pending // to records that are neither in the store nor in a part up to that of the reference
}

func newReferences() *references {
	return &references{seed: maphash.MakeSeed(), lines: map[uint64]int32{}}
}

// found notes the line of a record.
func (r *references) found(id string, line int) {
	h := maphash.String(r.seed, id)
	if _, before := r.lines[h]; !before {
		r.lines[h] = int32(line)
	}
}

// add takes the references of a part over that the server has not found, and keeps those that lead to no record of that
// part or one before it.
func (r *references) add(t part, in *records.Imported) {
	if r == nil {
		return
	}
	failed := 0 // the last line that was counted
	for _, p := range in.Pending {
		if _, ok := r.lines[maphash.String(r.seed, p.ID)]; ok {
			continue
		}
		p.Line = t.line(p.Line)
		r.open = append(r.open, p)
		if p.Line == failed {
			continue
		}
		failed = p.Line
		if in.Failed++; p.Update {
			in.Updated--
		} else {
			in.Created--
		}
	}
}

// wrong returns what is wrong with the references that were kept, when the whole file was read.
func (r *references) wrong(batch int) (all []string) {
	if r == nil {
		return nil
	}
	slices.SortStableFunc(r.open, func(a, b records.Pending) int { return cmp.Compare(a.Line, b.Line) })
	for _, p := range r.open {
		m := records.Mistake{Line: p.Line, Column: p.Column, Field: p.Field, Detail: fmt.Sprintf("there is no record %.80q", p.ID)}
		if line, ok := r.lines[maphash.String(r.seed, p.ID)]; ok {
			m.Detail = fmt.Sprintf("record %.80q is in line %d, in a later batch: move it up", p.ID, line)
			if batch < records.MaxImport {
				m.Detail += fmt.Sprintf(", or use --batch %d", records.MaxImport)
			}
		}
		all = append(all, m.String())
	}
	return all
}

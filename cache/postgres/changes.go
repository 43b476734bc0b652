package postgres

import (
	"fmt"
	"slices"
	"strings"

	"github.com/skerrydb/skerry/cache"
)

// MaxChangedKeys is how many keys of one transaction are remembered; one that changes more empties the cache.
const MaxChangedKeys = 100_000

// change is one committed transaction.
type change struct {
	xid  uint32
	end  cache.Position // after its commit record
	from cache.Position // its commit record
	keys []string
	all  string // why any entry may have changed; "": only keys
}

// assembler turns messages into changes.
type assembler struct {
	tables    []*Table // their names have the schema
	relations map[uint32]*followed
	open      change // the transaction whose messages arrive
	inside    bool
}

// followed is a table that the stream has described.
type followed struct {
	table *Table // nil: none of ours
	at    []int  // where its columns are in a row
}

func newAssembler(tables []Table) *assembler {
	a := &assembler{relations: map[uint32]*followed{}}
	for i := range tables {
		a.tables = append(a.tables, &tables[i])
	}
	return a
}

// take adds a message. It returns a change that is complete, or nil.
func (a *assembler) take(m *message) (*change, error) {
	switch m.kind {
	case 0:
		return nil, nil
	case 'B':
		a.open, a.inside = change{xid: m.xid, from: m.commit}, true
		return nil, nil
	case 'R':
		return nil, a.describe(m.relation)
	}
	if !a.inside {
		return nil, fmt.Errorf("%w: a change outside of a transaction", errMessage)
	}
	switch m.kind {
	case 'C':
		done := a.open
		done.end = m.end
		a.open, a.inside = change{}, false
		return &done, nil
	case 'T':
		for _, id := range m.ids {
			if f := a.relations[id]; f != nil && f.table != nil {
				a.open.all = "table " + f.table.Name + " was truncated"
			}
		}
	default:
		f := a.relations[m.id]
		if f == nil {
			return nil, fmt.Errorf("%w: a change of a table that was not described", errMessage)
		}
		if f.table != nil {
			if m.oldKind == 'O' {
				keep(m.now, m.old)
			}
			a.add(f, m.old)
			a.add(f, m.now)
		}
	}
	return nil, nil
}

// keep fills in the long values that an update did not change, which are sent with the old row only.
func keep(now, old []value) {
	for i := range now {
		if now[i].kind == 'u' && i < len(old) {
			now[i] = old[i]
		}
	}
}

// describe notes where the columns of a table are. The description comes again when the table was altered.
func (a *assembler) describe(r relation) error {
	f := &followed{}
	a.relations[r.id] = f
	for _, t := range a.tables {
		if t.Name == r.schema+"."+r.name {
			f.table = t
		}
	}
	if f.table == nil {
		return nil
	}
	for _, name := range f.table.Columns {
		i := slices.IndexFunc(r.columns, func(c column) bool { return c.name == name })
		if i < 0 || !r.columns[i].identity {
			return identityError(f.table.Name, f.table.Columns)
		}
		f.at = append(f.at, i)
	}
	return nil
}

// add adds the keys of a row.
func (a *assembler) add(f *followed, row []value) {
	if row == nil || a.open.all != "" {
		return
	}
	values := make([]string, len(f.at))
	for i, at := range f.at {
		if at >= len(row) || row[at].kind == 'u' {
			a.open.all = "a change of table " + f.table.Name + " does not have its columns " + strings.Join(f.table.Columns, ", ")
			return
		}
		values[i] = string(row[at].text)
	}
	a.open.keys = append(a.open.keys, f.table.keys(values)...)
	if len(a.open.keys) > MaxChangedKeys {
		a.open.keys, a.open.all = nil, fmt.Sprintf("a transaction changed more than %d keys", MaxChangedKeys)
	}
}

// compact removes repeated keys.
func (c *change) compact() {
	if len(c.keys) > 1 {
		slices.Sort(c.keys)
		c.keys = slices.Compact(c.keys)
	}
}

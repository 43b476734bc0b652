package records

import (
	"encoding/json"

	"github.com/skerrydb/skerry/record/schema"
)

// reference is that of a row to a record of the same collection.
type reference struct {
	id   string
	line int // of the row with that id; 0: there is none in the file
}

// sorter puts rows into an order in which none refers to a later one, so that the lines of a file can have any order.
type sorter struct {
	fields []string // references to the same collection
	rows   []*row
	byID   map[string]*row
	done   map[*row]bool // false: being placed
	order  []*row
}

func newSorter(k *schema.Compiled) *sorter {
	s := &sorter{byID: map[string]*row{}, done: map[*row]bool{}}
	for _, f := range k.Fields {
		if f.Type == schema.Reference && f.Collection == k.Name {
			s.fields = append(s.fields, f.Name)
		}
	}
	return s
}

// add adds a row.
func (s *sorter) add(x row) {
	var data map[string]json.RawMessage
	if json.Unmarshal(x.data, &data) == nil { // otherwise the row is a mistake
		x.refers = map[string]reference{}
		for _, name := range s.fields {
			var id string
			if json.Unmarshal(data[name], &id) == nil && id != "" {
				x.refers[name] = reference{id: id}
			}
		}
	}
	s.rows = append(s.rows, &x)
	if x.id != "" && s.byID[x.id] == nil {
		s.byID[x.id] = &x
	}
}

// sort returns all rows in their new order.
func (s *sorter) sort() []*row {
	for _, x := range s.rows {
		s.place(x)
	}
	return s.order
}

// place puts the rows that x refers to, and then x, behind those that have a place.
func (s *sorter) place(x *row) {
	if _, begun := s.done[x]; begun {
		return
	}
	s.done[x] = false
	for _, name := range s.fields {
		ref := x.refers[name]
		to := s.byID[ref.id]
		if to == nil {
			continue
		}
		ref.line = to.line
		x.refers[name] = ref
		s.place(to)
		x.cyclic = x.cyclic || !s.done[to] && to != x
	}
	s.done[x] = true
	s.order = append(s.order, x)
}

package series

import "iter"

// membersPage is how many ids share one allocation.
const membersPage = 256

// members has the series of a head by id. Ids only grow, and those of removed series are never used again, so pages without
// series are freed. The head's mutex guards it.
type members struct {
	pages []*memberPage // by (id-1)/membersPage; nil: no series
	n     int
}

type memberPage struct {
	list [membersPage]member
	n    int // that are in use
}

// get returns the series with an id, nil if there is none. It is valid until the head's mutex is released.
func (ms *members) get(id uint32) *member {
	page := (id - 1) / membersPage // that of 0 is beyond the others
	if int(page) >= len(ms.pages) || ms.pages[page] == nil {
		return nil
	}
	if m := &ms.pages[page].list[(id-1)%membersPage]; m.pairs != nil {
		return m
	}
	return nil
}

// add adds a series that is not there yet. Pairs are its labels, at least one.
func (ms *members) add(id uint32, pairs []uint32) {
	page := int((id - 1) / membersPage)
	for page >= len(ms.pages) {
		ms.pages = append(ms.pages, nil)
	}
	p := ms.pages[page]
	if p == nil {
		p = &memberPage{}
		ms.pages[page] = p
	}
	p.list[(id-1)%membersPage] = member{pairs: pairs}
	p.n++
	ms.n++
}

// remove removes a series that is there.
func (ms *members) remove(id uint32) {
	page := (id - 1) / membersPage
	p := ms.pages[page]
	p.list[(id-1)%membersPage] = member{}
	ms.n--
	if p.n--; p.n == 0 {
		ms.pages[page] = nil
	}
}

// all yields the series in the order of their ids.
func (ms *members) all() iter.Seq2[uint32, *member] {
	return func(yield func(uint32, *member) bool) {
		for i, p := range ms.pages {
			if p == nil {
				continue
			}
			for j := range p.list {
				if p.list[j].pairs != nil && !yield(uint32(i*membersPage+j+1), &p.list[j]) {
					return
				}
			}
		}
	}
}

// ids returns the ids of all series, ascending.
func (ms *members) ids() []uint32 {
	out := make([]uint32, 0, ms.n)
	for id := range ms.all() {
		out = append(out, id)
	}
	return out
}

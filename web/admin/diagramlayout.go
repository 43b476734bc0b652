package admin

import (
	"cmp"
	"fmt"
	"slices"
)

// The sizes of the diagram, in the units of the drawing.
const (
	boxWidth    = 230
	headHeight  = 34
	rowHeight   = 22
	boxFoot     = 8
	gapX        = 90   // between columns, where arrows turn
	gapY        = 28   // between boxes
	laneHeight  = 12   // what an arrow takes where it passes a column
	columnLimit = 1800 // a column that is higher gives boxes to the next
	edge        = 16   // around everything
	screen      = 700  // what one sees at once
	sweeps      = 6    // of the ordering of boxes in columns
)

// place is a box in a column, or where an arrow passes a column.
type place struct {
	box    *box // nil: an arrow passes
	column int
	height int
	x, y   int
	left   []*place // what it is linked to in the column before
	right  []*place // and in the next
	rank   float64
}

// link is a reference from a field of a box to another box, or to the same.
type link struct {
	from, to *box
	row      int // of the field in from
	Path     string
	Name     string // posts.author → users
}

// drawing places boxes in columns.
type drawing struct {
	columns       [][]*place
	Width, Height int
}

// layOut places the boxes: those that refer to nothing in the first column, each other one to the right of what it refers to.
// The same boxes and links always give the same drawing.
func layOut(boxes []*box, links []*link) *drawing {
	d := &drawing{}
	back := backward(boxes, links)
	linked := map[*box]bool{}
	for _, l := range links {
		if l.from != l.to {
			linked[l.from], linked[l.to] = true, true
		}
	}
	places := d.assign(boxes, links, back, linked)
	lanes := map[*link][]*place{}
	for _, l := range links {
		if l.from != l.to {
			lanes[l] = d.pass(places[l.from], places[l.to])
		}
	}
	d.order()
	d.position()
	d.rest(boxes, linked)
	for _, b := range boxes {
		if p := places[b]; p != nil {
			b.X, b.Y = p.x, p.y
		}
	}
	for _, l := range links {
		l.Path = route(l, lanes[l])
	}
	d.Width, d.Height = edge, edge
	for _, b := range boxes {
		d.Width, d.Height = max(d.Width, b.X+boxWidth+edge+loopWidth), max(d.Height, b.Y+b.Height+edge)
	}
	return d
}

// backward returns the links that close a circle; the layout takes them the other way round.
func backward(boxes []*box, links []*link) map[*link]bool {
	of := map[*box][]*link{}
	for _, l := range links {
		of[l.from] = append(of[l.from], l)
	}
	back, state := map[*link]bool{}, map[*box]int{} // state 1: being visited, 2: done
	var visit func(b *box)
	visit = func(b *box) {
		state[b] = 1
		for _, l := range of[b] {
			switch {
			case l.to == b:
			case state[l.to] == 1:
				back[l] = true
			case state[l.to] == 0:
				visit(l.to)
			}
		}
		state[b] = 2
	}
	for _, b := range boxes {
		if state[b] == 0 {
			visit(b)
		}
	}
	return back
}

// assign gives each linked box a column: after those that it refers to, and where there is room.
func (d *drawing) assign(boxes []*box, links []*link, back map[*link]bool, linked map[*box]bool) map[*box]*place {
	below := map[*box][]*box{} // what must be in an earlier column
	for _, l := range links {
		switch {
		case l.from == l.to:
		case back[l]:
			below[l.to] = append(below[l.to], l.from)
		default:
			below[l.from] = append(below[l.from], l.to)
		}
	}
	depth := map[*box]int{}
	var deep func(b *box) int
	deep = func(b *box) int {
		if n, ok := depth[b]; ok {
			return n
		}
		n := 0
		for _, t := range below[b] {
			n = max(n, deep(t)+1)
		}
		depth[b] = n
		return n
	}
	sorted := slices.Clone(boxes)
	slices.SortStableFunc(sorted, func(a, b *box) int { return cmp.Compare(deep(a), deep(b)) })
	places, heights := map[*box]*place{}, map[int]int{}
	for _, b := range sorted {
		if !linked[b] {
			continue
		}
		p := &place{box: b, height: b.Height}
		for _, t := range below[b] {
			p.column = max(p.column, places[t].column+1)
		}
		for heights[p.column] > 0 && heights[p.column]+b.Height > columnLimit {
			p.column++
		}
		heights[p.column] += b.Height + gapY
		places[b] = p
		d.put(p)
	}
	return places
}

func (d *drawing) put(p *place) {
	for len(d.columns) <= p.column {
		d.columns = append(d.columns, nil)
	}
	d.columns[p.column] = append(d.columns[p.column], p)
}

// pass links two places and returns where the arrow passes the columns between them, from a to b.
func (d *drawing) pass(a, b *place) (lanes []*place) {
	from, to := a, b
	if from.column > to.column {
		from, to = to, from
	}
	last := from
	for c := from.column + 1; c < to.column; c++ {
		p := &place{column: c, height: laneHeight}
		d.put(p)
		join(last, p)
		lanes, last = append(lanes, p), p
	}
	join(last, to)
	if from != a {
		slices.Reverse(lanes)
	}
	return lanes
}

func join(a, b *place) {
	a.right = append(a.right, b)
	b.left = append(b.left, a)
}

// order puts the places of each column near what they are linked to.
func (d *drawing) order() {
	for _, column := range d.columns {
		for j, p := range column {
			p.y = j
		}
	}
	for n := range sweeps {
		for i := range d.columns {
			c, near := i, func(p *place) []*place { return p.left }
			if n%2 == 1 {
				c, near = len(d.columns)-1-i, func(p *place) []*place { return p.right }
			}
			for j, p := range d.columns[c] {
				p.rank = mean(near(p), float64(j))
			}
			slices.SortStableFunc(d.columns[c], func(a, b *place) int { return cmp.Compare(a.rank, b.rank) })
			for j, p := range d.columns[c] {
				p.y = j // the rank for the next column
			}
		}
	}
}

func mean(all []*place, otherwise float64) float64 {
	if len(all) == 0 {
		return otherwise
	}
	sum := 0
	for _, p := range all {
		sum += p.y
	}
	return float64(sum) / float64(len(all))
}

// position gives each place its x and y. Columns are centred if one sees the whole diagram at once.
func (d *drawing) position() {
	heights, most := make([]int, len(d.columns)), 0
	for i, column := range d.columns {
		for j, p := range column {
			heights[i] += p.height + gapAfter(column, j)
		}
		most = max(most, heights[i])
	}
	for i, column := range d.columns {
		y := edge
		if most <= screen {
			y += (most - heights[i]) / 2
		}
		for j, p := range column {
			p.x, p.y = edge+i*(boxWidth+gapX), y
			y += p.height + gapAfter(column, j)
		}
	}
}

// gapAfter is the gap after a place of a column; arrows that pass beside one another need none.
func gapAfter(column []*place, i int) int {
	if i+1 < len(column) && column[i].box == nil && column[i+1].box == nil {
		return 0
	}
	return gapY
}

// rest places the boxes without links in rows beneath the others.
func (d *drawing) rest(boxes []*box, linked map[*box]bool) {
	top, across := edge, max(len(d.columns), 4)
	for _, column := range d.columns {
		for _, p := range column {
			top = max(top, p.y+p.height+gapY)
		}
	}
	n, high := 0, 0
	for _, b := range boxes {
		if linked[b] {
			continue
		}
		if n == across {
			top, n, high = top+high+gapY, 0, 0
		}
		b.X, b.Y = edge+n*(boxWidth+gapX/2), top
		n, high = n+1, max(high, b.Height)
	}
}

// loopWidth is how far an arrow of a box to itself goes out.
const loopWidth = 26

// route returns the path of an arrow: from the row of its field to the head of the other box, along the lanes.
func route(l *link, lanes []*place) string {
	y := l.from.Y + headHeight + l.row*rowHeight + rowHeight/2
	end := l.to.Y + headHeight/2
	if l.from == l.to {
		x := l.from.X + boxWidth
		return fmt.Sprintf("M%d %d C%d %d %d %d %d %d", x, y, x+loopWidth, y, x+loopWidth, end, x+arrow, end)
	}
	// To the left as a rule, to the right for what closes a circle.
	from, to, dir := l.from.X, l.to.X+boxWidth, -1
	if l.to.X > l.from.X {
		from, to, dir = l.from.X+boxWidth, l.to.X, 1
	}
	path := fmt.Sprintf("M%d %d", from, y)
	x := from
	bend := func(toX, toY int) {
		half := (toX - x) / 2
		path += fmt.Sprintf(" C%d %d %d %d %d %d", x+half, y, toX-half, toY, toX, toY)
		x, y = toX, toY
	}
	for _, p := range lanes {
		near, far := p.x+boxWidth, p.x
		if dir > 0 {
			near, far = p.x, p.x+boxWidth
		}
		bend(near, p.y+p.height/2)
		path += fmt.Sprintf(" H%d", far)
		x = far
	}
	bend(to-dir*arrow, end)
	return path
}

// arrow is the length of the head of an arrow.
const arrow = 9

// Package picture draws small networks as SVG: names on an ellipse, arrows between them, and what they share in the middle.
//
// It knows ellipses, curves and text. It must not know graphs, or what the names stand for.
package picture

import (
	"fmt"
	"html"
	"math"
	"strings"
)

// The size of a picture, in its own units. On a phone one unit is a little less than a pixel.
const (
	width, height = 400.0, 480.0
	wide, high    = 140.0, 195.0 // of the ellipse, from its centre: upright, since labels are wide
	bend          = 0.14         // how far an arrow bends, as a part of its length
	pill          = 32.0         // the height of the shape around a name
	letter        = 8.2          // the width of a letter
	head          = 10.0         // the length of an arrow's head
	line          = 17.0         // between lines of text
	margin        = 36.0         // above and below everything
)

// Picture is what is drawn. Names that are not in the middle stand on an ellipse in their order, clockwise from the top.
type Picture struct {
	ID     string // begins the ids of its elements, which must differ from those of other pictures on a page
	Title  string
	About  string // describes the picture to people who do not see it
	Names  []Name
	Arrows []Arrow
	Lines  []Line
}

// Name is a name in a shape.
type Name struct {
	Text   string
	Middle bool // at most one is
}

// Arrow leads from one name to another, both by their index.
type Arrow struct {
	From, To int
	Labels   []string // lines of text at its middle
}

// Line joins two names, without a direction.
type Line struct{ From, To int }

// style is for pictures that are files. On pages, the style sheet of the application has these rules.
const style = `text { font: 14px system-ui, sans-serif; text-anchor: middle; fill: #1b1f24; stroke: #fff; stroke-width: 4px; paint-order: stroke }
.name text { font-weight: 600; stroke: none } .name rect { fill: #e8eefc; stroke: #2f5bd0; stroke-width: 1.5 }
.middle rect { fill: #fff3d6; stroke: #8a5a00 } .arrow path { fill: none; stroke: #2f5bd0; stroke-width: 2 } .arrow polygon { fill: #2f5bd0 }
.line { stroke: #8a5a00; stroke-width: 1.5; stroke-dasharray: 5 4 } .ground { fill: #fff }
@media (prefers-color-scheme: dark) { text { fill: #e6e9ee; stroke: #14171c } .name rect { fill: #1d2a4a; stroke: #8fb0ff } .middle rect { fill: #3a2c0c; stroke: #e2b45c }
.arrow path { stroke: #8fb0ff } .arrow polygon { fill: #8fb0ff } .line { stroke: #e2b45c } .ground { fill: #14171c } }`

// File returns the picture as a file, which has its own colors, for light and for dark.
func (p Picture) File() string {
	return p.svg(` xmlns="http://www.w3.org/2000/svg"`, "<style>\n"+style+"\n</style>\n<rect class=\"ground\" y=\"-999\" width=\"400\" height=\"2000\"/>\n")
}

// Inline returns the picture as a part of a page, which must have rules for its classes: name, middle, arrow and line.
func (p Picture) Inline() string { return p.svg(` class="picture"`, "") }

func (p Picture) svg(attributes, first string) string {
	var b strings.Builder
	id := html.EscapeString(p.ID)
	at := p.places()
	curves := make([]curve, len(p.Arrows))
	top, bottom := height/2, height/2
	for i, a := range p.Arrows {
		curves[i] = bow(at[a.From], at[a.To], p.Names[a.From].width(), p.Names[a.To].width())
		top, bottom = min(top, curves[i].point(0.5).y), max(bottom, curves[i].point(0.5).y)
	}
	for _, a := range at {
		top, bottom = min(top, a.y), max(bottom, a.y)
	}
	top, bottom = math.Floor(top-margin), math.Ceil(bottom+margin)
	fmt.Fprintf(&b, `<svg%s viewBox="0 %.0f %.0f %.0f" role="img" aria-labelledby="%s-title %s-about">`+"\n", attributes, top, width, bottom-top, id, id)
	fmt.Fprintf(&b, "<title id=\"%s-title\">%s</title>\n<desc id=\"%s-about\">%s</desc>\n%s", id, html.EscapeString(p.Title), id, html.EscapeString(p.About), first)
	for _, l := range p.Lines {
		from, to := at[l.From], at[l.To]
		fmt.Fprintf(&b, `<line class="line" x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f"/>`+"\n", from.x, from.y, to.x, to.y)
	}
	for _, c := range curves {
		c.draw(&b)
	}
	for i, n := range p.Names {
		n.draw(&b, at[i])
	}
	for i, a := range p.Arrows { // last, so that nothing is drawn over a label
		labels(&b, curves[i].point(0.5), a.Labels)
	}
	b.WriteString("</svg>\n")
	return b.String()
}

type point struct{ x, y float64 }

// places returns where the names stand.
func (p Picture) places() []point {
	around := 0
	for _, n := range p.Names {
		if !n.Middle {
			around++
		}
	}
	at, i := make([]point, len(p.Names)), 0
	for k, n := range p.Names {
		if at[k] = (point{width / 2, height / 2}); n.Middle {
			continue
		}
		angle := 2*math.Pi*float64(i)/float64(around) - math.Pi/2
		at[k].x += wide * math.Cos(angle)
		at[k].y += high * math.Sin(angle)
		i++
	}
	return at
}

func (n Name) width() float64 { return letter*float64(len([]rune(n.Text))) + 22 }

func (n Name) draw(b *strings.Builder, at point) {
	class := "name"
	if n.Middle {
		class = "name middle"
	}
	w := n.width()
	fmt.Fprintf(b, `<g class="%s"><rect x="%.1f" y="%.1f" width="%.1f" height="%.0f" rx="%.0f"/><text x="%.1f" y="%.1f">%s</text></g>`+"\n",
		class, at.x-w/2, at.y-pill/2, w, pill, pill/2, at.x, at.y+5, html.EscapeString(n.Text))
}

// labels writes lines of text around a point.
func labels(b *strings.Builder, at point, lines []string) {
	for i, text := range lines {
		y := at.y + 5 + line*(float64(i)-float64(len(lines)-1)/2)
		fmt.Fprintf(b, `<text class="label" x="%.1f" y="%.1f">%s</text>`+"\n", at.x, y, html.EscapeString(text))
	}
}

// curve is a part of a quadratic Bézier curve.
type curve struct {
	a, by, b point
	from, to float64 // the part that is outside of the names
}

// bow returns the curve of an arrow, which bends to its left: on the ellipse, outwards if it leads clockwise. Arrows there
// and back are not drawn over each other.
func bow(a, b point, widthA, widthB float64) curve {
	dx, dy := b.x-a.x, b.y-a.y
	c := curve{a: a, b: b, by: point{(a.x+b.x)/2 + 2*bend*dy, (a.y+b.y)/2 - 2*bend*dx}, to: 1}
	for c.from < 0.5 && within(c.point(c.from), a, widthA, 2) {
		c.from += 0.005
	}
	for c.to > 0.5 && within(c.point(c.to), b, widthB, 3) {
		c.to -= 0.005
	}
	return c
}

// within reports whether a point is in the shape around a name, or as near as gap.
func within(p, name point, w, gap float64) bool {
	return math.Abs(p.x-name.x) < w/2+gap && math.Abs(p.y-name.y) < pill/2+gap
}

func (c curve) point(t float64) point {
	u := 1 - t
	return point{u*u*c.a.x + 2*u*t*c.by.x + t*t*c.b.x, u*u*c.a.y + 2*u*t*c.by.y + t*t*c.b.y}
}

// draw writes the curve with a head at its end.
func (c curve) draw(b *strings.Builder) {
	from, tip := c.point(c.from), c.point(c.to)
	before := c.point(c.to - 0.02)
	dx, dy := tip.x-before.x, tip.y-before.y
	if length := math.Hypot(dx, dy); length > 0 {
		dx, dy = dx/length, dy/length
	}
	neck := point{tip.x - head*dx, tip.y - head*dy}
	// The control point of the part is where the tangents at its ends meet.
	u, v := c.from, c.to
	by := point{
		(1-u)*(1-v)*c.a.x + ((1-u)*v+u*(1-v))*c.by.x + u*v*c.b.x,
		(1-u)*(1-v)*c.a.y + ((1-u)*v+u*(1-v))*c.by.y + u*v*c.b.y,
	}
	fmt.Fprintf(b, `<g class="arrow"><path d="M%.1f %.1fQ%.1f %.1f %.1f %.1f"/><polygon points="%.1f,%.1f %.1f,%.1f %.1f,%.1f"/></g>`+"\n",
		from.x, from.y, by.x, by.y, neck.x, neck.y,
		tip.x, tip.y, neck.x-head/2*dy, neck.y+head/2*dx, neck.x+head/2*dy, neck.y-head/2*dx)
}

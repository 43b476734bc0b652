package main

import (
	"fmt"
	"html"
	"math"
	"slices"
	"strings"
)

// point is a point of a line, in the units of the axes.
type point struct{ x, y float64 }

// line is one line of a chart.
type line struct {
	class  string // of its style
	name   string
	points []point
	dots   bool
}

// band is a time that is marked in a chart.
type band struct {
	class    string
	from, to float64
}

// chart is one picture with two axes.
type chart struct {
	title         string
	xName, yName  string // of the axes, with units
	logX, logY    bool
	width, height float64
	xTicks        []float64
	xText         func(float64) string
	yMax          float64 // 0: from the lines
	lines         []line
	bands         []band
}

// Room around the drawing.
const (
	roomLeft, roomRight, roomTop, roomBottom = 50.0, 14.0, 22.0, 40.0
)

// scale maps a value to a position.
type scale struct {
	low, high float64 // values; of a logarithmic scale their logarithms
	from, to  float64
	log       bool
}

func (s scale) at(v float64) float64 {
	if s.log {
		v = math.Log10(v)
	}
	if s.high == s.low {
		return (s.from + s.to) / 2
	}
	return s.from + (v-s.low)/(s.high-s.low)*(s.to-s.from)
}

// ticks returns round numbers from 0 to beyond most, about n of them.
func ticks(most float64, n int) (all []float64) {
	if most <= 0 || math.IsNaN(most) || math.IsInf(most, 0) {
		most = 1
	}
	unit := math.Pow(10, math.Floor(math.Log10(most/float64(n))))
	for _, m := range []float64{1, 2, 5, 10} {
		if most/(unit*m) <= float64(n) {
			unit *= m
			break
		}
	}
	for i := 0; ; i++ {
		v := float64(i) * unit
		all = append(all, v)
		if v >= most {
			return all
		}
	}
}

// logTicks returns 1, 2 and 5 times powers of ten around the values; only powers of ten if there are many.
func logTicks(low, high float64) (all []float64) {
	steps := []float64{1, 2, 5}
	if high/low > 200 {
		steps = steps[:1]
	}
	begin := math.Pow(10, math.Floor(math.Log10(low)))
	for decade := begin; ; decade *= 10 {
		for _, m := range steps {
			v := decade * m
			if len(all) == 1 && v <= low {
				all = all[:0] // the first is the last one that is not above low
			}
			all = append(all, v)
			if v >= high {
				return all
			}
		}
	}
}

// number formats a tick: 1500 as 1.5 k.
func number(v float64) string {
	switch {
	case v >= 1e6:
		return fmt.Sprintf("%.3g M", v/1e6)
	case v >= 1e3:
		return fmt.Sprintf("%.3g k", v/1e3)
	}
	return fmt.Sprintf("%.3g", v)
}

// scales returns the scales and the ticks of the y axis.
func (c *chart) scales() (x, y scale, yTicks []float64) {
	var ys []float64
	for _, l := range c.lines {
		for _, p := range l.points {
			ys = append(ys, p.y)
		}
	}
	most, least := c.yMax, 1.0
	if len(ys) > 0 {
		most, least = max(most, slices.Max(ys)), slices.Min(ys)
	}
	low, high := c.xTicks[0], c.xTicks[len(c.xTicks)-1]
	x = scale{low, high, roomLeft, c.width - roomRight, c.logX}
	if c.logX {
		x.low, x.high = math.Log10(low), math.Log10(high)
	}
	y = scale{0, 0, c.height - roomBottom, roomTop, c.logY}
	if c.logY && least > 0 {
		yTicks = logTicks(least, max(most, 2*least))
		y.low, y.high = math.Log10(yTicks[0]), math.Log10(yTicks[len(yTicks)-1])
	} else {
		yTicks = ticks(most, 5)
		y.high = yTicks[len(yTicks)-1]
	}
	return x, y, yTicks
}

// svg draws the chart.
func (c *chart) svg(class string) string {
	x, y, yTicks := c.scales()
	var b strings.Builder
	fmt.Fprintf(&b, `<svg class="%s" viewBox="0 0 %.0f %.0f" role="img" aria-label="%s">`+"\n", class, c.width, c.height, html.EscapeString(c.title))
	for _, k := range c.bands {
		from, to := max(x.from, x.at(k.from)), min(x.to, x.at(k.to))
		if to > from {
			fmt.Fprintf(&b, `<rect class="%s" x="%.1f" y="%.1f" width="%.1f" height="%.1f"/>`+"\n", k.class, from, y.to, max(to-from, 0.8), y.from-y.to)
		}
	}
	for _, v := range yTicks {
		stroke(&b, "grid", x.from, y.at(v), x.to, y.at(v))
		label(&b, "tick", "end", x.from-5, y.at(v)+3.5, number(v))
	}
	for _, v := range c.xTicks {
		stroke(&b, "axis", x.at(v), y.from, x.at(v), y.from+4)
		label(&b, "tick", "middle", x.at(v), y.from+16, c.xText(v))
	}
	stroke(&b, "axis", x.from, y.from, x.to, y.from)
	label(&b, "name", "end", x.to, c.height-6, c.xName)
	label(&b, "name", "start", 4, 12, c.yName)
	for _, l := range c.lines {
		l.draw(&b, x, y)
	}
	b.WriteString("</svg>\n")
	return b.String()
}

func (l *line) draw(b *strings.Builder, x, y scale) {
	var path []string
	for _, p := range l.points {
		path = append(path, fmt.Sprintf("%.1f,%.1f", x.at(p.x), y.at(p.y)))
	}
	fmt.Fprintf(b, `<polyline class="line %s" points="%s"/>`+"\n", l.class, strings.Join(path, " "))
	if !l.dots {
		return
	}
	for _, p := range l.points {
		fmt.Fprintf(b, `<circle class="dot %s" cx="%.1f" cy="%.1f" r="3"><title>%s: %s</title></circle>`+"\n",
			l.class, x.at(p.x), y.at(p.y), html.EscapeString(l.name), number(p.y))
	}
}

func stroke(b *strings.Builder, class string, x1, y1, x2, y2 float64) {
	fmt.Fprintf(b, `<line class="%s" x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f"/>`+"\n", class, x1, y1, x2, y2)
}

func label(b *strings.Builder, class, anchor string, x, y float64, text string) {
	fmt.Fprintf(b, `<text class="%s" text-anchor="%s" x="%.1f" y="%.1f">%s</text>`+"\n", class, anchor, x, y, html.EscapeString(text))
}

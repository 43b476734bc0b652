package graphs_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
)

// chain is a traversal as its units, so that it can be made shorter.
type chain []piece

// piece is a unit with its holes filled.
type piece struct {
	in, out byte
	flags   mark
	parts   []part
}

// part is text, or a traversal within one.
type part struct {
	text   string
	inner  chain
	inline bool
}

func (c chain) String() string {
	var b strings.Builder
	for _, p := range c {
		for _, x := range p.parts {
			b.WriteString(x.text)
			if x.inner != nil && !x.inline {
				b.WriteString("__")
			}
			b.WriteString(x.inner.String())
		}
	}
	return b.String()
}

// generator makes random graphs and traversals.
type generator struct {
	rnd    *rand.Rand
	ties   bool // numbers of different types may be equal
	nested int  // traversals around the one that is made
	calm   int  // steps around it in which reducing steps are refused, or have results without input
	forgot bool // paths are not defined any more
	room   int  // how many more units that multiply traversers
	names  int  // that were given
	v, e   int  // vertices and edges of the graph
	fresh  int  // ids that were given to new elements
}

// steps are the units after sources.
var steps = slices.Concat(moves, filters, branches, values)

// distance[a][b] is how many units lead from one kind to another at least.
var distance = func() (d [128][128]int) {
	kinds := "VEPNSBXACUMZ"
	for i := range d {
		for j := range d[i] {
			d[i][j] = 100
		}
		d[i][i] = 0
	}
	for _, u := range steps {
		if u.flags&(top|orders|untied) == 0 && u.out != '=' && u.in != '*' {
			d[u.in][u.out] = min(d[u.in][u.out], 1)
		}
	}
	for _, k := range kinds {
		for _, i := range kinds {
			for _, j := range kinds {
				d[i][j] = min(d[i][j], d[i][k]+d[k][j])
			}
		}
	}
	return d
}()

func pick[T any](r *rand.Rand, all ...T) T { return all[r.IntN(len(all))] }

// traversal makes a traversal that reads.
func (g *generator) traversal() chain {
	g.room, g.names, g.forgot = 4, 0, false
	src := pick(g.rnd, sources...)
	c := chain{g.fill(src, src.out)}
	c = append(c, g.walk(src.out, '*', 1+g.rnd.IntN(5))...)
	at := c[len(c)-1].out
	var last []unit
	for _, u := range values {
		if u.flags&orders != 0 && u.in == at {
			last = append(last, u)
		}
	}
	if len(last) > 0 && g.rnd.IntN(3) == 0 {
		c = append(c, g.fill(pick(g.rnd, last...), at))
	}
	return c
}

// change makes a traversal that writes.
func (g *generator) change() chain {
	g.room, g.names, g.forgot = 2, 0, false
	u := pick(g.rnd, changes...)
	for u.flags&untied != 0 && g.ties {
		u = pick(g.rnd, changes...)
	}
	c := chain{}
	if u.in != 'G' {
		src := pick(g.rnd, sources...)
		for src.flags&top != 0 || src.out != 'V' && src.out != 'E' || strings.Contains(src.text, "sack") {
			src = pick(g.rnd, sources...)
		}
		c = append(c, g.fill(src, src.out))
		c = append(c, g.walk(src.out, u.in, g.rnd.IntN(3))...)
		c = append(c, piece{u.in, u.in, 0, []part{{text: ".dedup().barrier()"}}})
	}
	c = append(c, g.fill(u, u.out))
	if u.in == 'G' { // what follows is not part of the step
		c = append(c, piece{u.out, u.out, 0, []part{{text: ".barrier()"}}})
	}
	for at := c[len(c)-1].out; at != 'Z' && g.rnd.IntN(2) == 0; at = c[len(c)-1].out {
		if u := pick(g.rnd, changes...); u.in == at && (u.flags&untied == 0 || !g.ties) {
			c = append(c, g.fill(u, at))
		}
	}
	return c
}

// walk makes about n units from one kind to another, or to any if that is '*'.
func (g *generator) walk(from, to byte, n int) chain {
	c := chain{}
	for at := from; to == '*' && n > 0 || to != '*' && (n > 0 || at != to); n-- {
		u, ok := g.step(at, to, n)
		if !ok {
			break
		}
		c = append(c, g.fill(u, at))
		at = c[len(c)-1].out
	}
	return c
}

// step chooses a unit from which the target can still be reached.
func (g *generator) step(at, to byte, n int) (unit, bool) {
	for range 2000 {
		u := pick(g.rnd, pick(g.rnd, moves, filters, branches, values)...)
		out := u.out
		if out == '=' {
			out = at
		}
		far := 0
		if to != '*' {
			far = distance[out][to]
		}
		switch {
		case u.in != at && u.in != '*', u.flags&orders != 0, u.flags&untied != 0 && g.ties, u.flags&top != 0 && (g.nested > 0 || g.rnd.IntN(2) == 0):
		case g.calm > 0 && (u.flags&reduces != 0 || forgets(u.text)), (g.forgot || g.nested > 0) && (strings.Contains(u.text, "ath()") || strings.Contains(u.text, "tree(")):
		case g.room <= 0 && u.flags&explodes != 0 && n > 0:
		case n <= 0 && far >= distance[at][to], far > max(n, 3), far >= 100: // it does not lead there
		case g.nested > 2 && strings.Contains(u.text, ":") && n > 0: // deep enough
		default:
			return u, true
		}
	}
	return unit{}, false
}

// within makes a traversal that is part of another one.
func (g *generator) within(from, to byte, least int) chain {
	g.nested++
	defer func() { g.nested-- }()
	for range 100 {
		if c := g.walk(from, to, least+g.rnd.IntN(3-least)); to == '*' || c.end(from) == to {
			return c
		}
	}
	panic(fmt.Sprintf("BUG: no way from %c to %c", from, to))
}

// forgets reports whether a unit keeps one of several traversers that are at the same place and came by different ways.
func forgets(text string) bool {
	return slices.ContainsFunc([]string{"dedup(", "limit(", "range(", "tail(", "skip(", "match("}, func(s string) bool { return strings.Contains(text, s) })
}

// fill fills the holes of a unit.
func (g *generator) fill(u unit, at byte) piece {
	p := piece{in: u.in, out: u.out, flags: u.flags}
	if p.in == '*' {
		p.in = at
	}
	if p.out == '=' {
		p.out = p.in
	}
	if u.flags&explodes != 0 {
		g.room--
		if strings.Contains(u.text, "repeat(") {
			g.room--
		}
	}
	if strings.Contains(u.text, ".optional(") || strings.Contains(u.text, ".repeat(") || strings.HasPrefix(u.text, ".local(") {
		g.calm++
		defer func() { g.calm-- }()
	}
	g.forgot = g.forgot || forgets(u.text)
	p.parts = g.parts(u.text, map[string]string{})
	return p
}

func (g *generator) parts(text string, names map[string]string) []part {
	var out []part
	for text != "" {
		before, rest, found := strings.Cut(text, "<")
		out = append(out, part{text: before})
		if !found {
			break
		}
		hole, after, _ := strings.Cut(rest, ">")
		text = after
		switch {
		case len(hole) == 3 && hole[1] == '=':
			g.nested++
			out = append(out, g.parts(pick(g.rnd, singles[hole[:1]+hole[2:]]...), map[string]string{})...)
			g.nested--
		case len(hole) == 3 && hole[1] == ':':
			c := g.within(hole[0], hole[2], 1)
			if len(c) == 0 || strings.HasPrefix(c.String(), ".as(") { // which where() would take for a label of the outer one
				c = append(chain{{hole[0], hole[0], 0, []part{{text: ".identity()"}}}}, c...)
			}
			out = append(out, part{inner: c})
		case len(hole) == 3 && hole[1] == '.':
			g.calm++ // labels have to be found after it
			out = append(out, part{inner: g.within(hole[0], hole[2], 0), inline: true})
			g.calm--
		case hole == "a" || hole == "b":
			if names[hole] == "" {
				g.names++
				names[hole] = fmt.Sprintf("%s%d", hole, g.names)
			}
			out = append(out, part{text: names[hole]})
		default:
			out = append(out, part{text: g.literal(hole)})
		}
	}
	return out
}

var (
	untiedNumbers = []string{"-3", "0", "1", "7", "40", "2L", "9L", "3000000000L", "0.5d", "2.5d", "-1.5d", "0.25f", "4.25f", "5b", "6s", "8n", "3.75m"}
	tiedNumbers   = []string{"1", "1L", "1.0d", "1.0f", "1b", "1s", "1n", "1.0m", "2", "2L", "2.0d", "0", "-1", "-1.0d", "3"}
	texts         = []string{"'a'", "'b'", "'ab'", "'Abc'", "' x '", "''", "'12'", "'-3'", "'true'", "'ä'", "'a,b'", "'日本'"}
	labels        = []string{"'a'", "'b'", "'c'"}
	edgeLabels    = []string{"'k'", "'l'", "'m'"}
	keys          = []string{"'n'", "'s'", "'t'", "'c'", "'x'", "'w'", "'none'"}
	formulas      = []string{"_ + 1", "_ * 2", "_ - _ / 2", "floor(_)", "abs(_) % 3", "_ ^ 2", "ceil(_ / 3)", "signum(_)", "sqrt(abs(_))", "-_", "_ / 0"}
	types         = []string{"INT", "LONG", "DOUBLE", "FLOAT", "STRING", "NUMBER", "BOOLEAN", "BYTE", "SHORT", "BIGINT", "BIGDECIMAL", "LIST", "DATETIME"}
)

func (g *generator) number() string {
	if g.ties {
		return pick(g.rnd, tiedNumbers...)
	}
	return pick(g.rnd, untiedNumbers...)
}

func (g *generator) any() string {
	switch g.rnd.IntN(8) {
	case 0, 1, 2:
		return g.number()
	case 3, 4, 5:
		return pick(g.rnd, texts...)
	case 6:
		return pick(g.rnd, "true", "false")
	}
	return pick(g.rnd, "datetime('2024-02-29T10:00:00Z')", "datetime('1999-12-31T00:00:00Z')")
}

func (g *generator) list(max int, of func() string) string {
	var out []string
	for range g.rnd.IntN(max + 1) {
		if x := of(); !slices.Contains(out, x) { // TinkerGraph follows edges with a label twice if it is given twice
			out = append(out, x)
		}
	}
	return strings.Join(out, ",")
}

// some is list with at least one.
func (g *generator) some(of func() string) string {
	for {
		if out := g.list(3, of); out != "" {
			return out
		}
	}
}

// literal returns what fills a hole that is no traversal.
func (g *generator) literal(hole string) string {
	of := func(all []string) func() string { return func() string { return pick(g.rnd, all...) } }
	switch hole {
	case "n":
		return g.number()
	case "s":
		return pick(g.rnd, texts...)
	case "x":
		return g.any()
	case "i":
		return strconv.Itoa(g.rnd.IntN(3))
	case "j":
		return strconv.Itoa(1 + g.rnd.IntN(3))
	case "k":
		return strconv.Itoa(2 + g.rnd.IntN(3))
	case "z":
		return strconv.Itoa(g.rnd.IntN(7) - 3)
	case "vl":
		return pick(g.rnd, labels...)
	case "el":
		return pick(g.rnd, edgeLabels...)
	case "els":
		return g.list(2, of(edgeLabels))
	case "key":
		return pick(g.rnd, keys...)
	case "keys":
		return g.list(2, of(keys))
	case "vid":
		return fmt.Sprintf("'v%d'", 1+g.rnd.IntN(g.v+1)) // or none
	case "vids":
		return g.list(3, func() string { return g.literal("vid") })
	case "eid":
		return fmt.Sprintf("'e%d'", 1+g.rnd.IntN(g.e+1))
	case "new":
		g.fresh++
		return fmt.Sprintf("'new%d'", g.fresh)
	case "math":
		return pick(g.rnd, formulas...)
	case "type":
		return pick(g.rnd, types...)
	case "ntype":
		return pick(g.rnd, "INT", "LONG", "DOUBLE", "FLOAT", "BYTE", "SHORT", "BIGINT", "BIGDECIMAL")
	case "dir":
		return pick(g.rnd, "OUT", "IN", "BOTH")
	case "dir2":
		return pick(g.rnd, "Order.asc", "Order.desc")
	case "io":
		return pick(g.rnd, "out", "in", "both")
	case "pn":
		return g.predicate(g.number, 9)
	case "px":
		return g.predicate(g.any, 8) // without P.not(), which differs for values that cannot be compared
	case "ps":
		if g.rnd.IntN(2) == 0 {
			return g.predicate(of(texts), 9)
		}
		return "TextP." + pick(g.rnd, "startingWith", "endingWith", "containing", "notContaining", "notStartingWith", "regex", "notRegex") + "(" + pick(g.rnd, "'a'", "'b'", "'^A.*'", "''", "'1'") + ")"
	}
	panic("BUG: no hole " + hole)
}

// predicate returns one of the first n forms of predicates.
func (g *generator) predicate(of func() string, n int) string {
	switch g.rnd.IntN(n) {
	case 0:
		return "P.within(" + g.some(of) + ")"
	case 1:
		return "P.without(" + g.some(of) + ")" // TinkerPop does not end at count().is(P.without())
	case 2:
		return "P." + pick(g.rnd, "between", "inside", "outside") + "(" + of() + "," + of() + ")"
	case 3:
		return g.predicate(of, n) + "." + pick(g.rnd, "and", "or") + "(" + g.predicate(of, n) + ")"
	case 8:
		return "P.not(" + g.predicate(of, n) + ")"
	}
	return "P." + pick(g.rnd, "eq", "neq", "lt", "lte", "gt", "gte") + "(" + of() + ")"
}

// graph returns the parts of a text that makes a random graph, one for each element.
func (g *generator) graph() []string {
	g.v, g.e, g.ties = 2+g.rnd.IntN(5), g.rnd.IntN(10), g.rnd.IntN(3) == 0
	out := []string{"g"}
	some := func(texts ...string) {
		for _, text := range texts {
			if g.rnd.IntN(3) > 0 {
				var b strings.Builder
				for _, p := range g.parts(text, nil) {
					b.WriteString(p.text)
				}
				out[len(out)-1] += b.String()
			}
		}
	}
	for i := range g.v {
		out = append(out, fmt.Sprintf(".addV(%s).property(T.id,'v%d')", pick(g.rnd, labels...), i+1))
		some(".property('n',<n>)", ".property('t',<s>)", ".property('x',<x>)", ".property(Cardinality.list,'c',<n>)", ".property(Cardinality.list,'c',<n>)")
		some(pick(g.rnd, ".property('s',<s>)", ".property('s',<s>,'m',<n>)"))
	}
	for i := range g.e {
		from, to := 1+g.rnd.IntN(g.v), 1+g.rnd.IntN(g.v)
		out = append(out, fmt.Sprintf(".addE(%s).from(__.V('v%d')).to(__.V('v%d')).property(T.id,'e%d')", pick(g.rnd, edgeLabels...), from, to, i+1))
		some(".property('w',<n>)", ".property('s',<s>)")
	}
	return out
}

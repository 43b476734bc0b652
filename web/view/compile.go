package view

import (
	"html/template"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/template/parse"
)

// class is what a value has to become before html/template escapes it.
type class uint8

const (
	classText   class = iota // text, attributes, URLs, strings: composite values become JSON text
	classValue               // a JavaScript value
	classObject              // the same; "{/* key */}" if there is none
	classArray               // the same; "[/* key */]" if there is none
)

// slot is one name under which a compiled Z file looks up a value.
type slot struct {
	name  string // in the locals that are executed: the key, unless another class has it
	key   string
	class class
	raw   string // the first tag
	line  int    // of it
}

// zpage is what a Z file needs besides its template.
type zpage struct{ slots []slot }

// maxRounds is how often compileZ lets html/template judge the comment forms
// one by one; then all of them are comments.
const maxRounds = 8

// compileZ makes a page of a Z file. The tags become actions between two marks
// that no file has. html/template then says in which place each one stands, and
// those that stand in comments, or that are comments because no JavaScript value
// is expected where they are, become text again.
func (s *set) compileZ(p *page) []mistake {
	f := p.file
	live := make([]bool, len(f.tags))
	for i, t := range f.tags {
		live[i] = t.form != formLiteral
	}
	for round := 0; ; round++ {
		text := source(f.text, f.tags, live)
		t, err := template.New(f.path).Delims(markLeft, markRight).Parse(text)
		if err != nil {
			return []mistake{placed(err, f.path)}
		}
		tree := t.Tree
		if tree == nil { // an empty file is an empty page
			tree = &parse.Tree{Name: f.name, ParseName: f.path, Root: &parse.ListNode{NodeType: parse.NodeList}}
		}
		eachAction(tree, f.tags, live, func(i int, a *parse.ActionNode) { setField(a, f.tags[i].key) })
		trees := map[string]*parse.Tree{f.name: tree}
		if p.tmpl, err = s.escape(f.name, trees); err != nil {
			if kill(f.tags, live) {
				continue
			}
			return []mistake{s.locate(p, trees, text, err)}
		}
		if changed := settle(p.tmpl.Tree, f.tags, live); !changed {
			break
		} else if round == maxRounds {
			kill(f.tags, live)
		}
	}
	p.z = bind(p.tmpl.Tree, f.tags, live)
	for _, sl := range p.z.slots {
		p.uses[sl.key] = true
	}
	return nil
}

// source is the text of a Z file with its live tags as actions, which have as
// many lines.
func source(text string, tags []tag, live []bool) string {
	var b strings.Builder
	b.Grow(len(text))
	last := 0
	for i, t := range tags {
		b.WriteString(text[last:t.pos])
		switch {
		case live[i]:
			b.WriteString(markLeft + ".key" + markRight)
		case t.form == formLiteral:
			b.WriteString(t.raw[1:])
		default:
			b.WriteString(t.raw)
		}
		last = t.end
	}
	b.WriteString(text[last:])
	return b.String()
}

// eachAction calls fn for the action of every live tag.
func eachAction(tree *parse.Tree, tags []tag, live []bool, fn func(i int, a *parse.ActionNode)) {
	next := 0
	for _, n := range tree.Root.Nodes {
		a, ok := n.(*parse.ActionNode)
		if !ok {
			continue
		}
		for !live[next] {
			next++
		}
		fn(next, a)
		next++
	}
}

// setField makes an action look up another key, which may have any characters.
func setField(a *parse.ActionNode, key string) {
	a.Pipe.Cmds[0].Args[0].(*parse.FieldNode).Ident[0] = key
}

// escaped reports whether html/template has put that escaper into an action.
func escaped(a *parse.ActionNode, escaper string) bool {
	return slices.ContainsFunc(a.Pipe.Cmds, func(c *parse.CommandNode) bool {
		id, ok := c.Args[0].(*parse.IdentifierNode)
		return ok && id.Ident == escaper
	})
}

// Names of html/template's escapers, which say in which place an action stands.
// TestPlaces sees when they change.
const (
	inComment = "_html_template_commentescaper"
	inValue   = "_html_template_jsvalescaper"
)

// settle ends the life of tags that stand where they are none, and reports
// whether there were any.
func settle(tree *parse.Tree, tags []tag, live []bool) (changed bool) {
	var dead []int
	eachAction(tree, tags, live, func(i int, a *parse.ActionNode) {
		if escaped(a, inComment) || tags[i].form != formText && !escaped(a, inValue) {
			dead = append(dead, i)
		}
	})
	for _, i := range dead {
		live[i] = false
	}
	return len(dead) > 0
}

// kill ends the life of all comment forms, and reports whether there were any.
func kill(tags []tag, live []bool) (changed bool) {
	for i, t := range tags {
		if live[i] && t.form != formText {
			live[i], changed = false, true
		}
	}
	return changed
}

// bind gives every tag the slot that it looks up. The first class of a key has
// the key itself, so that most pages are executed on the locals as they are.
func bind(tree *parse.Tree, tags []tag, live []bool) *zpage {
	z := &zpage{}
	of := map[string][]int{} // slots of a key
	eachAction(tree, tags, live, func(i int, a *parse.ActionNode) {
		t := tags[i]
		c := classText
		switch {
		case t.form == formObject:
			c = classObject
		case t.form == formArray:
			c = classArray
		case escaped(a, inValue):
			c = classValue
		}
		for _, n := range of[t.key] {
			if z.slots[n].class == c {
				setField(a, z.slots[n].name)
				return
			}
		}
		s := slot{name: t.key, key: t.key, class: c, raw: t.raw, line: t.line}
		if len(of[t.key]) > 0 {
			s.name += "\x00" + strconv.Itoa(int(c))
		}
		setField(a, s.name)
		of[t.key] = append(of[t.key], len(z.slots))
		z.slots = append(z.slots, s)
	})
	return z
}

// data returns the locals as the compiled page looks them up, which are the
// given ones if nothing has to be added. Of a key that was not given it tells
// missing.
func (z *zpage) data(locals map[string]any, missing func(*slot)) map[string]any {
	out, own := locals, false
	for i := range z.slots {
		s := &z.slots[i]
		v, given := locals[s.key]
		changed := s.name != s.key
		switch {
		case !given:
			missing(s)
			v, changed = s.fallback(), true
		case s.class == classText:
			if text, composite := jsonText(v); composite {
				v, changed = text, true
			}
		}
		if !changed {
			continue
		}
		if !own {
			out, own = maps.Clone(locals), true
			if out == nil {
				out = map[string]any{}
			}
		}
		out[s.name] = v
	}
	if out == nil {
		out = map[string]any{}
	}
	return out
}

// fallback is what stands for a key that was not given: the key, but an object
// or array stays the empty one that JavaScript sees in the file.
func (s *slot) fallback() any {
	if s.class == classObject || s.class == classArray {
		return template.JS(s.raw)
	}
	return s.key
}

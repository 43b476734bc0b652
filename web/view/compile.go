package view

import (
	"html/template"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"text/template/parse"
)

// class is what a value is converted to before html/template escapes it.
type class uint8

const (
	classText   class = iota // text, attributes, URLs, strings: composite values become JSON text
	classValue               // a JavaScript value
	classObject              // the same; "{/* key */}" if missing
	classArray               // the same; "[/* key */]" if missing
)

// slot is a name under which a compiled Z file looks up a value.
type slot struct {
	name  string // in the template: the key, unless another class of it has that name
	key   string
	class class
	raw   string // the first tag
	line  int    // of that tag
}

// zpage is the part of a Z file besides its template.
type zpage struct{ slots []slot }

// state is what a tag becomes in the text that html/template sees.
type state uint8

const (
	dead  state = iota // text
	live               // an action
	probe              // an action to find out the context, followed by the text
)

// maxRounds is how often compileZ lets html/template judge the comment forms one by one; then it treats all of
// them as comments.
const maxRounds = 8

// compileZ makes a page of a Z file. The tags become actions between two marks that no file contains.
// html/template then determines the context of each one. A tag in a comment is text. The comment forms are
// comments unless a JavaScript value is expected in their place. To find out, actions are first put before
// them, and only then in their place.
func (s *set) compileZ(p *page) []mistake {
	f := p.file
	states := make([]state, len(f.tags))
	for i, t := range f.tags {
		switch t.form {
		case formText:
			states[i] = live
		case formValue, formObject, formArray:
			states[i] = probe
		}
	}
	unsure := false
	for round := 0; ; round++ {
		text := source(f.text, f.tags, states)
		t, err := template.New(f.path).Delims(markLeft, markRight).Parse(text)
		if err != nil {
			return []mistake{placed(err, f.path)}
		}
		tree := t.Tree
		if tree == nil { // an empty file is an empty page
			tree = &parse.Tree{Name: f.name, ParseName: f.path, Root: &parse.ListNode{NodeType: parse.NodeList}}
		}
		eachAction(tree, f.tags, states, func(i int, a *parse.ActionNode) { setField(a, f.tags[i].key) })
		trees := map[string]*parse.Tree{f.name: tree}
		if p.tmpl, err = s.escape(f.name, trees); err != nil {
			if kill(f.tags, states) {
				unsure = true
				continue
			}
			return []mistake{s.locate(p, trees, text, err)}
		}
		if !settle(p.tmpl.Tree, f.tags, states) {
			break
		} else if round >= maxRounds {
			kill(f.tags, states)
		}
	}
	if bad := forbidden(p.tmpl.Tree, f); bad != nil {
		return bad
	}
	p.z = bind(p.tmpl.Tree, f.tags, states)
	for _, sl := range p.z.slots {
		p.uses[sl.key] = true
	}
	if unsure {
		s.views.log.Warn("all comment tags of the file are ignored, as html/template cannot determine the context of one of them", "file", f.path)
	}
	for _, line := range tooLong(f.text) {
		s.views.log.Warn("a tag is rendered as text: its key is too long", "file", f.path, "line", line, "max_chars", MaxKeyChars)
	}
	return nil
}

// source returns the text of a Z file with actions for its tags. It has as many lines as text.
func source(text string, tags []tag, states []state) string {
	const action = markLeft + ".key" + markRight
	var b strings.Builder
	b.Grow(len(text))
	last := 0
	for i, t := range tags {
		b.WriteString(text[last:t.pos])
		switch {
		case states[i] == live:
			b.WriteString(action)
		case states[i] == probe:
			b.WriteString(action + t.raw)
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

// eachAction calls fn for the action of every tag that has one.
func eachAction(tree *parse.Tree, tags []tag, states []state, fn func(i int, a *parse.ActionNode)) {
	next := 0
	for _, n := range tree.Root.Nodes {
		a, ok := n.(*parse.ActionNode)
		if !ok {
			continue
		}
		for states[next] == dead {
			next++
		}
		fn(next, a)
		next++
	}
}

// setField makes an action look up another key, which may contain any characters.
func setField(a *parse.ActionNode, key string) {
	a.Pipe.Cmds[0].Args[0].(*parse.FieldNode).Ident[0] = key
}

// escaped reports whether html/template has added one of the escapers to an action.
func escaped(a *parse.ActionNode, escapers ...string) bool {
	return slices.ContainsFunc(a.Pipe.Cmds, func(c *parse.CommandNode) bool {
		id, ok := c.Args[0].(*parse.IdentifierNode)
		return ok && slices.Contains(escapers, id.Ident)
	})
}

// Names of html/template's escapers, which reveal the context of an action. testdata/places.txt detects
// changes to them.
const (
	inComment = "_html_template_commentescaper"
	inValue   = "_html_template_jsvalescaper"
)

// settle turns tags into text where they cannot be tags, puts actions in the place of the others, and reports
// whether that changes the text.
func settle(tree *parse.Tree, tags []tag, states []state) (changed bool) {
	next := slices.Clone(states)
	eachAction(tree, tags, states, func(i int, a *parse.ActionNode) {
		next[i] = live
		if escaped(a, inComment) || tags[i].form != formText && !escaped(a, inValue) {
			next[i] = dead
		}
		changed = changed || next[i] != states[i]
	})
	copy(states, next)
	return changed
}

// kill turns all comment forms into text, and reports whether there were any.
func kill(tags []tag, states []state) (changed bool) {
	for i, t := range tags {
		if states[i] != dead && t.form != formText {
			states[i], changed = dead, true
		}
	}
	return changed
}

// bind gives every tag its slot.
func bind(tree *parse.Tree, tags []tag, states []state) *zpage {
	z := &zpage{}
	of := map[string][]int{} // slots of a key
	eachAction(tree, tags, states, func(i int, a *parse.ActionNode) {
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

// data returns the locals as the compiled page looks them up: the given map if nothing has to change. It calls
// missing for each key that was not given.
func (z *zpage) data(locals map[string]any, missing func(*slot)) map[string]any {
	out, own := locals, false
	for i := range z.slots {
		s := &z.slots[i]
		v, changed := s.value(locals, missing)
		if !changed && s.name == s.key {
			continue
		}
		if !own {
			out, own = make(map[string]any, len(locals)+len(z.slots)), true
			maps.Copy(out, locals)
		}
		out[s.name] = v
	}
	return out
}

// value returns the value of a slot, and whether that differs from the local.
func (s *slot) value(locals map[string]any, missing func(*slot)) (v any, changed bool) {
	v, given := locals[s.key]
	if !given {
		missing(s)
		return s.fallback(), true
	}
	switch s.class {
	case classText:
		if text, composite := jsonText(v); composite {
			return text, true
		}
	case classObject, classArray:
		if r := reflect.ValueOf(v); (r.Kind() == reflect.Map || r.Kind() == reflect.Slice) && r.IsNil() {
			return template.JS(map[class]string{classObject: "{}", classArray: "[]"}[s.class]), true
		}
	}
	return v, false
}

// fallback returns the value for a key that was not given: the key, but for an object or array an empty one,
// as JavaScript sees it in the file.
func (s *slot) fallback() any {
	if s.class == classObject || s.class == classArray {
		return template.JS(s.raw)
	}
	return s.key
}

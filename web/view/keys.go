package view

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"text/template/parse"
)

// MaxWarnings is the maximum number of distinct warnings that are logged about one view.
const MaxWarnings = 256

// jsonText returns a map, list or struct as JSON, and whether v is one. A value that can print itself or has
// no JSON form is not.
func jsonText(v any) (text string, composite bool) {
	switch v.(type) {
	case nil, string, bool, int, int64, uint64, float64, error, fmt.Stringer:
		return "", false
	}
	r := reflect.ValueOf(v)
	for r.Kind() == reflect.Pointer && !r.IsNil() {
		r = r.Elem()
		switch r.Interface().(type) {
		case error, fmt.Stringer:
			return "", false
		}
	}
	switch r.Kind() {
	case reflect.Map, reflect.Slice, reflect.Array, reflect.Struct:
	default:
		return "", false
	}
	defer func() {
		if recover() != nil { // in a method of the value
			text, composite = "", false
		}
	}()
	b, err := json.Marshal(v)
	return string(b), err == nil
}

// addUses records the keys that a tree of html/template may look up in its locals. It counts every field with
// that name, whatever it belongs to. If the locals are passed on as a whole, except to another template, the
// keys are unknown. root reports whether the tree's dot is known to be the locals.
func (p *page) addUses(n parse.Node, root bool) {
	branch := func(b *parse.BranchNode, inside bool) {
		p.addPipe(b.Pipe, root)
		p.addUses(b.List, root && inside)
		if b.ElseList != nil {
			p.addUses(b.ElseList, root)
		}
	}
	switch n := n.(type) {
	case *parse.ListNode:
		for _, m := range n.Nodes {
			p.addUses(m, root)
		}
	case *parse.ActionNode:
		p.addPipe(n.Pipe, root)
	case *parse.IfNode:
		branch(&n.BranchNode, true)
	case *parse.RangeNode:
		branch(&n.BranchNode, false)
	case *parse.WithNode:
		branch(&n.BranchNode, false)
	case *parse.TemplateNode:
		if n.Pipe != nil && !(len(n.Pipe.Cmds) == 1 && len(n.Pipe.Cmds[0].Args) == 1 && isWhole(n.Pipe.Cmds[0].Args[0], true)) {
			p.addPipe(n.Pipe, root)
		}
	}
}

// addPipe is addUses for one pipeline.
func (p *page) addPipe(n *parse.PipeNode, root bool) {
	walk(n, func(n parse.Node) {
		switch n := n.(type) {
		case *parse.FieldNode:
			p.uses[n.Ident[0]] = true
		case *parse.ChainNode:
			p.uses[n.Field[0]] = true
		case *parse.VariableNode:
			if len(n.Ident) > 1 {
				p.uses[n.Ident[1]] = true
			}
		}
		p.all = p.all || isWhole(n, root)
	})
}

// isWhole reports whether a node is the locals themselves. "$" certainly is only in the page's own tree; in a
// called one it may be.
func isWhole(n parse.Node, root bool) bool {
	if v, ok := n.(*parse.VariableNode); ok {
		return len(v.Ident) == 1 && v.Ident[0] == "$"
	}
	_, dot := n.(*parse.DotNode)
	return dot && root
}

// once reports whether this warning about the page was not logged yet.
func (p *page) once(what string) bool {
	if _, logged := p.warned.Load(what); logged || p.warns.Load() >= MaxWarnings {
		return false
	}
	if _, logged := p.warned.LoadOrStore(what, true); logged {
		return false
	}
	return p.warns.Add(1) <= MaxWarnings
}

// warnMissing warns that a Z file uses a key that it was not given.
func (v *Views) warnMissing(p *page, s *slot) {
	if p.once("?" + s.key) {
		v.log.Warn("a view uses a key that is missing in its locals", "file", p.file.path, "line", s.line, "key", s.key)
	}
}

// warnUnused warns of locals that neither the page nor the layout uses.
func (v *Views) warnUnused(p, layout *page, locals map[string]any) {
	if p.all || layout != nil && layout.all {
		return
	}
	var unused []string
	for name := range locals {
		if !p.uses[name] && !v.always[name] && (layout == nil || !layout.uses[name]) {
			unused = append(unused, name)
		}
	}
	if unused == nil {
		return
	}
	slices.Sort(unused)
	for _, name := range unused {
		if p.once("!" + name) {
			v.log.Warn("a view does not use one of its locals", "file", p.file.path, "local", name)
		}
	}
}

package view

import "text/template/parse"

// Keys returns the keys of what may be tags in a Z file.
func Keys(text string) (keys []string) {
	for _, t := range scan(text) {
		if t.form != formLiteral {
			keys = append(keys, t.key)
		}
	}
	return keys
}

// Marks are what a Z file is compiled with.
func Marks() (left, right string) { return markLeft, markRight }

// Actions returns how many values a page has in its own tree.
func (v *Views) Actions(name string) (n int) {
	for _, node := range v.now.Load().pages[name].tmpl.Tree.Root.Nodes {
		if _, ok := node.(*parse.ActionNode); ok {
			n++
		}
	}
	return n
}

// Pooled reports whether a buffer of that many bytes is kept for the next page.
func Pooled(n int) bool {
	v := &Views{}
	for range 100 { // a pool may drop what it is given
		b := new(buffer)
		b.b.Grow(n)
		v.putBuffer(b)
		if v.getBuffer() == b {
			return true
		}
	}
	return false
}

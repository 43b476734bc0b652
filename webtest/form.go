package webtest

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/html"
)

// control is one named control of a form.
type control struct {
	name, value string
	button      bool // sent only if it was pressed
	on          bool // sent unless changed
}

// fill returns what a form sends after given was filled in.
func fill(form *html.Node, given url.Values) (url.Values, error) {
	controls := controlsOf(form)
	values := url.Values{}
	pressed := -1
	for i, c := range controls {
		if c.button && (pressed < 0 || slices.Contains(given[c.name], c.value)) {
			pressed = i
		}
	}
	for i, c := range controls {
		if _, is := given[c.name]; c.name != "" && !is && (c.on || i == pressed) {
			values.Add(c.name, c.value)
		}
	}
	for name, list := range given {
		if !slices.ContainsFunc(controls, func(c control) bool { return c.name == name }) {
			return nil, fmt.Errorf("the form has no field %q", name)
		}
		values[name] = list
	}
	return values, nil
}

// controlsOf returns the controls of a form, including buttons without names.
func controlsOf(form *html.Node) (all []control) {
	for n := range form.Descendants() {
		if _, off := attr(n, "disabled"); n.Type != html.ElementNode || off {
			continue
		}
		name, _ := attr(n, "name")
		value, _ := attr(n, "value")
		kind, _ := attr(n, "type")
		switch kind = strings.ToLower(kind); {
		case n.Data == "button" && (kind == "" || kind == "submit"), n.Data == "input" && kind == "submit":
			all = append(all, control{name: name, value: value, button: true})
		case name == "":
		case n.Data == "input" && (kind == "checkbox" || kind == "radio"):
			_, on := attr(n, "checked")
			all = append(all, control{name: name, value: value, on: on})
		case n.Data == "input" && kind != "button" && kind != "reset" && kind != "image" && kind != "file":
			all = append(all, control{name: name, value: value, on: true})
		case n.Data == "textarea":
			all = append(all, control{name: name, value: textOf(n), on: true})
		case n.Data == "select":
			all = append(all, control{name: name, value: selected(n), on: true})
		}
	}
	return all
}

// selected returns the value of the selected option of a select: the first one if none is.
func selected(n *html.Node) (value string) {
	first := true
	for o := range n.Descendants() {
		if o.Type != html.ElementNode || o.Data != "option" {
			continue
		}
		v, has := attr(o, "value")
		if !has {
			v = textOf(o)
		}
		if _, is := attr(o, "selected"); is || first {
			value = v
		}
		first = false
	}
	return value
}

// textOf returns the text in an element, unchanged.
func textOf(n *html.Node) string {
	var b strings.Builder
	for c := range n.Descendants() {
		if c.Type == html.TextNode {
			b.WriteString(c.Data)
		}
	}
	return b.String()
}

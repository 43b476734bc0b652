package view

import "strings"

// Place is the position of an element.
type Place struct {
	File    string // its path
	Line    int    // from 1
	Element string // script or style
}

// WithoutNonce returns the scripts and styles in views that lack the attribute nonce, by file and line. A
// Content-Security-Policy with nonces blocks them, and nothing in the page shows why. Scripts with src need
// none, nor do those whose type marks them as data. Elements that depend on a page's values are not included.
func (v *Views) WithoutNonce() []Place {
	s, err := v.current()
	if err != nil {
		return nil
	}
	var all []Place
	for _, name := range s.names {
		f := s.files[name]
		for _, e := range f.bare {
			all = append(all, Place{f.path, lineOf(f.text, e.pos), e.name})
		}
	}
	return all
}

// element is an element that begins at pos in a file's text.
type element struct {
	name string
	pos  int
}

// bareElements finds the elements of WithoutNonce.
func bareElements(text string, isZ bool) (bare []element) {
	m := markup{text: text, isZ: isZ}
	for m.pos < len(text) {
		start, rest := m.pos, text[m.pos:]
		switch {
		case strings.HasPrefix(rest, "<!--"):
			m.past("-->")
		case m.atAction():
			m.past("}}")
		case rest[0] != '<':
			m.pos++
		default:
			name := rawElement(rest[1:])
			if m.pos++; name == "" {
				continue
			}
			m.pos += len(name)
			if a := m.attributes(); a.blocked(name) {
				bare = append(bare, element{name, start})
			}
			m.toEndTag(name)
		}
	}
	return bare
}

// rawElement returns the name of the element that s begins with, if its content is not markup.
func rawElement(s string) string {
	for _, name := range []string{"script", "style", "textarea", "title"} {
		if len(s) > len(name) && strings.EqualFold(s[:len(name)], name) && strings.IndexByte(" \t\r\n\f/>", s[len(name)]) >= 0 {
			return name
		}
	}
	return ""
}

// markup is a text being parsed.
type markup struct {
	text string
	isZ  bool // {{ is text
	pos  int
}

// past skips past the next end, or to the end of the text.
func (m *markup) past(end string) {
	if i := strings.Index(m.text[m.pos:], end); i >= 0 {
		m.pos += i + len(end)
		return
	}
	m.pos = len(m.text)
}

// toEndTag skips to the end tag of the element.
func (m *markup) toEndTag(name string) {
	for ; m.pos < len(m.text); m.pos++ {
		if rest := m.text[m.pos:]; strings.HasPrefix(rest, "</") && rawElement(rest[2:]) == name {
			return
		}
	}
}

func (m *markup) atAction() bool { return !m.isZ && strings.HasPrefix(m.text[m.pos:], "{{") }

// attributes are the relevant attributes of a tag.
type attributes struct {
	nonce, src bool
	typ        string
	open       bool // the page's values decide about further ones
}

// attributes reads the rest of a tag after its name, including the >.
func (m *markup) attributes() (a attributes) {
	for m.pos < len(m.text) {
		switch c := m.text[m.pos]; {
		case c == '>':
			m.pos++
			return a
		case strings.IndexByte(" \t\r\n\f/", c) >= 0:
			m.pos++
		case m.atAction():
			a.open = true
			m.past("}}")
		case strings.HasPrefix(m.text[m.pos:], "#{"):
			a.open = true
			m.past("}")
		default:
			name := m.word(" \t\r\n\f/>=")
			value := m.value()
			switch strings.ToLower(name) {
			case "nonce":
				a.nonce = true
			case "src":
				a.src = true
			case "type":
				a.typ = strings.ToLower(strings.TrimSpace(value))
			}
		}
	}
	return a
}

// value reads = and the value of an attribute, if it has one.
func (m *markup) value() string {
	rest := strings.TrimLeft(m.text[m.pos:], " \t\r\n\f")
	if !strings.HasPrefix(rest, "=") {
		return ""
	}
	rest = strings.TrimLeft(rest[1:], " \t\r\n\f")
	m.pos = len(m.text) - len(rest)
	if rest == "" || rest[0] != '"' && rest[0] != '\'' {
		return m.word(" \t\r\n\f>")
	}
	m.pos++
	value := m.word(rest[:1])
	m.pos = min(m.pos+1, len(m.text))
	return value
}

// word reads up to the first of ends that is not inside an action. It reads at least one character, unless the
// first one ends a value.
func (m *markup) word(ends string) string {
	start := m.pos
	for m.pos < len(m.text) && strings.IndexByte(ends, m.text[m.pos]) < 0 {
		if m.atAction() {
			m.past("}}")
			continue
		}
		m.pos++
	}
	return m.text[start:m.pos]
}

// blocked reports whether a policy with nonces blocks the element.
func (a attributes) blocked(name string) bool {
	if a.nonce || a.open || name != "script" && name != "style" {
		return false
	}
	if name == "style" {
		return true
	}
	switch a.typ {
	case "", "module", "importmap", "speculationrules":
		return !a.src
	}
	return !a.src && (strings.HasSuffix(a.typ, "/javascript") || strings.HasSuffix(a.typ, "/ecmascript") || strings.HasSuffix(a.typ, "/x-javascript"))
}

package view

import (
	"fmt"
	"regexp"
	"strings"
	"text/template/parse"
)

// html/template's escaping is not enough for some attributes. It treats srcdoc as text, but browsers parse it
// as a page. It escapes what follows javascript: like the rest of any URL, but browsers undo that before they
// run the script.
var (
	suspicious = regexp.MustCompile(`(?i)srcdoc|javascript:|vbscript:|data:text/html`)
	inSrcdoc   = regexp.MustCompile(`(?i)(?:\ssrcdoc\s*=\s*[^\s"'>]*|[\s"']srcdoc\s*=\s*(?:"[^"]*|'[^']*))$`)
	inScript   = regexp.MustCompile(`(?i)=\s*(?:"\s*(javascript:|vbscript:|data:text/html)[^"]*|'\s*(javascript:|vbscript:|data:text/html)[^']*|(javascript:|vbscript:|data:text/html)[^\s"'>]*)$`)
)

// maxTail is how many bytes of text before a value forbidden looks at.
const maxTail = 4 << 10

// forbidden finds the values of an escaped tree in places where no escaping makes them safe.
func forbidden(tree *parse.Tree, f *file) (bad []mistake) {
	if !suspicious.MatchString(f.text) {
		return nil
	}
	tail := "" // of the preceding text
	walk(tree.Root, func(n parse.Node) {
		switch n := n.(type) {
		case *parse.TextNode:
			tail += string(n.Text)
			tail = tail[max(0, len(tail)-maxTail):]
		case *parse.ActionNode:
			bad = append(bad, unfit(f, n.Line, tail, escaped(n, "_html_template_attrescaper", "_html_template_nospaceescaper"),
				escaped(n, "_html_template_urlnormalizer", "_html_template_urlescaper"))...)
			tail += "x"
		case *parse.TemplateNode:
			// For a template called in an attribute html/template makes a variant that it does not expose; it may
			// contain values.
			inside := strings.Contains(n.Name, "$htmltemplate_")
			bad = append(bad, unfit(f, n.Line, tail, inside, inside)...)
			tail += "x"
		}
	})
	return bad
}

// unfit returns the mistake of a value after tail, if it is in such an attribute. attr and url report how
// html/template classifies the place.
func unfit(f *file, line int, tail string, attr, url bool) []mistake {
	what := ""
	if attr && inSrcdoc.MatchString(tail) {
		what = "srcdoc"
	} else if url {
		if m := inScript.FindStringSubmatch(tail); m != nil {
			what = fmt.Sprintf("a %s URL", strings.ToLower(m[1]+m[2]+m[3]))
		}
	}
	if what == "" {
		return nil
	}
	return []mistake{{f.path, line, fmt.Sprintf("a value cannot appear in %s, as no escaping makes it safe there", what)}}
}

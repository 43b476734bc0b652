package view

import (
	"fmt"
	"regexp"
	"strings"
	"text/template/parse"
)

// For some attributes html/template's escaping is not enough. It takes srcdoc
// for text, but a browser makes a page of it; and it escapes what follows
// javascript: like the rest of any URL, which a browser undoes before it runs the
// script.
var (
	suspicious = regexp.MustCompile(`(?i)srcdoc|javascript:|vbscript:|data:text/html`)
	inSrcdoc   = regexp.MustCompile(`(?i)\ssrcdoc\s*=\s*(?:"[^"]*|'[^']*|[^\s"'>]*)$`)
	inScript   = regexp.MustCompile(`(?i)=\s*(?:"\s*(javascript:|vbscript:|data:text/html)[^"]*|'\s*(javascript:|vbscript:|data:text/html)[^']*|(javascript:|vbscript:|data:text/html)[^\s"'>]*)$`)
)

// maxTail is how much text before a value forbidden looks at, in bytes.
const maxTail = 4 << 10

// forbidden finds the values of an escaped tree that stand where no escaping
// makes them safe.
func forbidden(tree *parse.Tree, f *file) (bad []mistake) {
	if !suspicious.MatchString(f.text) {
		return nil
	}
	tail := "" // of the text before
	walk(tree.Root, func(n parse.Node) {
		switch n := n.(type) {
		case *parse.TextNode:
			tail += string(n.Text)
			tail = tail[max(0, len(tail)-maxTail):]
		case *parse.ActionNode:
			what := ""
			switch {
			case escaped(n, "_html_template_attrescaper", "_html_template_nospaceescaper") && inSrcdoc.MatchString(tail):
				what = "srcdoc"
			case escaped(n, "_html_template_urlnormalizer", "_html_template_urlescaper"):
				m := inScript.FindStringSubmatch(tail)
				if m == nil {
					break
				}
				what = fmt.Sprintf("a %s URL", strings.ToLower(m[1]+m[2]+m[3]))
			}
			if what != "" {
				bad = append(bad, mistake{f.path, n.Line, fmt.Sprintf("a value cannot stand in %s, as no escaping makes it safe there", what)})
			}
			tail += "x"
		}
	})
	return bad
}

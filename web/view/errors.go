package view

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/suggest"
)

// Codes of this package. They are part of the API, like the engine's.
const (
	CodeViewBroken   engine.Code = "view_broken"
	CodeViewFailed   engine.Code = "view_failed"
	CodeViewMissing  engine.Code = "view_missing"
	CodeViewTooLarge engine.Code = "view_too_large"
)

// Catalog returns the codes of this package, sorted.
func Catalog() []engine.Meaning {
	return []engine.Meaning{
		{Code: CodeViewBroken, Kind: engine.KindInternal, Text: "a template does not parse; the log names file and line"},
		{Code: CodeViewFailed, Kind: engine.KindInternal, Text: "a template failed while it was rendered; the log names file and line"},
		{Code: CodeViewMissing, Kind: engine.KindInternal, Text: "the program has no view of that name"},
		{Code: CodeViewTooLarge, Kind: engine.KindInternal, Text: "a rendered page is over the size limit"},
	}
}

// mistake is a fault of a file.
type mistake struct {
	file string
	line int // 0: unknown
	what string
}

func (m mistake) String() string {
	if m.line == 0 {
		return m.file + ": " + m.what
	}
	return fmt.Sprintf("%s:%d: %s", m.file, m.line, m.what)
}

// broken joins the faults of one or more files into one error, nil if there are none.
func broken(list []mistake) error {
	list = slices.Clone(list)
	slices.SortFunc(list, func(a, b mistake) int {
		return cmp.Or(cmp.Compare(a.file, b.file), cmp.Compare(a.line, b.line), cmp.Compare(a.what, b.what))
	})
	list = slices.Compact(list)
	switch len(list) {
	case 0:
		return nil
	case 1:
		return engine.Errorf(CodeViewBroken, "a view does not parse: %s", list[0])
	}
	var lines strings.Builder
	for _, m := range list {
		lines.WriteString("\n\t" + m.String())
	}
	return engine.Errorf(CodeViewBroken, "%d faults in views:%s", len(list), lines.String())
}

// placeOf finds file and line in a message of text/template or html/template. It drops the column, which is
// that of the compiled form of a Z file.
var placeOf = regexp.MustCompile(`^(?:html/)?template: ?(.+?):(\d+)(?::\d+)?: (?s:(.*))$`)

// placed turns such an error into a mistake. file is used if the error names none.
func placed(err error, file string) mistake {
	text := err.Error()
	m := placeOf.FindStringSubmatch(text)
	if m == nil {
		text = strings.TrimPrefix(strings.TrimPrefix(text, "html/"), "template:")
		return mistake{file: file, what: strings.TrimSpace(text)}
	}
	line, _ := strconv.Atoi(m[2]) // digits
	return mistake{file: m[1], line: line, what: m[3]}
}

// missing returns the error for a view that does not exist, with similar names.
func (s *set) missing(name string) *engine.Error {
	var alike []string
	for _, other := range s.names {
		if d := suggest.Distance(strings.ToLower(name), strings.ToLower(other)); d <= 1+min(len(name), len(other))/4 ||
			strings.HasSuffix(other, "/"+name) || strings.HasSuffix(name, "/"+other) {
			alike = append(alike, fmt.Sprintf("%q", other))
		}
	}
	hint := "the folder has no views at all"
	switch trimmed := strings.TrimSuffix(strings.TrimSuffix(name, ".html"), ".z"); {
	case trimmed != name && s.files[trimmed] != nil:
		hint = fmt.Sprintf("names have no extension: use %q", trimmed)
	case len(alike) > 0:
		hint = "there is " + strings.Join(alike[:min(len(alike), 5)], ", ")
	case len(s.names) > 0:
		hint = fmt.Sprintf("none of the %d views has that name", len(s.names))
	}
	return engine.Errorf(CodeViewMissing, "there is no view %q; %s", short(name), hint)
}

// short shortens a name of unknown origin for a message.
func short(name string) string {
	if len(name) > 100 {
		return name[:100] + "…"
	}
	return name
}

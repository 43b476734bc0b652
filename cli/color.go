package cli

import (
	"io"
	"os"
	"slices"
	"strings"
)

// style is how a terminal shows text: a parameter of the escape sequence SGR.
type style string

const (
	bold   style = "1"
	red    style = "31"
	green  style = "32"
	yellow style = "33"
	cyan   style = "36"
)

// paint returns text in a style if w is a terminal that shows colors, else text as it
// is. Users turn colors off by the variable NO_COLOR (https://no-color.org).
func (p process) paint(w io.Writer, s style, text string) string {
	if !p.colors(w) {
		return text
	}
	return "\x1b[" + string(s) + "m" + text + "\x1b[0m"
}

// colors reports whether w is a terminal that shows colors.
func (p process) colors(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok || slices.ContainsFunc(p.Environ, func(v string) bool {
		return v == "TERM=dumb" || strings.HasPrefix(v, "NO_COLOR=") && v != "NO_COLOR="
	}) {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// paintLog paints a line of a program's log by its level.
func (p process) paintLog(w io.Writer, line string) string {
	switch {
	case strings.Contains(line, " level=ERROR ") || strings.Contains(line, `"level":"ERROR"`):
		return p.paint(w, red, line)
	case strings.Contains(line, " level=WARN ") || strings.Contains(line, `"level":"WARN"`):
		return p.paint(w, yellow, line)
	}
	return line
}

package verb

import (
	"io"
	"os"
	"slices"
	"strings"
)

// style is a text style: a parameter of the escape sequence SGR.
type style string

const (
	Bold   style = "1"
	Red    style = "31"
	Green  style = "32"
	Yellow style = "33"
	Cyan   style = "36"
)

// Paint returns text in a style if w is a terminal that shows colors, otherwise unchanged text. Users turn
// colors off with the variable NO_COLOR (https://no-color.org).
func (p Process) Paint(w io.Writer, s style, text string) string {
	if !p.colors(w) {
		return text
	}
	return "\x1b[" + string(s) + "m" + text + "\x1b[0m"
}

// colors reports whether w is a terminal that shows colors.
func (p Process) colors(w io.Writer) bool {
	return Terminal(w) && !slices.ContainsFunc(p.Environ, func(v string) bool {
		return v == "TERM=dumb" || strings.HasPrefix(v, "NO_COLOR=") && v != "NO_COLOR="
	})
}

// Draws reports whether w is a terminal that shows UTF-8, and so lines and boxes.
func (p Process) Draws(w io.Writer) bool {
	return Terminal(w) && !slices.Contains(p.Environ, "TERM=dumb") && p.utf8()
}

// utf8 reports whether the locale's encoding is UTF-8. As in POSIX, the first of three variables that is set
// decides.
func (p Process) utf8() bool {
	for _, name := range []string{"LC_ALL=", "LC_CTYPE=", "LANG="} {
		for _, v := range slices.Backward(p.Environ) {
			if locale, ok := strings.CutPrefix(v, name); ok && locale != "" {
				locale = strings.ToLower(locale)
				return strings.Contains(locale, "utf-8") || strings.Contains(locale, "utf8")
			}
		}
	}
	return false
}

// Terminal reports whether w is a terminal. Other devices, such as the null device, are none.
func Terminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	conn, err := f.SyscallConn()
	if err != nil {
		return false
	}
	is := false
	err = conn.Control(func(fd uintptr) { is = isTerminal(f, fd) })
	return err == nil && is
}

package verb

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"

	"github.com/skerrydb/skerry/suggest"
)

// PrintJSON writes v as one line.
func PrintJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// Plural formats a count of things.
func Plural(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprint(n, " ", thing)
}

// Dash returns s, or a dash if it is empty: the cell of a table.
func Dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// Quiet returns a logger of warnings and errors, for verbs that print their result.
func Quiet(w io.Writer) *slog.Logger {
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

// DidYouMean returns "; did you mean NAME?" if word is probably a mistyped one of names,
// otherwise "".
func DidYouMean(word string, names []string) string {
	if like := suggest.Nearest(word, names); like != "" {
		return "; did you mean " + like + "?"
	}
	return ""
}

package cli

import "github.com/skerrydb/skerry/suggest"

// meant asks whether one of names was meant by word. It returns "" if there is none.
func meant(word string, names []string) string {
	if like := suggest.Nearest(word, names); like != "" {
		return "; did you mean " + like + "?"
	}
	return ""
}

package typescript

import (
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/skerrydb/skerry/proc"
)

// namesOf returns a unique function name for each of schemas, which are sorted by name. A
// procedure whose name needs no change keeps it.
func namesOf(schemas []proc.Schema) []string {
	names := make([]string, len(schemas))
	for i, s := range schemas {
		names[i] = s.Name
	}
	return unique(names)
}

// unique returns a unique camel-case identifier for each of sorted names, none of which is one of others.
func unique(sorted []string, others ...string) []string {
	names := make([]string, len(sorted))
	taken := map[string]bool{}
	for _, o := range others {
		taken[fold(o)] = true
	}
	take := func(i int, name string) {
		names[i] = name
		taken[fold(name)] = true
	}
	for i, s := range sorted {
		if camel(s) == s && !taken[fold(s)] {
			take(i, s)
		}
	}
	for i, s := range sorted {
		if names[i] != "" {
			continue
		}
		name := camel(s)
		for n := 2; taken[fold(name)]; n++ {
			name = camel(s) + strconv.Itoa(n)
		}
		take(i, name)
	}
	return names
}

// fold returns the part of a name that must be unique, because type names begin with it.
func fold(name string) string { return pascal(name) }

// camel converts a name to a camel-case identifier. Characters other than letters and
// digits separate words.
func camel(name string) string {
	words := strings.FieldsFunc(strings.ToValidUTF8(name, ""), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	var b strings.Builder
	for i, w := range words {
		if i == 0 {
			w = lowerFirst(w)
		} else {
			w = upperFirst(w)
		}
		b.WriteString(w)
	}
	s := b.String()
	if first, _ := utf8.DecodeRuneInString(s); s == "" || unicode.IsDigit(first) {
		s = "_" + s
	}
	if slices.Contains(reserved(), s) {
		s += "_"
	}
	return s
}

// pascal returns the prefix of the names of a function's types.
func pascal(function string) string {
	if function == "_" {
		return function
	}
	return upperFirst(strings.TrimSuffix(function, "_"))
}

// lowerFirst lowers the first letter, or all of a leading abbreviation: HTTPGet becomes
// httpGet.
func lowerFirst(w string) string {
	runes := []rune(w)
	for i, r := range runes {
		if !unicode.IsUpper(r) || i > 0 && i+1 < len(runes) && unicode.IsLower(runes[i+1]) {
			break
		}
		runes[i] = unicode.ToLower(r)
	}
	return string(runes)
}

func upperFirst(w string) string {
	r, size := utf8.DecodeRuneInString(w)
	return string(unicode.ToUpper(r)) + w[size:]
}

// reserved returns words that cannot name a variable in a module (ECMA-262 section 12.7.2),
// and names that would change the behavior of an object.
func reserved() []string {
	return []string{
		"arguments", "async", "await", "break", "case", "catch", "class", "const", "constructor", "continue", "debugger",
		"default", "delete", "do", "else", "enum", "eval", "export", "extends", "false", "finally", "for", "function",
		"hasOwnProperty", "if", "implements", "import", "in", "instanceof", "interface", "let", "new", "null", "package",
		"private", "protected", "public", "return", "static", "super", "switch", "then", "this", "throw", "toJSON",
		"toLocaleString", "toString", "true", "try", "typeof", "undefined", "valueOf", "var", "void", "while", "with", "yield",
	}
}

// identifier reports whether a property name needs no quotes.
func identifier(name string) bool {
	for i, r := range name {
		if !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r == '_' || r == '$' || i > 0 && r >= '0' && r <= '9') {
			return false
		}
	}
	return name != ""
}

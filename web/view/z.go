package view

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxKeyChars is the longest key of the Z syntax, in characters. Anything longer
// is text.
const MaxKeyChars = 31

// form is the syntax of a tag.
type form uint8

const (
	formText    form = iota // #{key}
	formValue               // /*! key */
	formObject              // {/* key */}
	formArray               // [/* key */]
	formLiteral             // \#{key}, an escape for the text #{key}
)

// tag is a part of a Z file that may be replaced by a value.
type tag struct {
	form     form
	key      string
	raw      string // as written, on one line
	pos, end int    // in the text
	line     int
}

// scan finds possible tags: #{key} anywhere, and the other forms where the text around them suggests a
// JavaScript value; html/template decides about those.
func scan(s string) (tags []tag) {
	line, counted := 1, 0
	for i := 0; ; {
		j := strings.IndexAny(s[i:], "#/{[")
		if j < 0 {
			return tags
		}
		i += j
		t, ok := tagAt(s, i)
		if !ok {
			i++
			continue
		}
		line += strings.Count(s[counted:t.pos], "\n")
		counted, t.line = t.pos, line
		tags = append(tags, t)
		i = t.end
	}
}

// tagAt returns the tag at s[i].
func tagAt(s string, i int) (tag, bool) {
	rest := s[i:]
	switch {
	case strings.HasPrefix(rest, "#{"):
		return textTag(s, i)
	case strings.HasPrefix(rest, "/*!"):
		return commentTag(s, i, formValue, "/*!", "*/")
	case strings.HasPrefix(rest, "{/*"):
		return commentTag(s, i, formObject, "{/*", "*/}")
	case strings.HasPrefix(rest, "[/*"):
		return commentTag(s, i, formArray, "[/*", "*/]")
	}
	return tag{}, false
}

// textTag parses #{key}. An odd number of backslashes before it makes it text, without the last backslash.
func textTag(s string, i int) (tag, bool) {
	inside, ok := upTo(s[i+2:], "}")
	key := strings.Trim(inside, " \t")
	if !ok || !isPhrase(key) || utf8.RuneCountInString(key) > MaxKeyChars {
		return tag{}, false
	}
	t := tag{form: formText, key: key, pos: i, end: i + 2 + len(inside) + 1}
	for back := i; back > 0 && s[back-1] == '\\'; back-- {
		if t.form = formLiteral; (i-back)%2 == 1 {
			t.form = formText
		}
	}
	if t.form == formLiteral {
		t.pos--
	}
	t.raw = s[t.pos:t.end]
	return t, true
}

// commentTag parses the forms that are comments to JavaScript.
func commentTag(s string, i int, f form, open, end string) (tag, bool) {
	inside, ok := upTo(s[i+len(open):], end)
	key := strings.Trim(inside, " \t")
	if !ok || !isIdentifier(key) || utf8.RuneCountInString(key) > MaxKeyChars {
		return tag{}, false
	}
	t := tag{form: f, key: key, pos: i, end: i + len(open) + len(inside) + len(end)}
	t.raw = s[t.pos:t.end]
	return t, standsForValue(s, t.pos, t.end)
}

// upTo returns the text before end, which must be close.
func upTo(s, end string) (string, bool) {
	const blanks = 64 // around the key
	inside, _, ok := strings.Cut(s[:min(len(s), MaxKeyChars*utf8.UTFMax+blanks+len(end))], end)
	return inside, ok
}

// tooLong returns the lines of text that would be a tag #{key} if its key were shorter.
func tooLong(s string) (lines []int) {
	for i := 0; ; i += len("#{") {
		j := strings.Index(s[i:], "#{")
		if j < 0 {
			return lines
		}
		i += j
		inside, ok := upTo(s[i+len("#{"):], "}")
		if key := strings.Trim(inside, " \t"); ok && isPhrase(key) && utf8.RuneCountInString(key) > MaxKeyChars {
			lines = append(lines, lineOf(s, i))
		}
	}
}

// isPhrase reports whether a key is valid in #{key}: it begins with a letter or underscore, followed by
// letters, digits, and _ - . or single blanks.
func isPhrase(key string) bool {
	last := ' '
	for i, r := range key {
		switch {
		case unicode.IsLetter(r) || r == '_':
		case i > 0 && (unicode.IsDigit(r) || unicode.Is(unicode.M, r) || r == '-' || r == '.'):
		case i > 0 && r == ' ' && last != ' ':
		default:
			return false
		}
		last = r
	}
	return key != "" && last != ' '
}

// isIdentifier reports whether a key is valid in the comment forms.
func isIdentifier(key string) bool {
	return isPhrase(key) && !strings.ContainsAny(key, " -.")
}

// standsForValue reports whether s[pos:end] is where JavaScript expects a value: after something that begins
// an expression, and before something that can follow one. Bodies of functions and blocks, licences and notes
// on arguments are not in such places:
//
//	function() {/* noop */}   else {/* nothing */}   f(a, /*! unused */ b)
func standsForValue(s string, pos, end int) bool {
	before := strings.TrimRight(s[:pos], " \t\r\n")
	if before == "" {
		return false
	}
	starts := false // a statement's value follows, which may end with its line
	switch c := before[len(before)-1]; c {
	case '=':
		starts = true
	case '+', '-':
		if strings.HasSuffix(before, string([]byte{c, c})) { // i++ /*! note */
			return false
		}
	case '{':
		return strings.HasSuffix(before, "${") && follows(s[end:], false)
	case ':':
		line := before[strings.LastIndexAny(before, ";{}\n")+1:]
		if strings.HasPrefix(strings.TrimLeft(line, " \t"), "case ") { // a block follows
			return false
		}
	case '(', ',', '[', '?', '&', '|', '*', '%', '!':
	default:
		word := before[strings.LastIndexFunc(before, func(r rune) bool { return !isWord(r) })+1:]
		if word != "return" {
			return false
		}
		starts = true
	}
	return follows(s[end:], starts)
}

// follows reports whether s can follow a value. A value that began a statement may also end it, even without a
// semicolon.
func follows(s string, mayEnd bool) bool {
	after, broken := skipBlank(s)
	return after == "" || broken && mayEnd || strings.ContainsRune(";,)]}:?.+-*%&|=!<>[", rune(after[0]))
}

func isWord(r rune) bool {
	return r == '_' || r == '$' || unicode.IsLetter(r) || unicode.IsDigit(r)
}

// skipBlank returns what follows blanks and comments, and whether they contain the end of a line.
func skipBlank(s string) (rest string, broken bool) {
	for {
		t := strings.TrimLeft(s, " \t\r\n")
		broken = broken || strings.Contains(s[:len(s)-len(t)], "\n")
		end, length := "", 0
		switch {
		case strings.HasPrefix(t, "//"):
			end = "\n"
		case strings.HasPrefix(t, "/*"):
			end, length = "*/", len("*/")
		default:
			return t, broken
		}
		i := strings.Index(t, end)
		if i < 0 {
			return "", broken
		}
		broken = broken || strings.Contains(t[:i], "\n")
		s = t[i+length:]
	}
}

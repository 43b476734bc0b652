package admin

import (
	"strings"
	"unicode/utf8"
)

// faultyText is a text with a fault at one place.
type faultyText struct {
	Before, At, After string // At is the character at the fault; "": the text ends there
	Pos               int    // counted from 1, in characters
	Line, Column      int    // likewise
}

// markFault cuts a text at the byte of its fault.
func markFault(text string, pos int) *faultyText {
	pos = min(max(pos, 0), len(text))
	for pos > 0 && pos < len(text) && !utf8.RuneStart(text[pos]) {
		pos--
	}
	before := text[:pos]
	line := before[strings.LastIndexByte(before, '\n')+1:]
	_, n := utf8.DecodeRuneInString(text[pos:])
	return &faultyText{before, text[pos : pos+n], text[pos+n:], utf8.RuneCountInString(before) + 1, strings.Count(before, "\n") + 1, utf8.RuneCountInString(line) + 1}
}

// shortened keeps n bytes on each side of the fault.
func (f *faultyText) shortened(n int) *faultyText {
	short := *f
	short.Before, short.After = lastOf(f.Before, n), shorten(f.After, n)
	return &short
}

// maxMarked bounds the characters beside a mark.
const maxMarked = 60

// markPlace returns the line of a text that has the byte at pos, cut around it, and a second line with a mark under the character.
func markPlace(text string, pos int) (line, under string) {
	f := markFault(text, pos)
	text, _, _ = strings.Cut(f.At+f.After, "\n")
	before := []rune(strings.ReplaceAll(f.Before[strings.LastIndexByte(f.Before, '\n')+1:], "\t", " "))
	after := []rune(strings.ReplaceAll(text, "\t", " "))
	if len(before) > maxMarked {
		before = append([]rune("…"), before[len(before)-maxMarked:]...)
	}
	if len(after) > maxMarked {
		after = append(after[:maxMarked:maxMarked], '…')
	}
	return string(before) + string(after), strings.Repeat(" ", len(before)) + "^"
}

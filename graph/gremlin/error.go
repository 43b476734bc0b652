package gremlin

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// SyntaxError says where and why a text is not Gremlin.
type SyntaxError struct {
	Pos       int // in bytes from 0, at most the text's length
	Line, Col int // from 1; Col counts characters
	Msg       string
}

// Error implements error.
func (e *SyntaxError) Error() string {
	return fmt.Sprintf("line %d, column %d: %s", e.Line, e.Col, e.Msg)
}

// syntaxError returns an error at pos of text.
func syntaxError(text string, pos int, msg string) *SyntaxError {
	before := text[:pos]
	start := strings.LastIndexByte(before, '\n') + 1
	return &SyntaxError{
		Pos:  pos,
		Line: strings.Count(before, "\n") + 1,
		Col:  utf8.RuneCountInString(before[start:]) + 1,
		Msg:  msg,
	}
}

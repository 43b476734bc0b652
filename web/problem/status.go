package problem

import (
	"net/http"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/skerrydb/skerry/engine"
)

// WithStatus is an error with its own status, from 400 to 599; others are ignored. Without an engine.Error
// within it, clients get its text, unless the status is 500 or 507.
type WithStatus interface {
	error
	HTTPStatus() int
}

// WithDetail is an error that decides what clients may know of it.
type WithDetail interface {
	error
	PublicDetail() string
}

// outcomeOf returns the outcome of an error with its own status. Its code need not be in a catalog, because it
// is the application's.
func (all Outcomes) outcomeOf(status int, code engine.Code, coded bool) Outcome {
	if !coded {
		code = codeOf(status)
	}
	o := all.Of(code)
	if o.Code != code {
		o.Meaning = engine.Meaning{Code: code, Text: strings.ToLower(titleOf(status)),
			Retryable: status == http.StatusServiceUnavailable || status == http.StatusTooManyRequests}
	}
	o.Status = status
	return o
}

// codeOf turns the text of a status into a code: not_found.
func codeOf(status int) engine.Code {
	return engine.Code(strings.Map(func(r rune) rune {
		switch {
		case r == ' ' || r == '-':
			return '_'
		case unicode.IsLetter(r):
			return unicode.ToLower(r)
		}
		return -1
	}, titleOf(status)))
}

func titleOf(status int) string {
	switch title := http.StatusText(status); {
	case title != "":
		return title
	case status == statusClientGone:
		return "Client Closed Request"
	case status >= 500:
		return "Server Error"
	}
	return "Client Error"
}

// Clean returns a text that may contain what a client has sent in a form that is safe to show. It replaces
// control characters, characters that change the direction of writing, and invalid UTF-8.
func Clean(s string) string {
	for _, r := range s {
		if unshown(r) {
			return strings.Map(func(r rune) rune {
				switch {
				case r == '\n' || r == '\t':
					return ' '
				case unshown(r):
					return utf8.RuneError
				}
				return r
			}, s)
		}
	}
	return s
}

func unshown(r rune) bool {
	return r < 0x20 || r >= 0x7f && r < 0xa0 || r == utf8.RuneError || r > 0x7f && unicode.Is(unicode.Bidi_Control, r) || r == '\u2028' || r == '\u2029'
}

// clean cleans everything that may come from a client.
func (p *Problem) clean() {
	p.Detail = Clean(p.Detail)
	var own []Fault // p.Errors belong to the error
	for i, f := range p.Errors {
		c := Fault{Clean(f.Pointer), Clean(f.Parameter), Clean(f.Header), f.Code, Clean(f.Detail)}
		if c != f && own == nil {
			own = slices.Clone(p.Errors)
		}
		if own != nil {
			own[i] = c
		}
	}
	if own != nil {
		p.Errors = own
	}
}

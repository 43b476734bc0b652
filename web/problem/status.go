package problem

import (
	"net/http"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/skerrydb/skerry/engine"
)

// WithStatus is an error that says itself what it is answered with: a status from
// 400 to 599; others are as if they did not say. Without an engine.Error within it,
// its own text is told to clients, unless the status is 500 or 507.
type WithStatus interface {
	error
	HTTPStatus() int
}

// WithDetail is an error that says itself what clients may know of it.
type WithDetail interface {
	error
	PublicDetail() string
}

// outcomeOf is the outcome of an error with a status of its own. Its code need not be
// in a catalog: it is the application's.
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

// codeOf makes a code of the words of a status: not_found.
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

// Clean is a text that may hold what a client has sent, as it may be shown: control
// characters, those that turn the direction of writing, and what is no UTF-8 are
// replaced.
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

// clean cleans all that a client may have had a part in.
func (p *Problem) clean() {
	p.Detail = Clean(p.Detail)
	var own []Fault // p.Errors are the error's
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

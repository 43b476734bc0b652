package web

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/web/problem"
)

// Errorf returns an error with a code of the application's own and the HTTP status of the response, 400 to
// 599. Codes are lower case, with _ between words, and should never change. An error wrapped with %w becomes
// its cause. With status 500 or 507 the text goes to the log only. Errorf panics if status is not an error.
//
// Without Errorf, an engine.Error whose code is in no catalog, for example from a procedure of the program,
// gets status 422.
//
// Any other error type can do the same with a method HTTPStatus() int. Its code comes from an engine.Error
// within it, or from the text of the status.
func Errorf(status int, code engine.Code, format string, args ...any) error {
	if status < 400 || status > 599 {
		panic(fmt.Sprintf("web: Errorf with status %d, which is not an error", status))
	}
	return &statusError{status, engine.Errorf(code, format, args...)}
}

// statusError is an Error with its own status.
type statusError struct {
	status int
	err    *engine.Error
}

var _ problem.WithStatus = (*statusError)(nil)

// Error implements error.
func (e *statusError) Error() string { return e.err.Error() }

// Unwrap exposes the code to engine.CodeOf.
func (e *statusError) Unwrap() error { return e.err }

// HTTPStatus implements problem.WithStatus.
func (e *statusError) HTTPStatus() int { return e.status }

// Wrong returns an error about one field of a request's body, by its JSON pointer ("/age"; "" is the whole
// body), for Validate and for handlers. The response has status 400, and pages show the error beside the
// field. See Mistakes for several.
func Wrong(pointer, format string, args ...any) error {
	return problem.Faults{{Pointer: pointer, Code: engine.CodeInvalid, Detail: fmt.Sprintf(format, args...)}}
}

// WrongParameter is Wrong for a parameter of the query or the path.
func WrongParameter(name, format string, args ...any) error {
	return problem.Faults{{Parameter: name, Code: engine.CodeInvalid, Detail: fmt.Sprintf(format, args...)}}
}

// FaultsOf returns the errors of single fields in err, for a page that shows a form again. The keys are JSON
// pointers without the first /, or parameter names. Errors about the whole request are under "".
func FaultsOf(err error) map[string]string {
	texts := map[string]string{}
	faults, _ := errors.AsType[problem.Faults](err)
	for _, f := range faults {
		name := strings.TrimPrefix(f.Pointer, "/") + f.Parameter
		if _, twice := texts[name]; !twice {
			texts[name] = f.Detail
		}
	}
	return texts
}

// SetHeader sets a header of the response. A name that HTTP cannot carry is engine.CodeInternal. A value that
// HTTP cannot carry, such as a line break that would begin another header, is engine.CodeInvalid, as it may
// come from a user.
func (c *Context) SetHeader(name, value string) error {
	if name == "" || strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, r) }) {
		return engine.Errorf(engine.CodeInternal, "web: %.60q cannot be the name of a header", name)
	}
	if !oneLine(value) {
		return engine.Errorf(engine.CodeInvalid, "the header %s cannot be %.60q", http.CanonicalHeaderKey(name), value)
	}
	c.Header().Set(name, value)
	return nil
}

// oneLine reports whether a text has no control characters.
func oneLine(s string) bool {
	for i := range len(s) {
		if s[i] < 0x20 && s[i] != '\t' || s[i] == 0x7f {
			return false
		}
	}
	return true
}

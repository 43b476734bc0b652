package api

import (
	"errors"
	"net/http"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/web/problem"
)

// problemOf says what a client may know of err.
func (a *app) problemOf(err error) problem.Problem {
	p := a.outcomes.Describe(err)
	if _, own := errors.AsType[*ownCode](err); own {
		said := problem.Outcome{Meaning: engine.Meaning{Code: engine.CodeOf(err)}, Status: http.StatusUnprocessableEntity}.Problem()
		said.Errors = p.Errors
		if coded, ok := errors.AsType[*engine.Error](err); ok {
			said.Detail = coded.Msg
		}
		p = said
	}
	if f, ok := errors.AsType[*callFault](err); ok {
		p.Detail = f.detail()
	}
	return p
}

// fail answers with err. If the answer has begun, it cuts the connection off
// instead, so that the client cannot take what it has for the whole.
func (x *exchange) fail(r *http.Request, err error) {
	p := x.app.problemOf(err)
	p.RequestID = x.requestID()
	if p.Status == http.StatusInternalServerError {
		x.app.o.Logger.LogAttrs(r.Context(), levelOf(p.Code), "request failed", x.attrs(r, err)...)
	}
	if x.status != 0 {
		panic(http.ErrAbortHandler)
	}
	p.Write(x)
}

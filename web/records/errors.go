package records

import (
	"errors"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/record/query"
	"github.com/skerrydb/skerry/record/schema"
	"github.com/skerrydb/skerry/web/problem"
)

// explained is an error with the parts of the request that it is about.
type explained struct {
	error
	faults problem.Faults
}

// Unwrap exposes the code of the error before those of its faults.
func (e *explained) Unwrap() []error { return []error{e.error, e.faults} }

// explain adds to err which parts of the request it is about.
func explain(err error) error { return explainIn(err, "") }

// explainIn is explain for a part of a request to which the JSON pointer in leads.
func explainIn(err error, in string) error {
	if p, ok := errors.AsType[schema.Problems](err); ok {
		e := &explained{error: err}
		for _, x := range p {
			pointer := in + "/data" + x.Pointer
			if x.Pointer == "/id" { // no field has such a name
				pointer = in + "/id"
			}
			e.faults = append(e.faults, problem.Fault{Pointer: pointer, Code: engine.Code(x.Code), Detail: x.Detail})
		}
		return e
	}
	if q, ok := errors.AsType[*query.Error](err); ok {
		return &explained{err, problem.Faults{{Parameter: q.Member, Code: engine.Code(q.Code), Detail: q.Error()}}}
	}
	return err
}

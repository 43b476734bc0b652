package records

import (
	"errors"
	"slices"
	"strconv"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/record"
	"github.com/skerrydb/skerry/record/query"
	"github.com/skerrydb/skerry/record/schema"
	"github.com/skerrydb/skerry/web/problem"
)

// explained is an error with pointers to the parts of the request that caused it.
type explained struct {
	error
	faults problem.Faults
}

// Unwrap exposes the code of the error before those of its faults.
func (e *explained) Unwrap() []error { return []error{e.error, e.faults} }

// explainOp is explain for the operation with index i of a transaction.
func explainOp(err error, i int) error {
	at := "/ops/" + strconv.Itoa(i)
	if faults, ok := errors.AsType[problem.Faults](err); ok {
		faults = slices.Clone(faults)
		for i := range faults {
			faults[i].Pointer = at + faults[i].Pointer
		}
		return faults
	}
	if e, ok := errors.AsType[*explained](explainIn(err, at)); ok {
		return e
	}
	e, ok := errors.AsType[*engine.Error](err)
	if !ok || !public(e.Code) {
		return err
	}
	return &explained{err, problem.Faults{{Pointer: at, Code: e.Code, Detail: e.Msg}}}
}

// public reports whether clients may see the text of errors with a code.
func public(code engine.Code) bool {
	return code == engine.CodePreconditionFailed || code == engine.CodeLimit ||
		slices.ContainsFunc(record.Catalog(), func(m engine.Meaning) bool { return m.Code == code })
}

// explain adds to err the parts of the request that caused it.
func explain(err error) error { return explainIn(err, "") }

// explainIn is explain for the part of a request at the JSON Pointer in.
func explainIn(err error, in string) error {
	if _, ok := errors.AsType[problem.Faults](err); ok {
		return err
	}
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

package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/mail"
	"github.com/skerrydb/skerry/proc"
	"github.com/skerrydb/skerry/web"
)

const (
	maxResultShown = 64 << 10 // bytes of a result that a page shows
	maxLogArgs     = 1000     // bytes of the arguments in the log

	maxCallTime = time.Minute // of a call from the page
)

func (a *Admin) addProcedures(g *web.Group) {
	g.Get("/procedures", a.procedures)
	g.Get("/procedures/_live", a.proceduresLive) // names of procedures begin with a letter
	g.Get("/procedures/{name}", a.procedure)
	g.Post("/procedures/{name}", a.procedureCall)
}

// procArgsText returns arguments as a signature has them.
func procArgsText(args []proc.Field) string {
	var all []string
	for _, f := range args {
		name := f.Name
		if f.Optional {
			name += "?"
		}
		all = append(all, name+": "+procTypeText(f.Type, 0))
	}
	return strings.Join(all, ", ")
}

// maxProcType is how deep a type is written out.
const maxProcType = 3

// procTypeText returns a type for people.
func procTypeText(t proc.Type, depth int) string {
	text := string(t.Kind)
	switch t.Kind {
	case proc.KindInt, proc.KindUint, proc.KindFloat:
		if t.Bits > 0 {
			text += fmt.Sprint(t.Bits)
		}
	case proc.KindList, proc.KindMap:
		if t.Of != nil && depth < maxProcType {
			text += " of " + procTypeText(*t.Of, depth+1)
		}
	case proc.KindObject:
		if depth >= maxProcType {
			break
		}
		var all []string
		for _, f := range t.Fields[:min(len(t.Fields), 12)] {
			all = append(all, f.Name+": "+procTypeText(f.Type, depth+1))
		}
		if len(t.Fields) > 12 {
			all = append(all, "…")
		}
		text = "{" + strings.Join(all, ", ") + "}"
	case proc.KindNull:
		return "nothing"
	}
	if t.Nullable {
		text += " or null"
	}
	return text
}

// procInput is one argument in the form of a procedure.
type procInput struct {
	Name, Field, Type string // Field is the name in the form
	Kind              string // of the control: text, long, bool, json
	Optional          bool
	Value, Problem    string
	Example           string
}

// procInputs returns the form of a procedure.
func procInputs(s proc.Schema) []procInput {
	var all []procInput
	for _, f := range s.Args {
		in := procInput{Name: f.Name, Field: "arg-" + f.Name, Type: procTypeText(f.Type, 0), Optional: f.Optional || f.Type.Nullable, Kind: "text"}
		switch f.Type.Kind {
		case proc.KindBool:
			in.Kind = "bool"
		case proc.KindString:
			in.Kind = "long"
		case proc.KindTime:
			in.Example = "2026-01-31T12:00:00Z"
		case proc.KindBytes:
			in.Example = "aGVsbG8="
		case proc.KindInt, proc.KindUint:
			in.Kind = "number"
		case proc.KindObject, proc.KindList, proc.KindMap, proc.KindJSON, proc.KindNull:
			in.Kind, in.Example = "json", procExample(f.Type, 0)
		}
		all = append(all, in)
	}
	return all
}

// procExample returns JSON of a type.
func procExample(t proc.Type, depth int) string {
	if depth > maxProcType {
		return "null"
	}
	switch t.Kind {
	case proc.KindBool:
		return "false"
	case proc.KindInt, proc.KindUint, proc.KindFloat:
		return "0"
	case proc.KindString, proc.KindBytes:
		return `""`
	case proc.KindTime:
		return `"2026-01-31T12:00:00Z"`
	case proc.KindObject:
		var all []string
		for _, f := range t.Fields {
			all = append(all, jsonString(f.Name)+": "+procExample(f.Type, depth+1))
		}
		return "{" + strings.Join(all, ", ") + "}"
	case proc.KindList:
		if t.Of != nil {
			return "[" + procExample(*t.Of, depth+1) + "]"
		}
		return "[]"
	case proc.KindMap:
		if t.Of != nil {
			return `{"key": ` + procExample(*t.Of, depth+1) + "}"
		}
	}
	return "{}"
}

// jsonString returns a text as JSON.
func jsonString(text string) string {
	b, err := json.Marshal(text)
	if err != nil {
		panic("BUG: encode a string: " + err.Error())
	}
	return string(b)
}

// procArguments returns the arguments of a form as a JSON object, and fills in the values of ins.
func procArguments(get func(string) web.Value, s proc.Schema, ins []procInput) []byte {
	b := []byte("{")
	for i, f := range s.Args {
		text := strings.ReplaceAll(get(ins[i].Field).String(), "\r\n", "\n") // browsers send CRLF for each end of a line
		ins[i].Value = text
		if text == "" && ins[i].Optional {
			continue
		}
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = append(append(b, jsonString(f.Name)...), ':')
		switch f.Type.Kind {
		case proc.KindString, proc.KindTime, proc.KindBytes:
			b = append(b, jsonString(text)...)
		default:
			if text = strings.TrimSpace(text); !json.Valid([]byte(text)) {
				text = jsonString(text) // for which the procedure says what it wants instead
			}
			b = append(b, text...)
		}
	}
	return append(b, '}')
}

// procedure shows the form of a procedure, and calls it if that only reads and the form was sent.
func (a *Admin) procedure(c *web.Context) error {
	s, err := a.o.Procedures.Schema(c.Path("name").String())
	if err != nil {
		return err
	}
	ins := procInputs(s)
	if !s.ReadOnly || c.Query("call").String() == "" {
		for i := range ins {
			ins[i].Value = c.Query(ins[i].Field).String()
		}
		return a.showProcedure(c, http.StatusOK, s, ins, nil)
	}
	args := procArguments(c.Query, s, ins)
	return a.showOutcome(c, s, ins, a.call(c, s, args))
}

// procedureCall calls a procedure for a superadmin.
func (a *Admin) procedureCall(c *web.Context) error {
	s, err := a.o.Procedures.Schema(c.Path("name").String())
	if err != nil {
		return err
	}
	ins := procInputs(s)
	args := procArguments(c.Form, s, ins)
	var out procOutcome
	err = a.act(c, "procedure.call", s.Name, mail.Redacted(string(args), maxLogArgs), func() error {
		out = a.call(c, s, args)
		return out.err
	})
	if err != nil && out.err == nil {
		return err // the log could not be written
	}
	return a.showOutcome(c, s, ins, out)
}

// procOutcome is what a call came to.
type procOutcome struct {
	Result  string // JSON
	Cut     bool
	Took    time.Duration
	Code    string // of the error
	Detail  string
	Changes *txEffects
	err     error
}

func (a *Admin) showOutcome(c *web.Context, s proc.Schema, ins []procInput, out procOutcome) error {
	status := http.StatusOK
	if out.err != nil {
		out.Code, out.Detail = string(engine.CodeOf(out.err)), c.Detail(out.err)
		status = http.StatusUnprocessableEntity
		if arg, ok := errors.AsType[*proc.ArgumentError](out.err); ok {
			name, _, _ := strings.Cut(strings.TrimPrefix(arg.Pointer, "/"), "/")
			if i := slices.IndexFunc(ins, func(in procInput) bool { return in.Name == unpoint(name) }); i >= 0 {
				ins[i].Problem = out.Detail
			}
		}
	}
	return a.showProcedure(c, status, s, ins, &out)
}

// unpoint returns the name that a part of a JSON pointer stands for.
func unpoint(part string) string { return strings.NewReplacer("~1", "/", "~0", "~").Replace(part) }

func (a *Admin) showProcedure(c *web.Context, status int, s proc.Schema, ins []procInput, out *procOutcome) error {
	locals := web.Locals{
		"title": s.Name, "schema": s, "args": procArgsText(s.Args), "result": procTypeText(s.Result, 0), "inputs": ins, "outcome": out, "most_changes": maxEffects,
	}
	a.addNumbers(locals, s.Name)
	return a.show(c, status, "procedure", locals)
}

// call calls a procedure with arguments in JSON.
func (a *Admin) call(c *web.Context, s proc.Schema, args []byte) procOutcome {
	call, err := a.o.Procedures.Begin([]byte(s.Name))
	if err != nil {
		return procOutcome{err: err}
	}
	defer call.End()
	if err := call.JSON(args); err != nil {
		return procOutcome{err: err}
	}
	var out procOutcome
	var result []byte
	ctx, cancel := context.WithTimeout(c, maxCallTime)
	defer cancel()
	begun := a.o.Now()
	if s.ReadOnly {
		_, out.err = call.Do(ctx, engine.Read{}, func(call *proc.Call) error {
			result, err = call.AppendJSON(result[:0])
			return err
		})
		out.Took = a.o.Now().Sub(begun).Round(roundTook)
	} else {
		out.Changes, out.err = a.withEffects(ctx, func(tx engine.Tx) error {
			if err := call.Run(tx); err != nil {
				return err
			}
			var err error
			result, err = call.AppendJSON(result[:0])
			return err
		}, &out.Took)
	}
	if out.err != nil {
		return out
	}
	var b bytes.Buffer
	if json.Indent(&b, result, "", "  ") != nil {
		b.Reset()
		b.Write(result)
	}
	out.Cut = b.Len() > maxResultShown
	out.Result = shorten(b.String(), maxResultShown)
	return out
}

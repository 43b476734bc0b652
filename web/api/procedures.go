package api

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/kv"
	"github.com/skerrydb/skerry/proc"
	"github.com/skerrydb/skerry/web"
	"github.com/skerrydb/skerry/web/conditions"
)

// procedure describes one procedure for the handlers.
type procedure struct {
	schema     proc.Schema
	sum        string   // identifies the version
	parameters []string // that a GET may have
}

// proceduresOf returns the procedures of set, by name.
func proceduresOf(set *proc.Set) map[string]procedure {
	all := map[string]procedure{}
	if set == nil {
		return all
	}
	for _, s := range set.Schemas() {
		b, err := json.Marshal(s)
		if err != nil {
			panic("BUG: encode schema: " + err.Error())
		}
		sum := sha256.Sum256(b)
		p := procedure{schema: s, sum: hex.EncodeToString(sum[:8]), parameters: []string{}}
		if s.ReadOnly {
			p.sum += readsSuffix
		}
		for _, arg := range s.Args {
			p.parameters = append(p.parameters, arg.Name)
		}
		p.parameters = append(p.parameters, "read", "max_stale")
		all[s.Name] = p
	}
	return all
}

// queryJSON appends the arguments in the query as one JSON object. They are in the text form of proc.Call's
// Arguments: text and bytes are as they are, other values are JSON. An empty value is null if the argument is
// nullable, and omits an optional argument that is neither text nor bytes.
func (p *procedure) queryJSON(b []byte, q url.Values) ([]byte, error) {
	b = append(b, '{')
	first := true
	for _, arg := range p.schema.Args {
		if !q.Has(arg.Name) || arg.Name == "read" || arg.Name == "max_stale" {
			continue
		}
		textual := arg.Type.Kind == proc.KindString || arg.Type.Kind == proc.KindBytes
		if q.Get(arg.Name) == "" && arg.Optional && !arg.Type.Nullable && !textual {
			continue
		}
		if !first {
			b = append(b, ',')
		}
		first = false
		b = append(appendString(b, arg.Name), ':')
		var err error
		if b, err = appendText(b, arg, q.Get(arg.Name)); err != nil {
			return b, err
		}
	}
	return append(b, '}'), nil
}

// appendText appends one argument.
func appendText(b []byte, arg proc.Field, text string) ([]byte, error) {
	if text == "" && arg.Type.Nullable {
		return append(b, "null"...), nil
	}
	switch arg.Type.Kind {
	case proc.KindBytes:
		b = append(b, '"')
		b = base64.StdEncoding.AppendEncode(b, []byte(text))
		return append(b, '"'), nil
	case proc.KindString, proc.KindTime:
		if !utf8.ValidString(text) {
			return b, badParameter(arg.Name, engine.CodeInvalid, "must be UTF-8")
		}
		return appendString(b, text), nil
	}
	if !json.Valid([]byte(text)) {
		return b, badParameter(arg.Name, engine.CodeInvalid, "expected "+string(arg.Type.Kind)+" as JSON")
	}
	return append(b, text...), nil
}

// listProcedures serves GET /api/procedures. The list never changes while the program runs.
func (a *app) listProcedures() web.Handler {
	list := []proc.Schema{}
	if a.o.Procedures != nil {
		list = a.o.Procedures.Schemas()
	}
	var body bytes.Buffer
	enc := json.NewEncoder(&body)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(map[string]any{"procedures": list}); err != nil {
		panic("BUG: encode schemas: " + err.Error())
	}
	sum := sha256.Sum256(body.Bytes())
	// A number, so that conditions parse it like a revision.
	rev := kv.Revision(0)
	for _, c := range sum[:7] {
		rev = rev<<8 | kv.Revision(c)
	}
	rev |= 1 // 0 is not a revision
	return func(c *web.Context) error {
		r := c.Request
		if _, err := query(r); err != nil {
			return err
		}
		cond, err := conditions.Of(r.Header)
		if err != nil {
			return err
		}
		unchanged, err := cond.AllowRead("key", uint64(rev))
		if err != nil {
			return err
		}
		h := c.Header()
		h["Cache-Control"] = a.noCache
		h["Etag"] = []string{strconv.Quote(strconv.FormatUint(uint64(rev), 10))}
		if unchanged {
			c.Writer.WriteHeader(http.StatusNotModified)
			return nil
		}
		h["Content-Type"] = a.json
		h["X-Content-Type-Options"] = a.noSniff
		h["Content-Length"] = []string{strconv.Itoa(body.Len())}
		c.Writer.WriteHeader(http.StatusOK)
		if r.Method != http.MethodHead {
			_, _ = c.Writer.Write(body.Bytes()) // an error means that the client is gone
		}
		return nil
	}
}

// signature is one line of the index.
type signature struct {
	Name     string
	Text     string
	ReadOnly bool
	Args     []struct{ Name, Type string }
	Result   string // "" if there is none
}

// signatures lists the procedures by name.
func (a *app) signatures() []signature {
	var list []signature
	for _, name := range slices.Sorted(maps.Keys(a.procedures)) {
		s := a.procedures[name].schema
		line := signature{Name: s.Name, Text: s.Text, ReadOnly: s.ReadOnly}
		for _, arg := range s.Args {
			if arg.Optional {
				arg.Name += "?"
			}
			line.Args = append(line.Args, struct{ Name, Type string }{arg.Name, typeText(arg.Type)})
		}
		if s.Result.Kind != proc.KindNull {
			line.Result = typeText(s.Result)
			if s.Result.Nullable {
				line.Result += " or null"
			}
		}
		list = append(list, line)
	}
	return list
}

// typeText describes a type for people.
func typeText(t proc.Type) string {
	switch t.Kind {
	case proc.KindInt, proc.KindUint, proc.KindFloat:
		if t.Bits > 0 {
			return string(t.Kind) + strconv.Itoa(t.Bits)
		}
	case proc.KindList:
		return typeText(*t.Of) + "[]"
	case proc.KindMap:
		return "map of " + typeText(*t.Of)
	}
	return string(t.Kind)
}

// exampleCall returns a command that calls the first procedure with arguments, or the first one; "" if there
// is none.
func (a *app) exampleCall(curl, base string) string {
	names := slices.Sorted(maps.Keys(a.procedures))
	if len(names) == 0 {
		return ""
	}
	s := a.procedures[names[max(0, slices.IndexFunc(names, func(n string) bool { return len(a.procedures[n].schema.Args) > 0 }))]].schema
	url := base + callPath + s.Name
	var required []string
	for _, arg := range s.Args {
		if !arg.Optional {
			required = append(required, string(appendString(nil, arg.Name))+":"+sample(arg.Type))
		}
	}
	if s.ReadOnly && required == nil {
		return curl + " " + url
	}
	return curl + " --json '{" + strings.ReplaceAll(strings.Join(required, ","), "'", `'\''`) + "}' " + url
}

// sample returns a sample value of a type as JSON.
func sample(t proc.Type) string {
	switch t.Kind {
	case proc.KindBool:
		return "false"
	case proc.KindInt, proc.KindUint, proc.KindFloat:
		return "1"
	case proc.KindString:
		return `"text"`
	case proc.KindBytes:
		return `"AAE="`
	case proc.KindTime:
		return `"2026-01-31T12:00:00Z"`
	case proc.KindList:
		return "[]"
	case proc.KindNull, proc.KindMap:
		return "{}"
	case proc.KindObject:
		var fields []string
		for _, f := range t.Fields {
			fields = append(fields, string(appendString(nil, f.Name))+":"+sample(f.Type))
		}
		return "{" + strings.Join(fields, ",") + "}"
	}
	return "null"
}

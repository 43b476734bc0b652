package web

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"unicode/utf8"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/kv"
	"github.com/skerrydb/skerry/proc"
)

// procedure is what the face keeps of one procedure.
type procedure struct {
	schema     proc.Schema
	sum        string   // tells versions apart
	parameters []string // what a GET may have
}

// proceduresOf returns the procedures of set by name.
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
		for _, arg := range s.Args {
			p.parameters = append(p.parameters, arg.Name)
		}
		p.parameters = append(p.parameters, "read", "max_stale")
		all[s.Name] = p
	}
	return all
}

// queryJSON appends the arguments that are in the query as one JSON object. They
// are in the text form: what is not a text itself is JSON, bytes are as they
// are, and an empty text is null where null may be.
func (p *procedure) queryJSON(b []byte, q url.Values) ([]byte, error) {
	b = append(b, '{')
	first := true
	for _, arg := range p.schema.Args {
		if !q.Has(arg.Name) || arg.Name == "read" || arg.Name == "max_stale" {
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
	switch arg.Type.Kind {
	case proc.KindBytes:
		b = append(b, '"')
		b = base64.StdEncoding.AppendEncode(b, []byte(text))
		return append(b, '"'), nil
	case proc.KindString, proc.KindTime:
		if text == "" && arg.Type.Nullable {
			return append(b, "null"...), nil
		}
		if !utf8.ValidString(text) {
			return b, badParameter(arg.Name, engine.CodeInvalid, "must be UTF-8")
		}
		return appendString(b, text), nil
	}
	if text == "" && arg.Type.Nullable {
		return append(b, "null"...), nil
	}
	if !json.Valid([]byte(text)) {
		return b, badParameter(arg.Name, engine.CodeInvalid, "expected "+string(arg.Type.Kind)+", as JSON has it")
	}
	return append(b, text...), nil
}

// listProcedures answers GET /api/procedures. The list never changes while the
// program runs.
func (a *app) listProcedures() handler {
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
	// A number, so that conditions read it as they read revisions.
	rev := kv.Revision(0)
	for _, c := range sum[:7] {
		rev = rev<<8 | kv.Revision(c)
	}
	rev |= 1 // 0 is no revision
	return func(x *exchange, r *http.Request) error {
		if _, err := query(r); err != nil {
			return err
		}
		cond, err := conditionsOf(r)
		if err != nil {
			return err
		}
		unchanged, err := cond.allowRead(rev)
		if err != nil {
			return err
		}
		h := x.Header()
		h["Cache-Control"] = a.noCache
		h["Etag"] = []string{strconv.Quote(strconv.FormatUint(uint64(rev), 10))}
		if unchanged {
			x.WriteHeader(http.StatusNotModified)
			return nil
		}
		h["Content-Type"] = a.json
		h["X-Content-Type-Options"] = a.noSniff
		h["Content-Length"] = []string{strconv.Itoa(body.Len())}
		x.WriteHeader(http.StatusOK)
		if r.Method != http.MethodHead {
			x.Write(body.Bytes()) // an error means that the client is gone
		}
		return nil
	}
}

package api

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"unicode/utf8"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/kv"
)

// listing is one request for a page of keys.
type listing struct {
	prefix, after []byte
	limit         int
	values        bool
	descending    bool
	query         url.Values // as requested, for the link to the next page
}

// list serves GET /db/: a page of keys in ascending or descending byte order.
func (x *operation) list(r *http.Request) error { return x.here(r, (*operation).listHere) }

func (x *operation) listHere(r *http.Request) error {
	q, err := x.keyQuery(r, "prefix", "after", "limit", "order", "values", "read", "max_stale")
	if err != nil {
		return err
	}
	l, err := listingOf(q)
	if err != nil {
		return err
	}
	read, err := readOf(r, q)
	if err != nil {
		return err
	}
	pos, err := x.view(r, read, func(t *kv.Tx) error {
		x.text, err = l.page(t, x)
		return err
	})
	if err != nil {
		x.kept = true
		return err
	}
	h := x.Header()
	x.setPosition(pos)
	h["Cache-Control"] = x.app.noCache
	h["Content-Type"] = x.app.json
	h["X-Content-Type-Options"] = x.app.noSniff
	h["Content-Length"] = []string{strconv.Itoa(len(x.text))}
	x.WriteHeader(http.StatusOK)
	_, _ = x.Write(x.text)
	return nil
}

func listingOf(q url.Values) (listing, error) {
	l := listing{prefix: []byte(q.Get("prefix")), limit: DefaultPage, query: q}
	if after := q.Get("after"); after != "" {
		l.after = []byte(after)
	}
	if q.Has("limit") {
		n, err := strconv.Atoi(q.Get("limit"))
		if err != nil || n < 1 {
			return l, badParameter("limit", engine.CodeInvalid, "must be a whole number from 1 to "+strconv.Itoa(kv.MaxPage))
		}
		if n > kv.MaxPage {
			return l, badParameter("limit", engine.CodeLimit, "must be at most "+strconv.Itoa(kv.MaxPage))
		}
		l.limit = n
	}
	switch order := q.Get("order"); {
	case order == "desc":
		l.descending = true
	case order != "asc" && q.Has("order"):
		return l, badParameter("order", engine.CodeInvalid, "must be asc or desc")
	}
	switch v := q.Get("values"); {
	case v == "1":
		l.values = true
	case v != "0" && q.Has("values"):
		return l, badParameter("values", engine.CodeInvalid, "must be 0 or 1")
	}
	return l, nil
}

// page returns the page as JSON, in x.text's memory if that is large enough.
func (l *listing) page(t *kv.Tx, x *operation) ([]byte, error) {
	lo, hi := l.prefix, engine.PrefixEnd(l.prefix)
	scan := t.Scan
	switch {
	case l.descending:
		scan = t.ScanBack
		if l.after != nil && (hi == nil || bytes.Compare(l.after, hi) < 0) {
			hi = l.after
		}
	case l.after != nil && bytes.Compare(l.after, lo) >= 0:
		lo = append(bytes.Clone(l.after), 0)
	}
	b := append(x.text[:0], `{"items":[`...)
	n, last, more := 0, []byte(nil), false
	if hi == nil || bytes.Compare(lo, hi) < 0 {
		for it, err := range scan(lo, hi) {
			if err != nil {
				return b, err
			}
			if n == l.limit || len(b) > MaxPageBytes || n > 0 && len(b)+len(it.Val) > MaxPageBytes && l.values {
				more = true
				break
			}
			if n > 0 {
				b = append(b, ',')
			}
			if l.values {
				if err := x.room(len(b) + 2*len(it.Val)); err != nil { // twice: base64, escapes
					return b, err
				}
			}
			b = l.item(b, it)
			last = append(last[:0], it.Key...)
			n++
		}
	}
	b = append(b, ']')
	if more {
		b = append(b, `,"next":`...)
		b = appendString(b, l.next(last))
	}
	return append(b, "}\n"...), nil
}

func (l *listing) item(b []byte, it kv.Item) []byte {
	b = append(b, "\n{"...)
	b = appendField(b, "key", it.Key)
	if l.values {
		b = append(b, ',')
		b = appendField(b, "value", it.Val)
		b = append(b, `,"revision":`...)
		b = strconv.AppendUint(b, uint64(it.Rev), 10)
		if !it.Expires.IsZero() {
			b = append(b, `,"expires":"`...)
			b = append(appendTime(b, it.Expires), '"')
		}
	}
	return append(b, '}')
}

// next returns the address of the page that begins after the key last.
func (l *listing) next(last []byte) string {
	q := url.Values{"after": {string(last)}}
	for name, vals := range l.query {
		if name != "after" {
			q[name] = vals
		}
	}
	return dbPath + "?" + q.Encode()
}

// appendField appends a member of a JSON object without losing a byte: "name" with the text if the bytes are
// UTF-8, otherwise "name64" with the bytes in base64.
func appendField(b []byte, name string, data []byte) []byte {
	b = append(append(b, '"'), name...)
	if utf8.Valid(data) {
		b = append(b, `":`...)
		return appendString(b, string(data))
	}
	b = append(b, `64":"`...)
	b = base64.StdEncoding.AppendEncode(b, data)
	return append(b, '"')
}

// appendString appends s, which must be valid UTF-8, as a JSON string.
func appendString(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			var buf bytes.Buffer
			enc := json.NewEncoder(&buf)
			enc.SetEscapeHTML(false)
			if err := enc.Encode(s); err != nil {
				panic("BUG: encode string: " + err.Error())
			}
			return append(b, bytes.TrimSuffix(buf.Bytes(), []byte("\n"))...)
		}
	}
	b = append(append(b, '"'), s...)
	return append(b, '"')
}

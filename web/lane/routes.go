package lane

import (
	"net/http"
	"strings"
)

// Route is a kind of requests that the lane may answer. The first route that allows a request counts.
type Route struct {
	// Methods are among GET, HEAD, PUT, POST, PATCH and DELETE: "GET, HEAD".
	Methods string

	// Path is a path, or, if it ends with a slash, the beginning of longer ones. Only letters, digits and
	// - . _ ~ / : @ & = + $ , ; can be in the path of a request.
	Path string

	// Segment limits a Path that ends with a slash to paths with exactly one segment more.
	Segment bool

	// Headers are the request header fields that the handler reads besides Host, Content-Length and those of
	// every route: Accept, Accept-Encoding, Accept-Language, Authorization, Connection, Content-Type and
	// User-Agent. A request with any other field goes to net/http.
	Headers []string

	// Ignored are further ones, which do not matter to Fast.
	Ignored []string

	// Fast, if not nil, is asked before the handler, unless the request has one of Headers. It reports whether it
	// has answered; otherwise it has added nothing to the response, and the handler answers. Of two routes of one
	// path, each with its methods, each can have its own.
	Fast func(x *Fast) bool
}

// common are the header fields of every route.
var common = [...]string{"Host", "Content-Length", "Connection", "Accept", "Accept-Encoding", "Accept-Language", "Authorization", "Content-Type", "User-Agent"}

// commonFields is the set of their places.
const commonFields = uint64(1)<<len(common) - 1

// The places of some of them.
const (
	fieldHost = iota
	fieldLength
	fieldConnection
)

// maxFields is how many different header fields a table can have: one bit of a set each.
const maxFields = 64

// table is the routes in the form in which requests are compared with them.
type table struct {
	routes  []compiled
	names   []string         // canonical names of header fields
	places  map[string]uint8 // of names in lower case, in names
	methods map[string]string
}

type compiled struct {
	methods map[string]bool
	path    string
	prefix  bool
	segment bool
	fields  uint64 // set of places
	slow    uint64 // those of them with which fast is not asked
	fast    func(x *Fast) bool
}

func newTable(routes []Route) *table {
	t := &table{places: map[string]uint8{}, methods: map[string]string{}}
	for _, name := range common {
		t.place(name)
	}
	for _, r := range routes {
		c := compiled{methods: map[string]bool{}, path: r.Path, prefix: strings.HasSuffix(r.Path, "/"), segment: r.Segment, fields: commonFields, fast: r.Fast}
		for m := range strings.SplitSeq(r.Methods, ", ") {
			switch m {
			case http.MethodGet, http.MethodHead, http.MethodPut, http.MethodPost, http.MethodPatch, http.MethodDelete:
				c.methods[m], t.methods[m] = true, m
			default:
				panic("BUG: lane: a route has the method " + m)
			}
		}
		for _, name := range r.Headers {
			c.slow |= 1 << t.place(http.CanonicalHeaderKey(name))
		}
		for _, name := range r.Ignored {
			c.fields |= 1 << t.place(http.CanonicalHeaderKey(name))
		}
		c.fields |= c.slow
		t.routes = append(t.routes, c)
	}
	return t
}

// place returns the place of a field, and makes one if it has none.
func (t *table) place(name string) uint8 {
	low := strings.ToLower(name)
	if i, ok := t.places[low]; ok {
		return i
	}
	if len(t.names) == maxFields {
		panic("BUG: lane: too many header fields")
	}
	t.places[low] = uint8(len(t.names))
	t.names = append(t.names, name)
	return t.places[low]
}

// find returns the first route that allows a request with that method, path and set of fields, nil if none does.
func (t *table) find(method, path string, fields uint64) *compiled {
	for i := range t.routes {
		r := &t.routes[i]
		switch {
		case r.prefix && (len(path) <= len(r.path) || path[:len(r.path)] != r.path), !r.prefix && path != r.path:
		case r.segment && strings.IndexByte(path[len(r.path):], '/') >= 0:
		case r.methods[method] && fields&^r.fields == 0:
			return r
		}
	}
	return nil
}

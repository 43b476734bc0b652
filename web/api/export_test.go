package api

import (
	"net/http"
	"net/url"
	"time"

	"github.com/skerrydb/skerry/kv"
	"github.com/skerrydb/skerry/proc"
)

// NewImpatient is New with another StallTimeout.
func NewImpatient(store *kv.Store, o Options, stall time.Duration) http.Handler {
	a := newApp(store, o)
	a.stall = stall
	return &Face{a}
}

// AppendField lets the tests see that no byte is lost.
func AppendField(b []byte, name string, data []byte) []byte { return appendField(b, name, data) }

// LimitForwards sets what MaxForwards and LeaderTimeout are for f.
func LimitForwards(f *Face, most int32, answer time.Duration) {
	f.app.forward.router.Limit = most
	f.app.forward.transport.ResponseHeaderTimeout = answer
}

// QueryJSON returns the arguments that the parameters q are for a procedure with args.
func QueryJSON(args []proc.Field, q url.Values) ([]byte, error) {
	p := procedure{schema: proc.Schema{Args: args}}
	return p.queryJSON(nil, q)
}

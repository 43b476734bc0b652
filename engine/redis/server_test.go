package redis

import (
	"context"
	"fmt"
	"net/url"
	"sync/atomic"

	"github.com/skerrydb/skerry/ci/redisserver"
	"github.com/skerrydb/skerry/engine"
)

var prefixes atomic.Int64

// newPrefix returns one that no other test uses.
func newPrefix() string { return fmt.Sprintf("t%d:", prefixes.Add(1)) }

func at(scheme string, s *redisserver.Server, prefix string) *url.URL {
	return &url.URL{Scheme: scheme, Host: s.Addr(), RawQuery: url.Values{"prefix": {prefix}}.Encode()}
}

// fatal is what tests and the suite have in common.
type fatal interface {
	Helper()
	Fatalf(format string, args ...any)
}

func open(t fatal, u *url.URL, o Options) engine.Engine {
	t.Helper()
	eng, err := Open(context.Background(), u, o)
	if err != nil {
		t.Fatalf("open %s: %v", u.Redacted(), err)
	}
	return eng
}

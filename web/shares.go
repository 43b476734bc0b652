package web

import (
	"sync"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/web/problem"
)

// Caller is who sends a request, as limits count it.
type Caller struct {
	Name     string // of the user, or of the address if nobody is logged in; IPv6 addresses by their /64
	Stranger bool   // nobody is logged in
}

// Caller returns who sends the request. It knows the users of sessions only inside routes with this package's Handlers,
// and those of API keys only inside middleware that calls SetKey.
func (c *Context) Caller() Caller { return c.x.caller() }

func (x *exchange) caller() Caller {
	if id := x.userID(); id != "" {
		return Caller{Name: userKey + id}
	}
	return Caller{"address " + clientOf(x.client(x.r), defaultIPv6Bits), true}
}

// Shares bounds how much of something all requests in progress have together. Strangers get only a part of it, so that
// there is always some left for users, and neither does one caller get all. It is safe for concurrent use.
type Shares struct {
	what                  string
	most, strangers, each int64

	mu          sync.Mutex // guards what follows
	taken       int64
	byStrangers int64            // of taken
	by          map[string]int64 // of taken, by Caller.Name; never 0
}

// NewShares returns Shares of most, of which all strangers together get at most strangers, and one caller at most each.
// what is the noun for error messages, in the plural.
func NewShares(what string, most, strangers, each int64) *Shares {
	return &Shares{what: what, most: most, strangers: strangers, each: each, by: map[string]int64{}}
}

// Take takes n for a request of a caller that has already taken had. It fails with engine.CodeQueueFull if others have
// too much, and with problem.CodeRateLimited if other requests of the caller have. A request that needs more than one
// caller may have can get it alone.
func (s *Shares) Take(who Caller, had, n int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	mine := s.by[who.Name]
	switch {
	case mine > had && mine+n > s.each:
		return engine.Errorf(problem.CodeRateLimited, "your requests in progress have %d %s, the limit; try again when they have ended", s.each, s.what)
	case s.taken+n > s.most:
		return engine.Errorf(engine.CodeQueueFull, "the requests in progress have %d %s, the limit; try again later", s.most, s.what)
	case who.Stranger && s.byStrangers+n > s.strangers:
		return engine.Errorf(engine.CodeQueueFull, "the requests in progress without a user have %d %s, the limit; try again later", s.strangers, s.what)
	}
	s.add(who, n)
	return nil
}

// Return returns n that a caller has taken.
func (s *Shares) Return(who Caller, n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.add(who, -n)
}

// add is for Take and Return. mu is held.
func (s *Shares) add(who Caller, n int64) {
	s.taken += n
	if who.Stranger {
		s.byStrangers += n
	}
	if s.by[who.Name] += n; s.by[who.Name] == 0 {
		delete(s.by, who.Name)
	}
}

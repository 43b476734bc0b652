package records

import (
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/record"
	"github.com/skerrydb/skerry/web"
)

// Limits of requests in progress that take long or hold much. They do not apply to superadmins and operators. Over the
// limit of all, or of strangers, a request is engine.CodeQueueFull; over that of one caller it is problem.CodeRateLimited.
const (
	MaxWriting          = 8  // imports and changes by filter in progress
	MaxStrangersWriting = 2  // of them, those without a user
	MaxWritingEach      = 2  // of them, those of one user, or of one address without a user
	MaxExports          = 64 // exports in progress; each keeps one state of the store in memory; and at most half of the views that an engine can have open
	MaxStrangersExports = 16 // of them, those without a user
	MaxExportsEach      = 4  // of them, those of one user, or of one address without a user
)

// turns are the requests in progress that limits count.
type turns struct{ writing, exports *web.Shares }

func newTurns(views int) turns {
	all, strangers, each := exportsAt(views)
	return turns{
		web.NewShares("imports or changes by filter", MaxWriting, MaxStrangersWriting, MaxWritingEach),
		web.NewShares("exports", all, strangers, each),
	}
}

// exportsAt returns the limits of exports on an engine that can have so many views open at once; 0: any number. An export
// keeps its view for as long as its client takes, and all other requests share what is left.
func exportsAt(views int) (all, strangers, each int64) {
	all, strangers, each = MaxExports, MaxStrangersExports, MaxExportsEach
	if views > 0 {
		all = min(all, max(1, int64(views/2)))
		strangers, each = min(strangers, max(1, all/2)), min(each, max(1, all/4))
	}
	return all, strangers, each
}

// begin counts a request until end is called.
func (f *Face) begin(c *web.Context, in *web.Shares) (end func(), err error) {
	a, err := f.o.Actor(c)
	if err != nil {
		return nil, err
	}
	if a.System {
		return func() {}, nil
	}
	who := caller(c, a)
	if err := in.Take(who, 0, 1); err != nil {
		return nil, err
	}
	return func() { in.Return(who, 1) }, nil
}

// caller returns who an actor is for limits.
func caller(c *web.Context, a record.Actor) web.Caller {
	if a.ID != "" {
		return web.Caller{Name: "user " + a.ID}
	}
	return c.Caller()
}

// may refuses a request before its body is read, if what the sender may do does not depend on the body.
func (f *Face) may(c *web.Context, ask func(tx *record.Tx) error) error {
	a, err := f.o.Actor(c)
	if err != nil || a.System {
		return err
	}
	if _, err = f.db.View(c, engine.Read{Level: engine.Local}, a, ask); err != nil {
		c.RefuseBody()
	}
	return err
}

// mayChange is may for some operations with records of the collection of the path.
func (f *Face) mayChange(c *web.Context, ops ...record.Operation) error {
	return f.may(c, func(tx *record.Tx) error { return tx.May(name(c), ops...) })
}

// mayUpdate is mayChange for updates of the record of the path. One that the sender may not see is not found.
func (f *Face) mayUpdate(c *web.Context) error {
	return f.may(c, func(tx *record.Tx) error {
		refused := tx.May(name(c), record.Update)
		if refused == nil {
			return nil
		}
		if _, err := tx.Get(name(c), id(c)); err != nil {
			return err
		}
		return refused
	})
}

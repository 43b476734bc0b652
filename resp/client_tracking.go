package resp

import (
	"slices"
	"strings"

	"github.com/skerrydb/skerry/decimal"
)

func clientGetRedir(x *call) error {
	x.out.Int(x.conn.track.shownRedirect())
	return nil
}

func (t *tracking) shownRedirect() int64 {
	if !t.on {
		return -1
	}
	return t.redirect
}

func clientTrackingInfo(x *call) error {
	t := &x.conn.track
	var flags []string
	add := func(on bool, name string) {
		if on {
			flags = append(flags, name)
		}
	}
	add(t.on, "on")
	add(!t.on, "off")
	add(t.bcast, "bcast")
	add(t.optin, "optin")
	add(t.optin && t.caching, "caching-yes")
	add(t.optout, "optout")
	add(t.optout && t.caching, "caching-no")
	add(t.noloop, "noloop")
	add(t.on && t.session.isBroken(), "broken_redirect")
	x.out.Map(3)
	x.out.BulkString("flags")
	x.out.Set(len(flags))
	for _, f := range flags {
		x.out.BulkString(f)
	}
	x.out.BulkString("redirect")
	x.out.Int(t.shownRedirect())
	x.out.BulkString("prefixes")
	writeList(x.out, t.prefixes)
	return nil
}

func clientCaching(x *call) error {
	t := &x.conn.track
	if !t.on {
		return replyError("ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode enabled")
	}
	switch {
	case x.is(2, "YES"):
		if !t.optin {
			return replyError("ERR CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode.")
		}
	case x.is(2, "NO"):
		if !t.optout {
			return replyError("ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode.")
		}
	default:
		return errSyntax
	}
	t.caching = true
	x.out.OK()
	return nil
}

func clientTracking(x *call) error {
	next, err := x.parseTracking()
	if err != nil {
		return err
	}
	switch {
	case x.is(2, "OFF"):
		x.conn.stopTracking()
	case !x.is(2, "ON"):
		return errSyntax
	default:
		if err := x.conn.track.check(&next); err != nil {
			return err
		}
		if err := x.conn.startTracking(next); err != nil {
			return err
		}
	}
	x.out.OK()
	return nil
}

func (x *call) parseTracking() (tracking, error) {
	t := tracking{on: true}
	for i := 3; i < len(x.args); i++ {
		more := i+1 < len(x.args)
		switch {
		case x.is(i, "REDIRECT") && more:
			i++
			if t.redirect != 0 {
				return t, replyError("ERR A client can only redirect to a single other client")
			}
			id, ok := decimal.Parse(x.args[i])
			if !ok {
				return t, errNotInteger
			}
			if x.srv.client(id) == nil {
				return t, replyError("ERR The client ID you want redirect to does not exist")
			}
			t.redirect = id
		case x.is(i, "BCAST"):
			t.bcast = true
		case x.is(i, "OPTIN"):
			t.optin = true
		case x.is(i, "OPTOUT"):
			t.optout = true
		case x.is(i, "NOLOOP"):
			t.noloop = true
		case x.is(i, "PREFIX") && more:
			i++
			t.prefixes = append(t.prefixes, string(x.args[i]))
		default:
			return t, errSyntax
		}
	}
	return t, nil
}

// check reports whether the options may change from t to next.
func (t *tracking) check(next *tracking) error {
	switch {
	case !next.bcast && len(next.prefixes) > 0:
		return replyError("ERR PREFIX option requires BCAST mode to be enabled")
	case t.on && t.bcast != next.bcast:
		return replyError("ERR You can't switch BCAST mode on/off before disabling tracking for this client, and then re-enabling it with a different mode.")
	case next.bcast && (next.optin || next.optout):
		return replyError("ERR OPTIN and OPTOUT are not compatible with BCAST")
	case next.optin && next.optout:
		return replyError("ERR You can't specify both OPTIN mode and OPTOUT mode")
	case next.optin && t.optout || next.optout && t.optin:
		return replyError("ERR You can't switch OPTIN/OPTOUT mode before disabling tracking for this client, and then re-enabling it with a different mode.")
	}
	for i, p := range next.prefixes {
		for _, old := range t.prefixes {
			if overlap(p, old) {
				return replyError("ERR Prefix '" + p + "' overlaps with an existing prefix '" + old + "'. Prefixes for a single client must not overlap.")
			}
		}
		for _, other := range next.prefixes[i+1:] {
			if overlap(p, other) {
				return replyError("ERR Prefix '" + p + "' overlaps with another provided prefix '" + other + "'. Prefixes for a single client must not overlap.")
			}
		}
	}
	return nil
}

func overlap(a, b string) bool { return strings.HasPrefix(a, b) || strings.HasPrefix(b, a) }

// startTracking sets the connection's tracking to next. Existing prefixes are kept.
func (c *conn) startTracking(next tracking) error {
	if next.bcast {
		if len(next.prefixes) == 0 {
			next.prefixes = []string{""}
		}
		next.prefixes = append(next.prefixes, c.track.prefixes...)
		slices.Sort(next.prefixes)
		next.prefixes = slices.Compact(next.prefixes)
	}
	s := &session{
		c: c, target: next.redirect, bcast: next.bcast,
		noloop:   next.noloop && c.srv.store.Promises().DistinctTimes, // it identifies its own writes by their times
		prefixes: next.prefixes, own: map[int64]struct{}{},
	}
	next.session = s
	var err error
	if old := c.track.session; old != nil {
		err = c.srv.tracker.replace(old, s)
	} else {
		err = c.srv.tracker.start(s)
	}
	if err != nil {
		return err
	}
	c.track = next
	c.show()
	return nil
}

func (c *conn) stopTracking() {
	if c.track.session != nil {
		c.srv.tracker.end(c.track.session)
	}
	c.track = tracking{redirect: -1}
}

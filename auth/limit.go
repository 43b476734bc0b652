package auth

import (
	"cmp"
	"net/netip"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/kv"
)

// Limit allows N attempts in each window of length Per, which begins with the first attempt. N < 0 means no
// limit. A zero N or Per means the default.
type Limit struct {
	N   int
	Per time.Duration
}

// Limits bounds how often secrets may be tried and emails requested. The counts are in the store, so they
// apply to all nodes together.
type Limits struct {
	Login        Limit // wrong passwords of one account; 10 in 15 minutes
	LoginFrom    Limit // wrong passwords from one client address; 100 in 15 minutes
	Code         Limit // wrong codes of one account's second factor; 10 in an hour
	Email        Limit // emails to one email address; 5 in an hour
	EmailFrom    Limit // emails requested from one client address; 30 in an hour
	RegisterFrom Limit // registrations from one client address; 30 in an hour
}

// The counted actions; the numbers are stored: do not change.
const (
	actLogin byte = iota + 1
	actLoginFrom
	actCode
	actEmail
	actEmailFrom
	actRegisterFrom
)

// byAction returns all limits, which the caller may change.
func (l *Limits) byAction() map[byte]*Limit {
	return map[byte]*Limit{
		actLogin: &l.Login, actLoginFrom: &l.LoginFrom, actCode: &l.Code,
		actEmail: &l.Email, actEmailFrom: &l.EmailFrom, actRegisterFrom: &l.RegisterFrom,
	}
}

func (l Limits) withDefaults() Limits {
	def := Limits{
		Login: Limit{10, 15 * time.Minute}, LoginFrom: Limit{100, 15 * time.Minute}, Code: Limit{10, time.Hour},
		Email: Limit{5, time.Hour}, EmailFrom: Limit{30, time.Hour}, RegisterFrom: Limit{30, time.Hour},
	}
	defs := def.byAction()
	for act, limit := range l.byAction() {
		limit.N = cmp.Or(limit.N, defs[act].N)
		limit.Per = cmp.Or(limit.Per, defs[act].Per)
	}
	return l
}

func (l Limits) check() error {
	for act, limit := range l.byAction() {
		if limit.Per < 0 {
			return engine.Errorf(engine.CodeInvalid, "limit %d is in a window of %v", act, limit.Per)
		}
	}
	return nil
}

// attempt is one counted action.
type attempt struct {
	action  byte
	subject string // "" is not counted
}

// network returns what a client address is counted as: an IPv4 address by itself, an IPv6 address as its /64,
// which is the least that one customer has. Anything else is returned unchanged; "" is not counted.
func network(from string) string {
	ip, err := netip.ParseAddr(from)
	if err != nil {
		return from
	}
	ip = ip.Unmap()
	if ip.Is6() {
		if p, err := ip.WithZone("").Prefix(64); err == nil {
			return p.String()
		}
	}
	return ip.String()
}

// take counts the attempts, unless one is over its limit: then it counts nothing and returns a RateLimited.
func (t tx) take(attempts ...attempt) error {
	limits := t.a.o.Limits.byAction()
	counts := make([]uint64, len(attempts))
	for i, at := range attempts {
		limit := limits[at.action]
		if at.subject == "" || limit.N < 0 {
			continue
		}
		n, expires, err := t.counted(at)
		if err != nil {
			return err
		}
		if n >= uint64(limit.N) {
			return limited(expires.Sub(t.Now()))
		}
		counts[i] = n + 1
	}
	for i, at := range attempts {
		if counts[i] > 0 {
			if err := t.count(at, counts[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// counted returns how often at was tried in its window, and when the window ends.
func (t tx) counted(at attempt) (uint64, time.Time, error) {
	e, ok, err := t.Get(limitKey(at.action, at.subject))
	if err != nil || !ok {
		return 0, time.Time{}, err
	}
	d := newDecoder("count of attempts", e.Val)
	n := d.num()
	return n, e.Expires, d.end()
}

// count stores n in the current window, or begins one with the first attempt.
func (t tx) count(at attempt, n uint64) error {
	e := newEncoder()
	e.num(n)
	o := kv.SetOptions{SkipOld: true, KeepTTL: true}
	if n == 1 {
		o = kv.SetOptions{SkipOld: true, TTL: t.a.o.Limits.byAction()[at.action].Per}
	}
	_, err := t.Set(limitKey(at.action, at.subject), e.b, o)
	return err
}

// forget resets the window of at.
func (t tx) forget(at attempt) error {
	if at.subject == "" {
		return nil
	}
	_, err := t.Delete(limitKey(at.action, at.subject))
	return err
}

// refund takes one attempt back that turned out not to be wrong.
func (t tx) refund(at attempt) error {
	if at.subject == "" {
		return nil
	}
	n, _, err := t.counted(at)
	switch {
	case err != nil || n == 0:
		return err
	case n == 1:
		return t.forget(at)
	}
	return t.count(at, n-1)
}

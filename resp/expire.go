package resp

import (
	"math"
	"time"

	"github.com/skerrydb/skerry/decimal"
)

func expireCmd(x *call) error    { return expire(x, true, false) }
func pexpireCmd(x *call) error   { return expire(x, false, false) }
func expireAtCmd(x *call) error  { return expire(x, true, true) }
func pexpireAtCmd(x *call) error { return expire(x, false, true) }

// expireOptions are NX, XX, GT and LT.
type expireOptions struct{ nx, xx, gt, lt bool }

func (o *expireOptions) parse(args [][]byte) error {
	for _, a := range args {
		switch {
		case wordIs(a, "NX"):
			o.nx = true
		case wordIs(a, "XX"):
			o.xx = true
		case wordIs(a, "GT"):
			o.gt = true
		case wordIs(a, "LT"):
			o.lt = true
		default:
			return replyError("ERR Unsupported option " + cText(a, 1024))
		}
	}
	switch {
	case o.nx && (o.xx || o.gt || o.lt):
		return replyError("ERR NX and XX, GT or LT options at the same time are not compatible")
	case o.gt && o.lt:
		return replyError("ERR GT and LT options at the same time are not compatible")
	}
	return nil
}

// allow reports whether an expiry may be replaced by the new one. Both are in milliseconds;
// old is -1 if the key does not expire.
func (o *expireOptions) allow(old, ms int64) bool {
	switch {
	case o.nx && old >= 0, o.xx && old < 0, o.gt && (old < 0 || ms <= old), o.lt && old >= 0 && ms >= old:
		return false
	}
	return true
}

func expire(x *call, seconds, absolute bool) error {
	var o expireOptions
	if err := o.parse(x.args[3:]); err != nil {
		return err
	}
	ms, ok := decimal.Parse(x.args[2])
	if !ok {
		return errNotInteger
	}
	invalid := replyError("ERR invalid expire time in '" + x.cmd.name + "' command")
	if seconds {
		if ms > math.MaxInt64/1000 || ms < math.MinInt64/1000 {
			return invalid
		}
		ms *= 1000
	}
	if !absolute {
		now := x.tx.Now().UnixMilli()
		if ms > math.MaxInt64-now {
			return invalid
		}
		ms += now
	}
	e, ok, err := x.tx.Get(x.args[1])
	if err != nil {
		return err
	}
	old := int64(-1)
	if !e.Expires.IsZero() {
		old = e.Expires.UnixMilli()
	}
	if !ok || !o.allow(old, ms) {
		x.out.Int(0)
		return nil
	}
	if _, err := x.tx.SetExpiry(x.args[1], time.UnixMilli(ms)); err != nil {
		return err
	}
	x.out.Int(1)
	return nil
}

func persistCmd(x *call) error {
	return x.replyBool(x.tx.SetExpiry(x.args[1], time.Time{}))
}

func ttlCmd(x *call) error         { return ttl(x, true, false) }
func pttlCmd(x *call) error        { return ttl(x, false, false) }
func expireTimeCmd(x *call) error  { return ttl(x, true, true) }
func pexpireTimeCmd(x *call) error { return ttl(x, false, true) }

// ttl replies -2 if the key does not exist, and -1 if it has no expiry.
func ttl(x *call, seconds, absolute bool) error {
	e, ok, err := x.get(x.args[1])
	switch {
	case err != nil:
		return err
	case !ok:
		x.out.Int(-2)
		return nil
	case e.Expires.IsZero():
		x.out.Int(-1)
		return nil
	}
	ms := e.Expires.UnixMilli()
	if !absolute {
		ms = max(0, ms-x.tx.Now().UnixMilli())
	}
	if seconds {
		ms = (ms + 500) / 1000
	}
	x.out.Int(ms)
	return nil
}

package resp

import (
	"time"

	"github.com/skerrydb/skerry/decimal"
	"github.com/skerrydb/skerry/kv"
)

func stringCommands() []command {
	one := keyRange{1, 1, 1}
	return []command{
		{name: "append", arity: 3, kind: kindWrite, keys: one, run: appendCmd},
		{name: "decr", arity: 2, kind: kindWrite, flags: flagLight, keys: one, run: decrCmd},
		{name: "decrby", arity: 3, kind: kindWrite, flags: flagLight, keys: one, run: decrByCmd},
		{name: "get", arity: 2, kind: kindRead, flags: flagLight, keys: one, run: getCmd},
		{name: "getdel", arity: 2, kind: kindWrite, flags: flagLight, keys: one, run: getDelCmd},
		{name: "getex", arity: -2, kind: kindWrite, flags: flagLight, keys: one, run: getExCmd},
		{name: "getrange", arity: 4, kind: kindRead, keys: one, run: getRangeCmd},
		{name: "getset", arity: 3, kind: kindWrite, flags: flagLight, keys: one, run: getSetCmd},
		{name: "incr", arity: 2, kind: kindWrite, flags: flagLight, keys: one, run: incrCmd},
		{name: "incrby", arity: 3, kind: kindWrite, flags: flagLight, keys: one, run: incrByCmd},
		{name: "incrbyfloat", arity: 3, kind: kindWrite, flags: flagLight, keys: one, run: incrByFloatCmd},
		{name: "lcs", arity: -3, kind: kindScan, keys: keyRange{1, 2, 1}, run: lcsCmd},
		{name: "mget", arity: -2, kind: kindRead, flags: flagLight, keys: keyRange{1, -1, 1}, run: mgetCmd},
		{name: "mset", arity: -3, kind: kindWrite, flags: flagLight, keys: keyRange{1, -1, 2}, run: msetCmd},
		{name: "msetnx", arity: -3, kind: kindWrite, flags: flagLight, keys: keyRange{1, -1, 2}, run: msetNXCmd},
		{name: "psetex", arity: 4, kind: kindWrite, flags: flagLight, keys: one, run: psetExCmd},
		{name: "set", arity: -3, kind: kindWrite, flags: flagLight, keys: one, run: setCmd},
		{name: "setex", arity: 4, kind: kindWrite, flags: flagLight, keys: one, run: setExCmd},
		{name: "setnx", arity: 3, kind: kindWrite, flags: flagLight, keys: one, run: setNXCmd},
		{name: "setrange", arity: 4, kind: kindWrite, keys: one, run: setRangeCmd},
		{name: "strlen", arity: 2, kind: kindRead, flags: flagLight, keys: one, run: strLenCmd},
		{name: "substr", arity: 4, kind: kindRead, keys: one, run: getRangeCmd},
	}
}

// get reads a key and counts the hit or miss.
func (x *call) get(key []byte) (kv.Entry, bool, error) {
	e, ok, err := x.tx.Get(key)
	if ok {
		x.conn.run.hits++
	} else {
		x.conn.run.misses++
	}
	return e, ok, err
}

func getCmd(x *call) error {
	e, ok, err := x.get(x.args[1])
	if err != nil {
		return err
	}
	if ok {
		x.out.Bulk(e.Val)
	} else {
		x.out.Null()
	}
	return nil
}

func mgetCmd(x *call) error {
	start := len(x.out.Buf)
	x.out.Array(len(x.args) - 1)
	for i, key := range x.args[1:] {
		x.expectMore(i)
		if !x.fits(start, 0) {
			return errReplyTooBig
		}
		e, ok, err := x.get(key)
		switch {
		case err != nil:
			return err
		case ok:
			x.out.Bulk(e.Val)
		default:
			x.out.Null()
		}
	}
	return nil
}

func strLenCmd(x *call) error {
	e, _, err := x.get(x.args[1])
	if err != nil {
		return err
	}
	x.out.Int(int64(len(e.Val)))
	return nil
}

// expiry is the value of the options EX, PX, EXAT and PXAT.
type expiry struct {
	arg      []byte
	seconds  bool
	absolute bool
}

// at returns the time that the option specifies.
func (o expiry) at(x *call) (time.Time, error) {
	n, ok := decimal.Parse(o.arg)
	if !ok {
		return time.Time{}, errNotInteger
	}
	const most = int64(1<<63 - 1)
	invalid := replyError("ERR invalid expire time in '" + x.cmd.name + "' command")
	if n <= 0 || o.seconds && n > most/1000 {
		return time.Time{}, invalid
	}
	if o.seconds {
		n *= 1000
	}
	if !o.absolute {
		now := x.tx.Now().UnixMilli()
		if n > most-now {
			return time.Time{}, invalid
		}
		n += now
	}
	return time.UnixMilli(n), nil
}

// valueOptions are the options of SET and GETEX.
type valueOptions struct {
	nx, xx, get, keep, persist bool
	expire                     string // EX, PX, EXAT or PXAT
	expiry
}

// parse parses the options of SET or of GETEX from args.
func (o *valueOptions) parse(args [][]byte, set bool) error {
	for i := 0; i < len(args); i++ {
		a := args[i]
		more := i+1 < len(args)
		expire := ""
		for _, w := range [...]string{"EX", "PX", "EXAT", "PXAT"} {
			if more && wordIs(a, w) && (o.expire == "" || o.expire == w) && !o.keep && !o.persist {
				expire = w
			}
		}
		switch {
		case expire != "":
			i++
			o.expire = expire
			o.expiry = expiry{args[i], expire[0] == 'E', len(expire) == 4}
		case set && wordIs(a, "NX") && !o.xx:
			o.nx = true
		case set && wordIs(a, "XX") && !o.nx:
			o.xx = true
		case set && wordIs(a, "GET"):
			o.get = true
		case set && wordIs(a, "KEEPTTL") && o.expire == "":
			o.keep = true
		case !set && wordIs(a, "PERSIST") && o.expire == "":
			o.persist = true
		default:
			return errSyntax
		}
	}
	return nil
}

func setCmd(x *call) error {
	if len(x.args) == 3 {
		_, err := x.tx.Set(x.args[1], x.args[2], kv.SetOptions{SkipOld: true})
		return x.replyOK(err)
	}
	var o valueOptions
	if err := o.parse(x.args[3:], true); err != nil {
		return err
	}
	set := kv.SetOptions{OnlyNew: o.nx, OnlyExisting: o.xx, KeepTTL: o.keep, SkipOld: !o.get}
	if o.expire != "" {
		var err error
		if set.Expires, err = o.at(x); err != nil {
			return err
		}
	}
	res, err := x.tx.Set(x.args[1], x.args[2], set)
	switch {
	case err != nil:
		return err
	case o.get && res.HadOld:
		x.out.Bulk(res.Old.Val)
	case o.get || !res.Written:
		x.out.Null()
	default:
		x.out.OK()
	}
	return nil
}

func setNXCmd(x *call) error {
	res, err := x.tx.Set(x.args[1], x.args[2], kv.SetOptions{OnlyNew: true, SkipOld: true})
	return x.replyBool(res.Written, err)
}

// number returns a boolean as in C: 1 or 0.
func number(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

func setExCmd(x *call) error { return setFor(x, expiry{arg: x.args[2], seconds: true}) }

func psetExCmd(x *call) error { return setFor(x, expiry{arg: x.args[2]}) }

func setFor(x *call, o expiry) error {
	at, err := o.at(x)
	if err != nil {
		return err
	}
	_, err = x.tx.Set(x.args[1], x.args[3], kv.SetOptions{Expires: at, SkipOld: true})
	return x.replyOK(err)
}

func getSetCmd(x *call) error {
	res, err := x.tx.Set(x.args[1], x.args[2], kv.SetOptions{})
	if err != nil {
		return err
	}
	if res.HadOld {
		x.out.Bulk(res.Old.Val)
	} else {
		x.out.Null()
	}
	return nil
}

func getDelCmd(x *call) error {
	e, ok, err := x.get(x.args[1])
	if err != nil || !ok {
		return x.replyNull(err)
	}
	x.out.Bulk(e.Val)
	_, err = x.tx.Delete(x.args[1])
	return err
}

func getExCmd(x *call) error {
	var o valueOptions
	if err := o.parse(x.args[2:], false); err != nil {
		return err
	}
	e, ok, err := x.get(x.args[1])
	if err != nil || !ok {
		return x.replyNull(err)
	}
	x.out.Bulk(e.Val)
	switch {
	case o.persist:
		_, err = x.tx.SetExpiry(x.args[1], time.Time{})
	case o.expire != "":
		var at time.Time
		if at, err = o.at(x); err == nil {
			_, err = x.tx.SetExpiry(x.args[1], at)
		}
	}
	return err
}

func msetCmd(x *call) error {
	if len(x.args)%2 == 0 {
		return replyError(wrongArity("mset"))
	}
	for i := 1; i < len(x.args); i += 2 {
		x.expectMore(i / 2)
		if _, err := x.tx.Set(x.args[i], x.args[i+1], kv.SetOptions{SkipOld: true}); err != nil {
			return err
		}
	}
	x.out.OK()
	return nil
}

func msetNXCmd(x *call) error {
	if len(x.args)%2 == 0 {
		return replyError(wrongArity("msetnx"))
	}
	for i := 1; i < len(x.args); i += 2 {
		_, ok, err := x.tx.Get(x.args[i])
		if err != nil {
			return err
		}
		if ok {
			x.out.Int(0)
			return nil
		}
	}
	for i := 1; i < len(x.args); i += 2 {
		if _, err := x.tx.Set(x.args[i], x.args[i+1], kv.SetOptions{SkipOld: true}); err != nil {
			return err
		}
	}
	x.out.Int(1)
	return nil
}

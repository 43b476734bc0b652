package resp

import (
	"context"
	"time"

	"github.com/skerrydb/skerry/decimal"
	"github.com/skerrydb/skerry/kv"
)

func genericCommands() []command {
	one, all, two := keyRange{1, 1, 1}, keyRange{1, -1, 1}, keyRange{1, 2, 1}
	return []command{
		{name: "copy", arity: -3, kind: kindWrite, keys: two, run: copyCmd},
		{name: "del", arity: -2, kind: kindWrite, flags: flagLight, keys: all, run: delCmd},
		{name: "dump", arity: 2, kind: kindRead, keys: one, run: dumpCmd},
		{name: "exists", arity: -2, kind: kindRead, flags: flagLight, keys: all, run: existsCmd},
		{name: "expire", arity: -3, kind: kindWrite, keys: one, run: expireCmd},
		{name: "expireat", arity: -3, kind: kindWrite, keys: one, run: expireAtCmd},
		{name: "expiretime", arity: 2, kind: kindRead, keys: one, run: expireTimeCmd},
		{name: "keys", arity: 2, kind: kindScan, run: keysCmd},
		{name: "migrate", arity: -6, kind: kindAdmin, flags: flagNoMulti | flagMovable | flagMayWrite, keys: keyRange{3, 3, 1}, run: migrateCmd},
		{name: "move", arity: 3, kind: kindWrite, keys: one, run: moveCmd},
		{name: "object", arity: -2, subs: objectCommands()},
		{name: "persist", arity: 2, kind: kindWrite, flags: flagLight, keys: one, run: persistCmd},
		{name: "pexpire", arity: -3, kind: kindWrite, keys: one, run: pexpireCmd},
		{name: "pexpireat", arity: -3, kind: kindWrite, keys: one, run: pexpireAtCmd},
		{name: "pexpiretime", arity: 2, kind: kindRead, flags: flagLight, keys: one, run: pexpireTimeCmd},
		{name: "pttl", arity: 2, kind: kindRead, flags: flagLight, keys: one, run: pttlCmd},
		{name: "randomkey", arity: 1, kind: kindScan, run: randomKeyCmd},
		{name: "rename", arity: 3, kind: kindWrite, keys: two, run: renameCmd},
		{name: "renamenx", arity: 3, kind: kindWrite, keys: two, run: renameNXCmd},
		{name: "restore", arity: -4, kind: kindWrite, keys: one, run: restoreCmd},
		{name: "scan", arity: -2, kind: kindScan, run: scanCmd},
		{name: "sort", arity: -2, kind: kindWrite, flags: flagMovable, keys: one, run: sortCmd},
		{name: "sort_ro", arity: -2, kind: kindRead, flags: flagMovable, keys: one, run: sortCmd},
		{name: "touch", arity: -2, kind: kindRead, flags: flagLight, keys: all, run: existsCmd},
		{name: "ttl", arity: 2, kind: kindRead, flags: flagLight, keys: one, run: ttlCmd},
		{name: "type", arity: 2, kind: kindRead, flags: flagLight, keys: one, run: typeCmd},
		{name: "unlink", arity: -2, kind: kindWrite, flags: flagLight, keys: all, run: delCmd},
		{name: "wait", arity: 3, kind: kindAdmin, run: waitCmd},
	}
}

func delCmd(x *call) error {
	n := int64(0)
	for i, key := range x.args[1:] {
		x.expectMore(i)
		ok, err := x.tx.Delete(key)
		if err != nil {
			return err
		}
		n += number(ok)
	}
	x.out.Int(n)
	return nil
}

func existsCmd(x *call) error {
	n := int64(0)
	for i, key := range x.args[1:] {
		x.expectMore(i)
		_, ok, err := x.get(key)
		if err != nil {
			return err
		}
		n += number(ok)
	}
	x.out.Int(n)
	return nil
}

func typeCmd(x *call) error {
	_, ok, err := x.tx.Get(x.args[1])
	if err != nil {
		return err
	}
	if ok {
		x.out.Simple("string")
	} else {
		x.out.Simple("none")
	}
	return nil
}

// copyTo writes a copy of e with the same expiry and encoding to the key to in db, and then
// deletes from, if it is not nil. If onlyNew is set and the key exists, it does neither.
func (x *call) copyTo(db uint8, to []byte, e kv.Entry, onlyNew bool, from []byte) (written bool, err error) {
	x.tx.Select(db)
	res, err := x.tx.Set(to, e.Val, kv.SetOptions{Expires: e.Expires, SkipOld: true, Mark: e.Mark, OnlyNew: onlyNew})
	x.tx.Select(x.db)
	if err == nil && res.Written && from != nil {
		_, err = x.tx.Delete(from)
	}
	return res.Written, err
}

func renameCmd(x *call) error {
	from, to := x.args[1], x.args[2]
	e, ok, err := x.tx.Get(from)
	if err != nil {
		return err
	}
	if !ok {
		return errNoKey
	}
	if string(from) != string(to) {
		if _, err := x.copyTo(x.db, to, e, false, from); err != nil {
			return err
		}
	}
	x.out.OK()
	return nil
}

func renameNXCmd(x *call) error {
	from, to := x.args[1], x.args[2]
	e, ok, err := x.tx.Get(from)
	if err != nil {
		return err
	}
	if !ok {
		return errNoKey
	}
	return x.replyBool(x.copyTo(x.db, to, e, true, from))
}

func copyCmd(x *call) error {
	from, to, db, replace := x.args[1], x.args[2], x.db, false
	for i := 3; i < len(x.args); i++ {
		switch {
		case x.is(i, "REPLACE"):
			replace = true
		case x.is(i, "DB") && i+1 < len(x.args):
			i++
			n, err := x.conn.dbArg(x.args[i])
			if err != nil {
				return err
			}
			db = n
		default:
			return errSyntax
		}
	}
	if db == x.db && string(from) == string(to) {
		return errSameObject
	}
	e, ok, err := x.tx.Get(from)
	if err != nil || !ok {
		return x.replyBool(false, err)
	}
	return x.replyBool(x.copyTo(db, to, e, !replace, nil))
}

// dbArg parses the number of a database.
func (c *conn) dbArg(arg []byte) (uint8, error) {
	n, err := intArg(arg)
	if err != nil {
		return 0, errNotInteger
	}
	if !c.isDatabase(int64(n)) {
		return 0, errDBRange
	}
	return uint8(n), nil
}

func moveCmd(x *call) error {
	db, err := x.conn.dbArg(x.args[2])
	if err != nil {
		return err
	}
	if db == x.db {
		return errSameObject
	}
	key := x.args[1]
	e, ok, err := x.tx.Get(key)
	if err != nil || !ok {
		return x.replyBool(false, err)
	}
	return x.replyBool(x.copyTo(db, key, e, true, key))
}

// SORT is for lists and sets, which do not exist here. A key is therefore missing or of the
// wrong type.
func sortCmd(x *call) error {
	var dst []byte
	for i := 2; i < len(x.args); i++ {
		more := len(x.args) - 1 - i
		switch {
		case x.is(i, "ASC"), x.is(i, "DESC"), x.is(i, "ALPHA"):
		case x.is(i, "LIMIT") && more >= 2:
			for range 2 {
				i++
				if _, ok := decimal.Parse(x.args[i]); !ok {
					return errNotInteger
				}
			}
		case (x.is(i, "BY") || x.is(i, "GET")) && more >= 1:
			i++
		case x.is(i, "STORE") && more >= 1 && x.cmd.name == "sort":
			i++
			dst = x.args[i]
		default:
			return errSyntax
		}
	}
	_, ok, err := x.tx.Get(x.args[1])
	switch {
	case err != nil:
		return err
	case ok:
		return errWrongType
	case dst == nil:
		x.out.Array(0)
		return nil
	}
	if _, err := x.tx.Delete(dst); err != nil {
		return err
	}
	x.out.Int(0)
	return nil
}

// movableKeys finds the keys of SORT, whose STORE may be at any position, of MIGRATE, which
// has one key or a list after KEYS, and of FCALL, which has their number.
func movableKeys(c *command, args [][]byte, fn func(key []byte) bool) {
	if c.kind == kindCall {
		n, _ := keyCount(args) // with an invalid number there are no keys
		for _, key := range args[3 : 3+n] {
			if !fn(key) {
				return
			}
		}
		return
	}
	if c.name == "migrate" {
		for i := 6; i < len(args); i++ {
			if wordIs(args[i], "KEYS") && len(args[3]) == 0 {
				for _, key := range args[i+1:] {
					if !fn(key) {
						return
					}
				}
				return
			}
		}
		fn(args[3])
		return
	}
	if !fn(args[1]) {
		return
	}
	var dst []byte
	for i := 2; i < len(args); i++ {
		switch {
		case wordIs(args[i], "LIMIT"):
			i += 2
		case wordIs(args[i], "BY"), wordIs(args[i], "GET"):
			i++
		case wordIs(args[i], "STORE") && i+1 < len(args):
			i++
			dst = args[i]
		}
	}
	if dst != nil {
		fn(dst)
	}
}

// waitCmd implements WAIT. A single node has no replicas: an acknowledged write is already
// as safe as the engine makes it.
func waitCmd(x *call) error {
	n, ok := decimal.Parse(x.args[1])
	if !ok {
		return errNotInteger
	}
	d, err := timeoutArg(x.args[2])
	if err != nil {
		return err
	}
	var have func() int64 // nil on a single node, which has no replicas
	if x.srv.opts.Cluster != nil {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		if have, err = x.replicas(ctx, n); err != nil {
			return err
		}
	}
	enough := func() bool { return have != nil && have() >= n }
	if n > 0 && x.tx == nil && !enough() {
		if u, ok := x.conn.block(d, enough); ok && u.asError {
			return replyError("UNBLOCKED client unblocked via CLIENT UNBLOCK")
		}
	}
	if have == nil {
		x.out.Int(0)
	} else {
		x.out.Int(have())
	}
	return nil
}

// pollEvery is how often a blocked connection checks whether its client has disconnected.
const pollEvery = 50 * time.Millisecond

// block waits for d (forever if d is 0), or until CLIENT UNBLOCK or enough ends it. Input
// from the client in the meantime is kept. The call's arguments become invalid.
func (c *conn) block(d time.Duration, enough func() bool) (u unblock, ok bool) {
	c.flush()
	c.setBlocked(true, d > 0)
	c.pushes.idle(c)
	defer func() {
		c.pushes.busy()
		c.barrier()
		c.setBlocked(false, false)
		c.nc.SetReadDeadline(time.Time{})
		select { // it came too late
		case <-c.unblocked:
		default:
		}
	}()
	end := time.Now().Add(d)
	poll := time.Millisecond
	for !c.ending.Load() && !c.killed.Load() {
		poll = min(2*poll, pollEvery)
		next := time.Now().Add(poll)
		if d > 0 && end.Before(next) {
			next = end
		}
		if used, _ := c.rd.Buffered(); used < flushBytes {
			c.nc.SetReadDeadline(next)
			if err := c.rd.Fill(); err != nil && !isTimeout(err) {
				c.closing = true
				return unblock{}, false
			}
		} else {
			time.Sleep(time.Until(next))
		}
		select {
		case u = <-c.unblocked:
			return u, true
		default:
		}
		if enough() || d > 0 && !time.Now().Before(end) {
			return unblock{}, false
		}
	}
	c.closing = true
	return unblock{}, false
}

func (c *conn) setBlocked(on, timed bool) {
	c.mu.Lock()
	c.blocked, c.timed = on, timed
	c.mu.Unlock()
}

package resp

import (
	"context"
	"strconv"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/kv"
)

func serverCommands() []command {
	return []command{
		{name: "acl", arity: -2, subs: []command{
			{name: "acl|whoami", arity: 2, kind: kindPlain, run: aclWhoAmI},
		}},
		{name: "asking", arity: 1, kind: kindPlain, run: askingCmd},
		{name: "cluster", arity: -2, subs: clusterCommands()},
		{name: "command", arity: -1, kind: kindPlain, run: commandCmd, subs: commandCommands()},
		{name: "config", arity: -2, subs: configCommands()},
		{name: "dbsize", arity: 1, kind: kindRead, run: dbSizeCmd},
		{name: "flushall", arity: -1, kind: kindAdmin, flags: flagMayWrite, run: flushCmd},
		{name: "flushdb", arity: -1, kind: kindAdmin, flags: flagMayWrite, run: flushCmd},
		{name: "info", arity: -1, kind: kindAdmin, run: infoCmd},
		{name: "memory", arity: -2, subs: []command{
			{name: "memory|help", arity: 2, kind: kindPlain, run: memoryHelp},
			{name: "memory|usage", arity: -3, kind: kindRead, flags: flagUntrack, keys: keyRange{2, 2, 1}, run: memoryUsage},
		}},
		{name: "readonly", arity: 1, kind: kindAdmin, run: readOnlyCmd},
		{name: "readwrite", arity: 1, kind: kindAdmin, run: readOnlyCmd},
		{name: "role", arity: 1, kind: kindAdmin, run: roleCmd},
		{name: "shutdown", arity: -1, kind: kindPlain, flags: flagNoMulti, run: shutdownCmd},
		{name: "swapdb", arity: 3, kind: kindPlain, run: swapDBCmd},
		{name: "time", arity: 1, kind: kindPlain, run: timeCmd},
	}
}

func aclWhoAmI(x *call) error {
	x.out.BulkString("default")
	return nil
}

func shutdownCmd(*call) error {
	return replyError("ERR SHUTDOWN is refused: a client cannot stop this server, a signal to its process does [unsupported]")
}

func swapDBCmd(x *call) error {
	a, ok := parseInt(x.args[1])
	if !ok {
		return replyError("ERR invalid first DB index")
	}
	b, ok := parseInt(x.args[2])
	if !ok {
		return replyError("ERR invalid second DB index")
	}
	if !x.isDatabase(a) || !x.isDatabase(b) {
		return errDBRange
	}
	if a != b {
		return replyError("ERR SWAPDB is refused: databases are key ranges, which cannot change places at once [unsupported]")
	}
	x.out.OK()
	return nil
}

func timeCmd(x *call) error {
	us := time.Now().UnixMicro()
	x.out.Array(2)
	x.out.BulkInt(us / 1e6)
	x.out.BulkInt(us % 1e6)
	return nil
}

// flushCmd empties one database or all. A small one goes in one transaction, a
// large one in steps. Its keys are then gone for every tracking client too.
func flushCmd(x *call) error {
	if len(x.args) > 2 || len(x.args) == 2 && !x.is(1, "SYNC") && !x.is(1, "ASYNC") {
		return errSyntax
	}
	from, to := x.db, x.db+1
	if x.cmd.name == "flushall" {
		from, to = 0, DefaultDatabases // never the application's keys
	}
	if x.tx != nil {
		for db := from; db < to; db++ {
			x.tx.Select(db)
			if err := deleteAll(x.tx); err != nil {
				return err
			}
		}
		x.tx.Select(x.db)
		x.flushed = true
	} else {
		if err := x.srv.flush(from, to); err != nil {
			return err
		}
		x.srv.tracker.flushed()
	}
	x.out.OK()
	return nil
}

// flush empties the databases in [from, to).
func (s *Server) flush(from, to uint8) error {
	ctx := context.Background()
	small, left := false, 0
	_, err := s.store.Update(ctx, from, func(t *kv.Tx) error {
		total := 0
		left = 0
		for db := from; db < to; db++ {
			t.Select(db)
			n, err := t.Count()
			if err != nil {
				return err
			}
			total += n
		}
		if small = total <= MaxFlushAtOnce; !small {
			return nil
		}
		for db := from; db < to; db++ {
			t.Select(db)
			if err := deleteAll(t); err != nil {
				return err
			}
			n, err := t.Count()
			if err != nil {
				return err
			}
			left += n // expired, which a transaction cannot see; Flush does
		}
		return nil
	})
	if err != nil && engine.CodeOf(err) != engine.CodeTxTooLarge || err == nil && small && left == 0 {
		return err
	}
	for db := from; db < to; db++ {
		if _, err := s.store.Flush(ctx, db); err != nil {
			return err
		}
	}
	return nil
}

// entryOverhead is what one key takes up besides its own and its value's bytes
// on the embedded engine, as MEMORY USAGE tells it.
const entryOverhead = 80

func memoryUsage(x *call) error {
	switch {
	case len(x.args) == 5 && x.is(3, "SAMPLES"):
		n, ok := parseInt(x.args[4])
		if !ok {
			return errNotInteger
		}
		if n < 0 {
			return errSyntax
		}
	case len(x.args) != 3:
		return errSyntax
	}
	e, ok, err := x.tx.Get(x.args[2])
	if err != nil {
		return err
	}
	if !ok {
		x.out.Null()
		return nil
	}
	x.out.Int(int64(len(x.args[2]) + len(e.Val) + entryOverhead))
	return nil
}

func configCommands() []command {
	return []command{
		{name: "config|get", arity: -3, kind: kindPlain, run: configGet},
		{name: "config|help", arity: 2, kind: kindPlain, run: configHelp},
		{name: "config|resetstat", arity: 2, kind: kindPlain, run: configResetStat},
		{name: "config|set", arity: -4, kind: kindPlain, run: configSet},
	}
}

// setting is one parameter that CONFIG GET tells. None can be changed here:
// the program's own configuration decides.
type setting struct{ name, value string }

func (s *Server) settings() []setting {
	yesNo := func(b bool) string {
		if b {
			return "yes"
		}
		return "no"
	}
	fsync := "no"
	if s.opts.Durable {
		fsync = "always"
	}
	return []setting{
		{"appendfsync", fsync},
		{"appendonly", yesNo(s.opts.Durable)},
		{"cluster-enabled", yesNo(s.opts.Cluster != nil)},
		{"databases", strconv.Itoa(s.opts.Databases)},
		{"maxclients", strconv.Itoa(s.opts.MaxClients)},
		{"maxmemory-policy", "noeviction"},
		{"notify-keyspace-events", ""},
		{"proto-max-bulk-len", strconv.Itoa(s.opts.Wire.MaxBulk)},
		{"save", ""},
		{"timeout", strconv.Itoa(int(s.opts.IdleTimeout / time.Second))},
		{"tracking-table-max-keys", strconv.Itoa(MaxTrackedKeys)},
	}
}

func configGet(x *call) error {
	var found []setting
	for _, s := range x.srv.settings() {
		for _, pattern := range x.args[2:] {
			if globMatch(lower(pattern), []byte(s.name)) {
				found = append(found, s)
				break
			}
		}
	}
	x.out.Map(len(found))
	for _, s := range found {
		x.out.BulkString(s.name)
		x.out.BulkString(s.value)
	}
	return nil
}

func lower(b []byte) []byte {
	low := make([]byte, len(b))
	for i, c := range b {
		if c-'A' <= 'Z'-'A' {
			c += 'a' - 'A'
		}
		low[i] = c
	}
	return low
}

// configSet takes only the value that a parameter has already.
func configSet(x *call) error {
	if len(x.args)%2 != 0 {
		return replyError(wrongArity("config|set"))
	}
	for i := 2; i < len(x.args); i += 2 {
		name, known, same := string(lower(x.args[i])), false, false
		for _, s := range x.srv.settings() {
			if s.name == name {
				known, same = true, s.value == string(x.args[i+1])
			}
		}
		switch {
		case !known:
			return replyError("ERR Unknown option or number of arguments for CONFIG SET - '" + cText(x.args[i], 1024) + "'")
		case !same:
			return replyError("ERR CONFIG SET failed (possibly related to argument '" + cText(x.args[i], 1024) + "') - can't set immutable config")
		}
	}
	x.out.OK()
	return nil
}

func configResetStat(x *call) error {
	x.srv.stats.reset()
	x.out.OK()
	return nil
}

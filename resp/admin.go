package resp

import (
	"context"
	"time"

	"github.com/skerrydb/skerry/decimal"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/kv"
)

func serverCommands() []command {
	return []command{
		{name: "acl", arity: -2, subs: aclCommands()},
		{name: "asking", arity: 1, kind: kindPlain, run: askingCmd},
		{name: "cluster", arity: -2, subs: clusterCommands()},
		{name: "command", arity: -1, kind: kindPlain, run: commandCmd, subs: commandCommands()},
		{name: "config", arity: -2, subs: configCommands()},
		{name: "dbsize", arity: 1, kind: kindRead, run: dbSizeCmd},
		{name: "flushall", arity: -1, kind: kindAdmin, flags: flagMayWrite, run: flushCmd},
		{name: "flushdb", arity: -1, kind: kindAdmin, flags: flagMayWrite, run: flushCmd},
		{name: "info", arity: -1, kind: kindAdmin, flags: flagLooks, run: infoCmd},
		{name: "lastsave", arity: 1, kind: kindPlain, run: lastSaveCmd},
		{name: "latency", arity: -2, subs: latencyCommands()},
		{name: "memory", arity: -2, subs: memoryCommands()},
		{name: "module", arity: -2, subs: []command{
			{name: "module|help", arity: 2, kind: kindPlain, run: helpCmd},
			{name: "module|list", arity: 2, kind: kindPlain, run: noneCmd},
		}},
		{name: "pubsub", arity: -2, subs: pubsubCommands()},
		{name: "readonly", arity: 1, kind: kindAdmin, run: readOnlyCmd},
		{name: "readwrite", arity: 1, kind: kindAdmin, run: readOnlyCmd},
		{name: "role", arity: 1, kind: kindAdmin, flags: flagLooks, run: roleCmd},
		{name: "shutdown", arity: -1, kind: kindPlain, flags: flagNoMulti | flagOperates, run: shutdownCmd},
		{name: "slowlog", arity: -2, subs: slowlogCommands()},
		{name: "swapdb", arity: 3, kind: kindPlain, flags: flagOperates, run: swapDBCmd},
		{name: "time", arity: 1, kind: kindPlain, run: timeCmd},
	}
}

func shutdownCmd(*call) error {
	return replyError("ERR SHUTDOWN is not supported: send the server's process a signal to stop it [unsupported]")
}

func swapDBCmd(x *call) error {
	a, ok := decimal.Parse(x.args[1])
	if !ok {
		return replyError("ERR invalid first DB index")
	}
	b, ok := decimal.Parse(x.args[2])
	if !ok {
		return replyError("ERR invalid second DB index")
	}
	if !x.conn.isDatabase(a) || !x.conn.isDatabase(b) {
		return errDBRange
	}
	if a != b {
		return replyError("ERR SWAPDB is not supported: databases are key ranges, which cannot be swapped at once [unsupported]")
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

// flushCmd empties one database or all. It removes a small one in one transaction and a
// large one in steps. All keys of tracking clients are invalidated.
func flushCmd(x *call) error {
	if len(x.args) > 2 || len(x.args) == 2 && !x.is(1, "SYNC") && !x.is(1, "ASYNC") {
		return errSyntax
	}
	from, to := x.db, x.db+1
	if x.cmd.name == "flushall" {
		from, to = 0, DefaultDatabases // never the application's databases
	}
	if x.tx != nil {
		for db := from; db < to; db++ {
			x.tx.Select(db)
			if err := deleteAll(x.tx); err != nil {
				return err
			}
		}
		x.tx.Select(x.db)
		x.conn.flushed = true
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
			left += n // expired keys, which a transaction cannot see; Flush deletes them
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

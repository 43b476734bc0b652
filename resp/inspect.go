package resp

import "slices"

// Commands for inspection and monitoring, most of which have little to report here.

func aclCommands() []command {
	return []command{
		{name: "acl|cat", arity: -2, kind: kindPlain, run: aclCat},
		{name: "acl|getuser", arity: 3, kind: kindPlain, run: aclGetUser},
		{name: "acl|help", arity: 2, kind: kindPlain, run: helpCmd},
		{name: "acl|list", arity: 2, kind: kindPlain, run: aclList},
		{name: "acl|users", arity: 2, kind: kindPlain, run: aclUsers},
		{name: "acl|whoami", arity: 2, kind: kindPlain, run: aclWhoAmI},
	}
}

// theUser is the only user.
const theUser = "default"

func aclWhoAmI(x *call) error {
	x.out.BulkString(theUser)
	return nil
}

func aclUsers(x *call) error {
	x.out.Array(1)
	x.out.BulkString(theUser)
	return nil
}

// aclList returns the user's permissions. Unlike in Redis, they do not include the hash of
// the password.
func aclList(x *call) error {
	pass := "nopass "
	if x.srv.opts.Password != "" {
		pass = ""
	}
	x.out.Array(1)
	x.out.BulkString("user " + theUser + " on " + pass + "~* &* +@all")
	return nil
}

func aclGetUser(x *call) error {
	if string(x.args[2]) != theUser {
		x.out.Null()
		return nil
	}
	flags := []string{"on"}
	if x.srv.opts.Password == "" {
		flags = append(flags, "nopass")
	}
	x.out.Map(6)
	x.out.BulkString("flags")
	x.out.Set(len(flags))
	for _, f := range flags {
		x.out.BulkString(f)
	}
	x.out.BulkString("passwords")
	x.out.Array(0)
	writeField(x.out, "commands", "+@all")
	writeField(x.out, "keys", "~*")
	writeField(x.out, "channels", "&*")
	x.out.BulkString("selectors")
	x.out.Array(0)
	return nil
}

// categories are Redis's ACL categories, in its order.
var categories = [...]string{"keyspace", "read", "write", "set", "sortedset", "list", "hash", "string", "bitmap", "hyperloglog", "geo",
	"stream", "pubsub", "admin", "fast", "slow", "blocking", "dangerous", "connection", "transaction", "scripting"}

func aclCat(x *call) error {
	if len(x.args) > 3 {
		return x.wrongSub()
	}
	list := categories[:]
	if len(x.args) == 3 {
		category := string(lower(x.args[2]))
		if !slices.Contains(list, category) {
			return replyError("ERR Unknown category '" + cText(x.args[2], 128) + "'")
		}
		x.srv.docs.load()
		list = nil
		for _, name := range x.srv.names() {
			for _, n := range append([]string{name}, subNames(x.srv.table[name])...) {
				if x.srv.inCategory(n, "@"+category) {
					list = append(list, n)
				}
			}
		}
	}
	writeList(x.out, list)
	return nil
}

func latencyCommands() []command {
	return []command{
		{name: "latency|doctor", arity: 2, kind: kindPlain, run: latencyDoctor},
		{name: "latency|graph", arity: 3, kind: kindPlain, run: latencyGraph},
		{name: "latency|help", arity: 2, kind: kindPlain, run: helpCmd},
		{name: "latency|histogram", arity: -2, kind: kindPlain, run: func(x *call) error { x.out.Map(0); return nil }},
		{name: "latency|history", arity: 3, kind: kindPlain, run: noneCmd},
		{name: "latency|latest", arity: 2, kind: kindPlain, run: noneCmd},
		{name: "latency|reset", arity: -2, kind: kindPlain, run: func(x *call) error { x.out.Int(0); return nil }},
	}
}

// noneCmd replies with an empty list.
func noneCmd(x *call) error {
	x.out.Array(0)
	return nil
}

// latencyDoctor replies as Redis does if monitoring is disabled.
func latencyDoctor(x *call) error {
	x.out.Verbatim("txt", "I'm sorry, Dave, I can't do that. Latency monitoring is disabled in this Redis instance. "+
		"You may use \"CONFIG SET latency-monitor-threshold <milliseconds>.\" in order to enable it. "+
		"If we weren't in a deep space mission I'd suggest to take a look at https://redis.io/topics/latency-monitor.\n")
	return nil
}

func latencyGraph(x *call) error {
	return replyError("ERR No samples available for event '" + cText(x.args[2], 1024) + "'")
}

func pubsubCommands() []command {
	return []command{
		{name: "pubsub|channels", arity: -2, kind: kindPlain, run: pubsubChannels},
		{name: "pubsub|help", arity: 2, kind: kindPlain, run: helpCmd},
		{name: "pubsub|numpat", arity: 2, kind: kindPlain, run: func(x *call) error { x.out.Int(0); return nil }},
		{name: "pubsub|numsub", arity: -2, kind: kindPlain, run: pubsubNumSub},
		{name: "pubsub|shardchannels", arity: -2, kind: kindPlain, run: pubsubShardChannels},
		{name: "pubsub|shardnumsub", arity: -2, kind: kindPlain, run: pubsubNumSub},
	}
}

// subscribers returns how many connections are subscribed to the invalidations, which are
// the only channel.
func (s *Server) subscribers() (n int) {
	for _, c := range s.clients() {
		c.mu.Lock()
		n += c.shown.subs
		c.mu.Unlock()
	}
	return n
}

func (x *call) pubsubArity() error {
	if len(x.args) > 3 {
		return x.wrongSub()
	}
	return nil
}

func pubsubChannels(x *call) error {
	if err := x.pubsubArity(); err != nil {
		return err
	}
	if x.srv.subscribers() == 0 || len(x.args) == 3 && !globMatch(x.args[2], []byte(invalidateChannel)) {
		return noneCmd(x)
	}
	x.out.Array(1)
	x.out.BulkString(invalidateChannel)
	return nil
}

func pubsubShardChannels(x *call) error {
	if err := x.pubsubArity(); err != nil {
		return err
	}
	return noneCmd(x)
}

func pubsubNumSub(x *call) error {
	x.out.Array(2 * len(x.args[2:]))
	for _, ch := range x.args[2:] {
		n := 0
		if x.cmd.name == "pubsub|numsub" && string(ch) == invalidateChannel {
			n = x.srv.subscribers()
		}
		x.out.Bulk(ch)
		x.out.Int(int64(n))
	}
	return nil
}

// lastSave returns when the engine last wrote a snapshot. Before the first one it is when
// the server started, as in Redis.
func (s *Server) lastSave(f engineMetrics) int64 {
	return max(int64(f["engine_snapshot_time_seconds"]), s.started.Unix())
}

func lastSaveCmd(x *call) error {
	x.out.Int(x.srv.lastSave(x.srv.engineMetrics()))
	return nil
}

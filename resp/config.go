package resp

import (
	"math"
	"net"
	"strconv"
	"time"

	"github.com/skerrydb/skerry/decimal"
)

// MaxSlowlogLen bounds slowlog-max-len; CONFIG SET rejects more.
const MaxSlowlogLen = 10_000

func configCommands() []command {
	return []command{
		{name: "config|get", arity: -3, kind: kindPlain, run: configGet},
		{name: "config|help", arity: 2, kind: kindPlain, run: helpCmd},
		{name: "config|resetstat", arity: 2, kind: kindAdmin, flags: flagOperates, run: configResetStat},
		{name: "config|rewrite", arity: 2, kind: kindPlain, run: configRewrite},
		{name: "config|set", arity: -4, kind: kindAdmin, flags: flagOperates, run: configSet},
	}
}

// setting is one parameter of CONFIG GET. If set is nil, it can only be changed in the
// program's own configuration.
type setting struct {
	name, value string
	least, most int64
	set         func(n int64) // applies until the server restarts
}

// publicSettings are the parameters whose values may be logged.
var publicSettings = [...]string{"appendfsync", "appendonly", "databases", "maxclients", "maxmemory", "maxmemory-policy",
	"save", "slowlog-log-slower-than", "slowlog-max-len", "timeout"}

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
	host, port, tlsPort := s.bound()
	fixed := func(name, value string) setting { return setting{name: name, value: value} }
	s.slow.mu.Lock()
	maxLen := s.slow.maxLen
	s.slow.mu.Unlock()
	return []setting{
		fixed("appendfsync", fsync),
		fixed("appendonly", yesNo(s.opts.Durable)),
		fixed("bind", host),
		fixed("cluster-enabled", yesNo(s.opts.Cluster != nil)),
		fixed("databases", strconv.Itoa(s.opts.Databases)),
		fixed("dir", s.opts.Dir),
		fixed("latency-monitor-threshold", "0"),
		fixed("latency-tracking", "no"),
		fixed("maxclients", strconv.Itoa(s.opts.MaxClients)),
		fixed("maxmemory", strconv.FormatInt(s.engineMetrics().memoryLimit(), 10)),
		fixed("maxmemory-policy", "noeviction"),
		fixed("notify-keyspace-events", ""),
		fixed("port", strconv.Itoa(port)),
		fixed("proto-max-bulk-len", strconv.Itoa(s.opts.Wire.MaxBulk)),
		fixed("save", ""),
		{"slowlog-log-slower-than", strconv.FormatInt(s.slow.slowerThan.Load(), 10), -1, math.MaxInt64, s.slow.slowerThan.Store},
		{"slowlog-max-len", strconv.Itoa(maxLen), 0, MaxSlowlogLen, func(n int64) { s.slow.setMaxLen(int(n)) }},
		fixed("timeout", strconv.Itoa(int(s.opts.IdleTimeout/time.Second))),
		fixed("tls-port", strconv.Itoa(tlsPort)),
		fixed("tracking-table-max-keys", strconv.Itoa(MaxTrackedKeys)),
	}
}

// bound returns the host and port at which clients are served. The port is that of plain
// connections or of TLS; the other one is 0. If there are several listeners, it is that of
// the first.
func (s *Server) bound() (host string, port, tlsPort int) {
	s.mu.Lock()
	addr := s.bind
	s.mu.Unlock()
	tcp, ok := addr.(*net.TCPAddr)
	if !ok {
		return "", 0, 0
	}
	if s.opts.TLS != nil {
		return tcp.IP.String(), 0, tcp.Port
	}
	return tcp.IP.String(), tcp.Port, 0
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

// configSet sets all of the parameters or none. A parameter that cannot be changed accepts
// only its present value.
func configSet(x *call) error {
	if len(x.args)%2 != 0 {
		return replyError(wrongArity("config|set"))
	}
	known := map[string]setting{}
	for _, s := range x.srv.settings() {
		known[s.name] = s
	}
	var todo []func()
	seen := map[string]bool{}
	for i := 2; i < len(x.args); i += 2 {
		fail := func(why string) error {
			return replyError("ERR CONFIG SET failed (possibly related to argument '" + cText(x.args[i], 1024) + "') - " + why)
		}
		name, value := string(lower(x.args[i])), x.args[i+1]
		s, ok := known[name]
		switch {
		case !ok:
			return replyError("ERR Unknown option or number of arguments for CONFIG SET - '" + cText(x.args[i], 1024) + "'")
		case seen[name]:
			return fail("duplicate parameter")
		case s.set == nil && s.value != string(value):
			return fail("can't set immutable config")
		}
		seen[name] = true
		if s.set == nil {
			continue
		}
		n, ok := decimal.Parse(value)
		switch {
		case !ok:
			return fail("argument couldn't be parsed into an integer")
		case n < s.least || n > s.most:
			return fail("argument must be between " + strconv.FormatInt(s.least, 10) + " and " + strconv.FormatInt(s.most, 10) + " inclusive")
		}
		todo = append(todo, func() { s.set(n) })
	}
	for _, set := range todo {
		set()
	}
	x.out.OK()
	return nil
}

func configResetStat(x *call) error {
	x.srv.stats.reset()
	x.srv.resetTallies()
	x.out.OK()
	return nil
}

// configRewrite fails, because there is no configuration file.
func configRewrite(*call) error {
	return replyError("ERR The server is running without a config file")
}

package resp

import (
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/skerrydb/skerry/decimal"
	"github.com/skerrydb/skerry/resp/wire"
)

// Limits of the slow log, as in Redis.
const (
	slowlogSlowerThan = 10_000 // default of slowlog-log-slower-than, microseconds
	slowlogMaxLen     = 128    // default of slowlog-max-len, entries

	slowlogArgs     = 32  // of one entry; further ones are only counted
	slowlogArgBytes = 128 // of one argument; further ones are only counted

	// slowlogEach is the value of slowlog-log-slower-than in microseconds below which every
	// command is measured separately.
	slowlogEach = 1000
)

// slowlog stores the slowest commands. Times do not include waiting for the disk, another
// node or a lock.
type slowlog struct {
	slowerThan atomic.Int64 // microseconds; negative: nothing is logged

	mu      sync.Mutex // guards the fields below
	maxLen  int
	nextID  int64
	entries []slowEntry // oldest first
}

type slowEntry struct {
	id         int64
	at         int64 // Unix time in seconds
	took       time.Duration
	args       []string
	addr, name string
}

func (l *slowlog) init() {
	l.slowerThan.Store(slowlogSlowerThan)
	l.maxLen = slowlogMaxLen
}

// each reports whether every command has to be measured separately.
func (l *slowlog) each() bool { return uint64(l.slowerThan.Load()) < slowlogEach }

// ran logs a call if it was slow.
func (l *slowlog) ran(c *conn, cmd *command, args [][]byte, took time.Duration) {
	limit := l.slowerThan.Load()
	if limit < 0 || took.Microseconds() < limit || cmd.kind == kindExec || cmd.index == 0 {
		return // the commands in EXEC are logged separately
	}
	c.mu.Lock()
	name := c.name
	c.mu.Unlock()
	e := slowEntry{at: time.Now().Unix(), took: took, args: slowArgs(cmd, args), addr: c.nc.RemoteAddr().String(), name: name}
	l.mu.Lock()
	defer l.mu.Unlock()
	e.id = l.nextID
	l.nextID++
	l.entries = append(l.entries, e)
	l.trim()
}

// trim drops the oldest entries over the limit. The caller holds mu.
func (l *slowlog) trim() {
	if n := len(l.entries) - l.maxLen; n > 0 {
		l.entries = slices.Delete(l.entries, 0, n)
	}
}

func (l *slowlog) setMaxLen(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.maxLen = n
	l.trim()
}

// slowArgs copies the arguments for an entry, without secrets and within limits.
func slowArgs(cmd *command, args [][]byte) []string {
	n := min(len(args), slowlogArgs)
	list := make([]string, 0, n)
	for i, a := range args[:n] {
		switch {
		case i == slowlogArgs-1 && len(args) > slowlogArgs:
			list = append(list, "... ("+strconv.Itoa(len(args)-n+1)+" more arguments)")
		case secret(cmd, args, i):
			list = append(list, "(redacted)")
		case len(a) > slowlogArgBytes:
			list = append(list, string(a[:slowlogArgBytes])+"... ("+strconv.Itoa(len(a)-slowlogArgBytes)+" more bytes)")
		default:
			list = append(list, string(a))
		}
	}
	return list
}

// secret reports whether argument i may be a user's name or password.
func secret(cmd *command, args [][]byte, i int) bool {
	after := func(word string, n int) bool { return i >= n && wordIs(args[i-n], word) }
	switch cmd.name {
	case "auth":
		return i > 0
	case "hello":
		return i > 2 && (after("AUTH", 1) || after("AUTH", 2))
	case "migrate":
		return i > 5 && (after("AUTH", 1) || after("AUTH2", 1) || after("AUTH2", 2))
	case "config|set":
		return i > 2 && i%2 == 1 && !slices.Contains(publicSettings[:], string(lower(args[i-1])))
	}
	return false
}

func slowlogCommands() []command {
	return []command{
		{name: "slowlog|get", arity: -2, kind: kindAdmin, flags: flagLooks, run: slowlogGet},
		{name: "slowlog|help", arity: 2, kind: kindPlain, run: helpCmd},
		{name: "slowlog|len", arity: 2, kind: kindAdmin, flags: flagLooks, run: slowlogLen},
		{name: "slowlog|reset", arity: 2, kind: kindAdmin, flags: flagOperates, run: slowlogReset},
	}
}

func slowlogGet(x *call) error {
	count := int64(10)
	switch len(x.args) {
	case 2:
	case 3:
		n, ok := decimal.Parse(x.args[2])
		if !ok || n < -1 {
			return replyError("ERR count should be greater than or equal to -1")
		}
		count = n
	default:
		return x.wrongSub()
	}
	l := &x.srv.slow
	l.mu.Lock()
	list := slices.Clone(l.entries)
	l.mu.Unlock()
	slices.Reverse(list) // newest first
	if count >= 0 && int64(len(list)) > count {
		list = list[:count]
	}
	x.out.Array(len(list))
	for _, e := range list {
		e.write(x.out)
	}
	return nil
}

func (e *slowEntry) write(w *wire.Writer) {
	w.Array(6)
	w.Int(e.id)
	w.Int(e.at)
	w.Int(e.took.Microseconds())
	writeList(w, e.args)
	w.BulkString(e.addr)
	w.BulkString(e.name)
}

func slowlogLen(x *call) error {
	l := &x.srv.slow
	l.mu.Lock()
	n := len(l.entries)
	l.mu.Unlock()
	x.out.Int(int64(n))
	return nil
}

func slowlogReset(x *call) error {
	l := &x.srv.slow
	l.mu.Lock()
	l.entries = nil
	l.mu.Unlock()
	x.out.OK()
	return nil
}

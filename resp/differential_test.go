package resp_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/skerrydb/skerry/ci/redisserver"
	"github.com/skerrydb/skerry/ci/seed"
	"github.com/skerrydb/skerry/resp"
)

const (
	// differentialTime bounds the random comparison.
	differentialTime = 4 * time.Second
	// differentialCommands bounds it too, so that a seed that fails stops at the same
	// command.
	differentialCommands = 40_000
	// maxDifferences are reported before the test gives up.
	maxDifferences = 10
)

// TestDifferential sends the same random commands, over two connections and in
// pipelines, to redis-server and to Skerry and compares every reply and, at the
// end, all data.
func TestDifferential(t *testing.T) {
	redis := redisserver.InMemory(t)
	s := seed.Of(t)
	d := &differential{T: t, grammar: newGrammar(s), redis: redis, skerry: startSkerry(t, resp.Options{})}
	d.open()
	for end := time.Now().Add(differentialTime); time.Now().Before(end) && d.sent < differentialCommands; {
		d.pipeline()
	}
	for i := range d.pairs {
		d.one(i, "DISCARD")
	}
	for db := range 3 {
		d.state(db)
	}
	t.Logf("%d commands compared", d.sent)
}

// differential is one comparison.
type differential struct {
	*testing.T
	*grammar
	redis, skerry string
	pairs         []pair
	history       []string
	sent, bad     int
}

// pair is the same connection on both servers.
type pair struct {
	redis, skerry *peer
}

// open opens two connections to each server, the second in RESP3.
func (d *differential) open() {
	for i := range 2 {
		var p pair
		for addr, to := range map[string]**peer{d.redis: &p.redis, d.skerry: &p.skerry} {
			c, err := tcp(addr)()
			if err != nil {
				d.Fatal(err)
			}
			d.Cleanup(func() { c.Close() })
			*to = newPeer(c)
			if i == 1 {
				if _, err := (*to).do("HELLO", "3"); err != nil {
					d.Fatal(err)
				}
			}
		}
		d.pairs = append(d.pairs, p)
	}
}

// pipeline sends up to sixteen commands at once on one of the connections.
func (d *differential) pipeline() {
	i := d.IntN(len(d.pairs))
	var commands [][]string
	for range 1 + d.IntN(1+d.IntN(16)) {
		c := d.command()
		if strings.EqualFold(c[0], "WATCH") { // of keys that exist; transactions.txt says why
			for _, key := range c[1:] {
				commands = append(commands, []string{"SETNX", key, "watched"})
			}
		}
		commands = append(commands, c)
	}
	d.compare(i, commands)
}

func (d *differential) one(i int, args ...string) { d.compare(i, [][]string{args}) }

func (d *differential) compare(i int, commands [][]string) {
	d.Helper()
	p := d.pairs[i]
	for _, args := range commands {
		for _, to := range []*peer{p.redis, p.skerry} {
			if err := to.send(args); err != nil {
				d.Fatal(err)
			}
		}
	}
	for _, args := range commands {
		d.sent++
		d.history = append(d.history, fmt.Sprintf("@%d %s", i, quoteAll(args)))
		want, err := p.redis.receive()
		if err != nil {
			d.Fatalf("redis: %s: %v", quoteAll(args), err)
		}
		got, err := p.skerry.receive()
		if err != nil {
			d.Fatalf("skerry: %s: %v", quoteAll(args), err)
		}
		if !d.same(args, want, got) {
			d.differs(want, got)
		}
	}
}

func (d *differential) differs(want, got reply) {
	d.Helper()
	d.Errorf("after\n  %s\nredis  %s\nskerry %s", strings.Join(d.history[max(0, len(d.history)-15):], "\n  "),
		strings.Join(want.lines(), "\n       "), strings.Join(got.lines(), "\n       "))
	if d.bad++; d.bad == maxDifferences {
		d.Fatal("too many differences")
	}
}

// same compares two replies to the same command and, in a transaction, to its commands.
func (d *differential) same(args []string, want, got reply) bool {
	switch strings.ToUpper(args[0]) {
	case "KEYS":
		want.sort()
		got.sort()
	case "EXEC":
		if want.kind == got.kind && len(want.elems) == len(got.elems) {
			for i := range want.elems {
				if !d.near(want.elems[i], got.elems[i]) {
					return false
				}
			}
			return true
		}
	}
	return d.near(want, got)
}

// near compares replies, but tolerates differences in times to live, which both servers
// count down, in the order of KEYS within a transaction, and in what the transcripts mark:
// DUMP of a value that compresses.
func (d *differential) near(want, got reply) bool {
	if isDump(want) && isDump(got) && d.sameDump(want.text, got.text) {
		return true
	}
	if want.kind == ':' && got.kind == ':' && len(want.text) >= 3 {
		a, _ := strconv.ParseInt(want.text, 10, 64)
		b, _ := strconv.ParseInt(got.text, 10, 64)
		if a == b || a > 800 && a-b < ttlSlack && b-a < ttlSlack {
			return true
		}
	}
	if want.kind == '*' && got.kind == '*' {
		want.sort()
		got.sort()
	}
	return strings.Join(want.lines(), "\n") == strings.Join(got.lines(), "\n")
}

// ttlSlack is how far times to live may differ, in milliseconds or seconds.
const ttlSlack = 3000

// isDump reports whether v may be a DUMP of a string: type 0, RDB version 10 before the
// checksum.
func isDump(v reply) bool {
	n := len(v.text)
	return v.kind == '$' && n > 12 && v.text[0] == 0 && v.text[n-10:n-8] == "\n\x00"
}

// sameDump reports whether both dumps are equal or, if one is compressed, contain the same
// value: each server restores the other's dump.
func (d *differential) sameDump(redis, skerry string) bool {
	if redis == skerry || redis[1] != '\xc3' && skerry[1] != '\xc3' {
		return redis == skerry
	}
	var values []string
	for addr, dump := range map[string]string{d.redis: skerry, d.skerry: redis} {
		c, err := tcp(addr)()
		if err != nil {
			d.Fatal(err)
		}
		p := newPeer(c)
		for _, args := range [][]string{{"SELECT", "14"}, {"RESTORE", "dump", "0", dump, "REPLACE"}, {"GETDEL", "dump"}} {
			v, err := p.do(args...)
			if err != nil || v.kind == '-' {
				d.Errorf("%s of the other server's dump %q: %q, %v", args[0], dump, v.text, err)
			}
			if args[0] == "GETDEL" {
				values = append(values, v.text)
			}
		}
		p.Close()
	}
	return values[0] == values[1]
}

func quoteAll(args []string) string {
	var q []string
	for _, a := range args {
		q = append(q, quote(a))
	}
	return strings.Join(q, " ")
}

// state compares all keys of one database.
func (d *differential) state(db int) {
	d.one(0, "SELECT", strconv.Itoa(db))
	keys, err := d.pairs[0].redis.do("KEYS", "*")
	if err != nil {
		d.Fatal(err)
	}
	d.one(0, "KEYS", "*")
	for _, k := range keys.elems {
		d.one(0, "PEXPIRETIME", k.text)
		d.one(0, "GET", k.text)
		d.one(0, "OBJECT", "ENCODING", k.text)
	}
}

package resp_test

import (
	"math/rand/v2"
	"strconv"
	"strings"
)

// grammar generates random commands of the groups generic, string, transactions and
// connection. It excludes commands whose replies depend on ids, clocks or hash order, and
// those for which the transcripts document that Skerry differs (SWAPDB; DBSIZE, which
// counts expired keys that are not deleted yet).
type grammar struct {
	*rand.Rand
	forms [][]string
}

// forms are commands with their arguments by kind: K key, V value, I integer,
// F float, D database, T time to live in seconds, M in milliseconds, A absolute
// seconds, B absolute milliseconds, P pattern; [x|y] one of these, each with
// arguments of its own after ":", or nothing.
const forms = `
SET K V
SET K V [NX|XX|GET]
SET K V [NX|XX|EX:T|PX:M|EXAT:A|PXAT:B|KEEPTTL|GET] [NX|XX|GET|EX:T|KEEPTTL]
SET K I
SET K F
GET K
GET K
GETSET K V
GETDEL K
GETEX K
GETEX K [EX:T|PX:M|EXAT:A|PXAT:B|PERSIST|NX]
APPEND K V
STRLEN K
GETRANGE K I I
SUBSTR K I I
SETRANGE K O V
SETEX K T V
PSETEX K M V
SETNX K V
MSET K V K V
MSETNX K V K V
MGET K K K
INCR K
DECR K
INCRBY K I
DECRBY K I
INCRBYFLOAT K F
LCS K K
LCS K K [LEN|IDX|MINMATCHLEN:I] [WITHMATCHLEN|IDX|LEN]
DEL K
DEL K K
UNLINK K
EXISTS K K
TOUCH K K
TYPE K
EXPIRE K T [NX|XX|GT|LT]
PEXPIRE K M [NX|XX|GT|LT]
EXPIREAT K A [NX|XX|GT|LT]
PEXPIREAT K B [NX|XX|GT|LT]
EXPIRETIME K
PEXPIRETIME K
TTL K
PTTL K
PERSIST K
RENAME K K
RENAMENX K K
COPY K K
COPY K K [DB:D|REPLACE] [REPLACE|DB:D]
MOVE K D
DUMP K
OBJECT ENCODING K
OBJECT ENCODING K
OBJECT [FREQ:K|BOGUS:K]
SORT K
SORT_RO K [ALPHA|DESC|LIMIT:I:I]
KEYS P
SELECT D
FLUSHDB
PING
PING V
ECHO V
WATCH K
WATCH K K
UNWATCH
MULTI
MULTI
EXEC
EXEC
DISCARD
CLIENT GETNAME
CLIENT SETNAME [a|b]
CLIENT [BOGUS|NO-EVICT:on]
BOGUS V
`

func newGrammar(seed uint64) *grammar {
	g := &grammar{Rand: rand.New(rand.NewPCG(seed, 0))}
	for line := range strings.Lines(strings.TrimSpace(forms)) {
		g.forms = append(g.forms, strings.Fields(line))
	}
	return g
}

func (g *grammar) pick(from ...string) string { return from[g.IntN(len(from))] }

// command generates one command. One in thirty has an argument too few or too many.
func (g *grammar) command() []string {
	form := g.forms[g.IntN(len(g.forms))]
	args := []string{form[0]}
	for _, f := range form[1:] {
		args = append(args, g.arguments(f)...)
	}
	switch g.IntN(60) {
	case 0:
		args = args[:len(args)-1]
	case 1:
		args = append(args, g.pick("x", "1", "NX"))
	}
	if len(args) == 0 {
		args = []string{"PING"}
	}
	if g.IntN(20) == 0 {
		args[0] = strings.ToLower(args[0])
	}
	return args
}

func (g *grammar) arguments(kind string) []string {
	if kind[0] == '[' {
		choice := g.pick(strings.Split(kind[1:len(kind)-1]+"|", "|")...)
		if choice == "" {
			return nil
		}
		words := strings.Split(choice, ":")
		out := []string{words[0]}
		for _, w := range words[1:] {
			out = append(out, g.arguments(w)...)
		}
		return out
	}
	return []string{g.argument(kind)}
}

func (g *grammar) argument(kind string) string {
	switch kind {
	case "K":
		return g.pick("a", "b", "c", "d", "e", "key:1", "key:2", "\x00bin\xff")
	case "V":
		return g.pick("", "v", "10", "-3", "hello world", "1.5", "\x00\xff\r\n", "ohmytext", "mynewtext", "9223372036854775807",
			"3.0e3", " 7", "abcdefghijklmnop", strings.Repeat("ab", g.IntN(100)), strconv.FormatUint(g.Uint64(), 36))
	case "I":
		return g.pick("0", "1", "-1", "2", "5", "-5", "100", "-100", "9223372036854775807", "-9223372036854775808",
			"9223372036854775808", "x", "1.5", "", "+1", strconv.Itoa(g.IntN(2000)-1000))
	case "O":
		return g.pick("0", "1", "3", "10", "200", "-1", "536870912", "x")
	case "F":
		return g.float()
	case "D":
		return g.pick("0", "1", "0", "1", "2", "15", "16", "-1", "x")
	case "T":
		return g.pick(g.timeToLive(), g.timeToLive(), g.timeToLive(), "0", "-1", "9223372036854775807", "x")
	case "M":
		return g.pick(g.timeToLive()+"000", g.timeToLive()+"000", g.timeToLive()+"000", "0", "-1", "9223372036854775807", "x")
	case "A":
		return g.pick("4102444800", "4102444801", "4200000000", "1", "0", "-1", "9223372036854775807", "x")
	case "B":
		return g.pick("4102444800123", "4102444801500", "4200000000499", "1", "0", "-1", "x")
	case "P":
		return g.pick("*", "key:*", "key:[12]", "?", "[a-c]", "[^a]", "*bin*", "none*", "", "[", "\\a", "key:[^1]*")
	}
	return kind
}

// timeToLive returns seconds that are unlikely to repeat. With EXPIRE … GT and the same
// time, the reply would depend on the millisecond in which a server runs it.
func (g *grammar) timeToLive() string { return strconv.Itoa(1000 + g.IntN(1_000_000)) }

// float returns an argument of INCRBYFLOAT, usually a plain decimal.
func (g *grammar) float() string {
	switch g.IntN(6) {
	case 0:
		return g.pick("0.1", "-0.1", "3", "1e3", "1e-5", "5.0e3", ".5", "5.", "0", "-0", "1e20", "123456789.987654321")
	case 1:
		return g.pick("x", "", "inf", "nan", " 1", "1 ", "0x10", "1e400", "--1")
	case 2:
		return strconv.FormatFloat(g.NormFloat64()*1000, 'g', -1, 64)
	}
	return strconv.FormatFloat(float64(g.IntN(200_000)-100_000)/1000, 'f', -1, 64)
}

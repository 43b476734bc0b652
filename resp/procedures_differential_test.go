package resp_test

import (
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/skerrydb/skerry/ci/redisserver"
	"github.com/skerrydb/skerry/ci/seed"
	"github.com/skerrydb/skerry/resp"
)

// luaProcedures are Lua versions of the tests' procedures with the same names.
const luaProcedures = `#!lua name=skerry
redis.register_function('add', function(keys, args) return redis.call('incrby', keys[1] or table.remove(args, 1), args[1]) end)
redis.register_function{function_name='value', callback=function(keys, args) return redis.call('get', keys[1] or args[1]) end, flags={'no-writes'}}
redis.register_function('fail', function(keys, args)
  for i = #keys, 1, -1 do table.insert(args, 1, keys[i]) end
  return redis.error_reply('ERR ' .. args[3])
end)`

// callErrors matches the additions of both servers to the text of an error.
var callErrors = regexp.MustCompile(` script: .*$|( Procedure .* writes: call it with FCALL)? \[[a-z_ ]+\]$`)

// TestDifferentialCalls sends the same random calls, valid and invalid, to Lua functions of
// redis-server and to procedures, and compares the replies.
func TestDifferentialCalls(t *testing.T) {
	redis := redisserver.InMemory(t)
	s := seed.Of(t)
	d := &differential{T: t, grammar: newGrammar(s), redis: redis, skerry: startSkerry(t, resp.Options{})}
	d.open()
	if v, err := d.pairs[0].redis.do("FUNCTION", "LOAD", luaProcedures); err != nil || v.kind != '$' {
		t.Fatal(v, err)
	}
	rng := rand.New(rand.NewPCG(s, 2))
	multi := make([]bool, len(d.pairs))
	for end := time.Now().Add(2 * time.Second); time.Now().Before(end) && d.sent < 20_000; {
		i := rng.IntN(len(d.pairs))
		p, args := d.pairs[i], randomCall(rng, &multi[i])
		d.sent++
		d.history = append(d.history, quoteAll(args))
		want, err := p.redis.do(args...)
		if err != nil {
			t.Fatal(err)
		}
		got, err := p.skerry.do(args...)
		if err != nil {
			t.Fatal(err)
		}
		if a, b := callLines(want), callLines(got); a != b {
			d.differs(want, got)
		}
	}
	t.Logf("%d commands compared", d.sent)
}

// callLines returns the lines of a reply without the parts that the servers word
// differently.
func callLines(v reply) string {
	lines := v.lines()
	for i, l := range lines {
		if j := strings.IndexByte(l, '-'); j < 0 || strings.TrimLeft(l[:j], " ") != "" || !strings.HasPrefix(l[j:], "-ERR") {
			continue
		}
		if strings.Contains(l, "Function not found") || strings.Contains(l, "there is no procedure") {
			l = "unknown"
		}
		lines[i] = callErrors.ReplaceAllString(l, "")
	}
	return strings.Join(lines, "\n")
}

// randomCall returns a command. multi tracks whether a transaction is being queued.
func randomCall(rng *rand.Rand, multi *bool) []string {
	pick := func(words ...string) string { return words[rng.IntN(len(words))] }
	key, n := pick("a", "b", "text", "", "none"), strconv.FormatInt(1+rng.Int64N(1<<rng.IntN(45)), 10) // Lua's numbers have 53 bits
	if key == "" {                                                                                     // Redis supports it, Skerry does not
		key = "bin\x00\r\n"
	}
	count := pick("1", "1", "1", "0", "0", "3", "4", "-1", "x", "1.5", "", "01", "+1", " 1", "1 ", "9223372036854775807", "9223372036854775808", "-9223372036854775808", "0x1", "\x00")
	cmd := pick("FCALL", "FCALL", "fcall_ro", "FCALL_RO")
	switch rng.IntN(16) {
	case 0:
		return []string{"SET", "text", pick("abc", "1", n)}
	case 1:
		return []string{"GET", key}
	case 2:
		return []string{cmd, pick("nothing", "add2", "", "x"), count, key}
	case 3:
		return []string{cmd, "add", count}[:1+rng.IntN(2)]
	case 4:
		return []string{"FCALL", "fail", count, pick("a", "b"), pick("", "my_code", "x"), pick("it failed", "two  words")}
	case 5:
		return []string{"DEL", key}
	case 6, 7:
		if *multi = !*multi; *multi {
			return []string{"MULTI"}
		}
		return []string{pick("EXEC", "EXEC", "DISCARD")}
	case 8:
		return []string{"COMMAND", pick("GETKEYS", "GETKEYSANDFLAGS"), cmd, "add", pick("0", "1", "2", "3", "-1", "x"), key, n} // Redis reads numbers as atoi does
	case 9, 10, 11:
		return []string{cmd, "value", count, key}
	}
	return []string{cmd, "add", count, key, pick(n, "-"+n, "0", "1")}
}

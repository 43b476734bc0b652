package main

import (
	"bytes"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/skerrydb/skerry/bench/rig"
	"github.com/skerrydb/skerry/examples/voter"
)

// maxVotes is the limit per phone, so large that no vote is refused: every call does all of its work.
const maxVotes = 1_000_000_000

// newSkerry is examples/voter/server with its defaults.
func newSkerry(name, dir, programs string, short bool) (*system, error) {
	path := filepath.Join(programs, "voter-server.bin")
	if err := rig.BuildProgram("./examples/voter/server", path); err != nil {
		return nil, err
	}
	s := &system{
		name: name, version: rig.OutputLine(path, "version"), dir: filepath.Join(dir, name),
		lanes: []lane{
			{"raw RESP 64×1", "raw", 64, 64},
			{"raw RESP 8×64", "raw", 8, 8 * 64},
			{"raw RESP 8×512", "raw", 8, 8 * 512},
			{"rueidis, 64 goroutines", "rueidis", 0, 64},
			{"rueidis, 1024 goroutines", "rueidis", 0, 1024},
			{"client, blocking 64", "blocking", 1, 64},
			{"client, blocking 1024", "blocking", 1, 1024},
			{"client, non-blocking 8×64", "async", 8, 8 * 64},
			{"client, non-blocking 1×4096", "async", 1, 4096},
			{"client, non-blocking 100,000", "async", 1, 100_000},
			{"database/sql, 64", "sql", 1, 64},
			{"database/sql, 1024", "sql", 1, 1024},
		},
		run: func(s *system) error {
			return s.launch(exec.Command(path, "serve", "--data", s.dir, "--resp", s.addr, "--http", "off", "--log-level", "warn"))
		},
		prepare: func(s *system) error {
			_, err := command(s.addr, "FCALL", "initialize", "0", strconv.Itoa(voter.MaxContestants))
			return err
		},
		votes: func(s *system) (int64, error) {
			reply, err := command(s.addr, "FCALL_RO", "check", "0") // RESP2: alternating names and values
			if err != nil {
				return 0, err
			}
			totals := map[string]string{}
			for i := 0; i+1 < len(reply); i += 2 {
				totals[reply[i]] = reply[i+1]
			}
			n, err := strconv.ParseInt(totals["by_contestant"], 10, 64)
			if err != nil || totals["by_phone"] != totals["by_contestant"] || totals["by_state"] != totals["by_contestant"] {
				return 0, fmt.Errorf("the counters do not agree: %v", totals)
			}
			return n, nil
		},
	}
	if short {
		s.lanes = append(s.lanes[1:3], lane{"client, non-blocking 1×4096", "async", 1, 4096})
	}
	return s, nil
}

// newRedis is Debian's redis-server with an append-only file that is synced before every reply. Everything
// else is its default, except that RDB snapshots are off, which the append-only file makes unnecessary.
func newRedis(name, dir string, short bool) (*system, error) {
	path, err := rig.Need("redis-server", "redis-server")
	if err != nil {
		return nil, err
	}
	s := &system{
		name: name, version: rig.OutputLine(path, "--version"), dir: filepath.Join(dir, name),
		lanes: []lane{
			{"raw RESP 64×1", "raw", 64, 64},
			{"raw RESP 8×64", "raw", 8, 8 * 64},
			{"raw RESP 8×512", "raw", 8, 8 * 512},
			{"rueidis, 64 goroutines", "rueidis", 0, 64},
			{"rueidis, 1024 goroutines", "rueidis", 0, 1024},
		},
		run: func(s *system) error {
			_, port, _ := net.SplitHostPort(s.addr)
			err := s.launch(exec.Command(path, "--port", port, "--bind", "127.0.0.1", "--dir", s.dir,
				"--appendonly", "yes", "--appendfsync", "always", "--save", ""))
			for from := time.Now(); err == nil; time.Sleep(50 * time.Millisecond) { // it responds before it has read its file
				if _, err := command(s.addr, "PING"); err == nil || time.Since(from) > rig.StartLimit {
					return err
				}
			}
			return err
		},
		prepare: func(s *system) error {
			if _, err := command(s.addr, "FUNCTION", "LOAD", luaLibrary()); err != nil {
				return err
			}
			args := []string{"HSET", "contestants"}
			for n := range voter.MaxContestants {
				args = append(args, strconv.Itoa(n+1), "contestant "+strconv.Itoa(n+1))
			}
			_, err := command(s.addr, args...)
			return err
		},
		votes: func(s *system) (int64, error) {
			reply, err := command(s.addr, "HVALS", "votes")
			return sum(reply, err)
		},
	}
	if short {
		s.lanes = s.lanes[1:3]
	}
	return s, nil
}

func sum(numbers []string, err error) (total int64, _ error) {
	for _, s := range numbers {
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			return 0, err
		}
		total += n
	}
	return total, err
}

// luaLibrary is the procedure as a function of Redis 7
// (https://redis.io/docs/latest/develop/programmability/functions-intro/), with
// the same three statements over keys of the same size.
func luaLibrary() string {
	var b strings.Builder
	b.WriteString("#!lua name=voter\nlocal states = {")
	for code := int64(200); code < 1000; code++ {
		if s := voter.StateOf(code * 10_000_000); s != voter.Nowhere {
			fmt.Fprintf(&b, "['%d']='%s',", code, s)
		}
	}
	b.WriteString(`}
local function vote(_, args)
  local phone, contestant, max = args[1], args[2], tonumber(args[3])
  if redis.call('HEXISTS', 'contestants', contestant) == 0 then
    return redis.error_reply('ERR there is no such contestant')
  end
  local key = 'phone/' .. phone
  local cast = tonumber(redis.call('GET', key) or 0)
  if cast >= max then
    return redis.error_reply('ERR too many votes')
  end
  redis.call('INCR', key)
  redis.call('HINCRBY', 'votes', contestant, 1)
  redis.call('HINCRBY', 'states', contestant .. '/' .. (states[string.sub(phone, 1, 3)] or 'XX'), 1)
  return cast + 1
end
redis.register_function('vote', vote)
`)
	return b.String()
}

// launch starts a server and waits until its port accepts connections.
func (s *system) launch(cmd *exec.Cmd) error {
	var err error
	if s.proc, err = rig.Start(cmd, s.dir+".log"); err != nil {
		return err
	}
	if err = s.proc.Await(s.addr, rig.StartLimit); err != nil {
		return fmt.Errorf("%s: %w; see %s.log", s.name, err, s.dir)
	}
	return nil
}

// command sends one RESP2 command and returns the reply: the elements of a flat array, or one text.
func command(addr string, args ...string) ([]string, error) {
	b := fmt.Appendf(nil, "*%d\r\n", len(args))
	for _, a := range args {
		b = fmt.Appendf(b, "$%d\r\n%s\r\n", len(a), a)
	}
	var reply []string
	_, err := rig.Ask(addr, b, func(got []byte) (bool, error) {
		values, whole := flat(got)
		if whole && got[0] == '-' {
			return true, fmt.Errorf("%s: %s", args[0], values[0])
		}
		reply = values
		return whole, nil
	})
	return reply, err
}

// flat parses a RESP2 reply without nested arrays, and reports whether it is complete.
func flat(b []byte) (values []string, whole bool) {
	want := 1
	for want > 0 {
		line, rest, ok := bytes.Cut(b, []byte("\r\n"))
		if !ok {
			return nil, false
		}
		b, want = rest, want-1
		n, _ := strconv.Atoi(string(line[1:])) // only used where it is a number
		switch line[0] {
		case '*':
			want += max(n, 0)
		case '$':
			if len(b) < n+2 {
				return nil, false
			}
			values, b = append(values, string(b[:max(n, 0)])), b[max(n+2, 0):]
		default:
			values = append(values, string(line[1:]))
		}
	}
	return values, true
}

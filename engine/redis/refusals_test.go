package redis

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/skerrydb/skerry/ci/eventually"
	"github.com/skerrydb/skerry/ci/redisserver"
	"github.com/skerrydb/skerry/engine"
)

// TestRefusedLater changes the server under an engine that is open: a write fails with an error that names the cause, loses
// nothing, and succeeds once the cause is gone.
func TestRefusedLater(t *testing.T) {
	type step []string
	for name, c := range map[string]struct {
		change, undo []step
		code         engine.Code
		text         string
	}{
		"full memory": {
			[]step{{"CONFIG", "SET", "maxmemory", "1"}}, []step{{"CONFIG", "SET", "maxmemory", "0"}},
			engine.CodeMemoryFull, "maxmemory",
		},
		"no right to run scripts": {
			[]step{{"ACL", "SETUSER", "default", "-@scripting"}}, []step{{"ACL", "SETUSER", "default", "+@scripting"}},
			engine.CodeUnsupported, "ACL SETUSER",
		},
		"no right to the keys": {
			[]step{{"ACL", "SETUSER", "default", "resetkeys", "~other*"}}, []step{{"ACL", "SETUSER", "default", "allkeys"}},
			engine.CodeUnsupported, "ACL SETUSER",
		},
		"another type": {
			[]step{{"RENAME", "t:meta", "aside"}, {"SET", "t:meta", "x"}}, []step{{"DEL", "t:meta"}, {"RENAME", "aside", "t:meta"}},
			engine.CodeCorrupt, "prefix",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := redisserver.Start(t)
			eng := open(t, at(Scheme, s, "t:"), Options{})
			defer eng.Close()
			if _, err := add(eng); err != nil {
				t.Fatal(err)
			}
			for _, cmd := range c.change {
				s.Do(t, cmd...)
			}
			_, err := add(eng)
			if engine.CodeOf(err) != c.code || !strings.Contains(fmt.Sprint(err), c.text) {
				t.Errorf("a write: %v, want %s with %q", err, c.code, c.text)
			}
			for _, cmd := range c.undo {
				s.Do(t, cmd...)
			}
			eventually.True(t, "writes succeed again", func() bool { _, err = add(eng); return err == nil })
			if n := count(t, eng); n != 2 {
				t.Errorf("the number is %d after two additions", n)
			}
		})
	}
}

// TestRights runs the engine as a user who has no more rights than the error for missing ones names, or DESIGN.md.
func TestRights(t *testing.T) {
	s := redisserver.Start(t)
	line, _ := strings.CutPrefix(noRight[strings.Index(noRight, "ACL SETUSER name "):], "ACL SETUSER name ")
	design, err := os.ReadFile("DESIGN.md")
	if err != nil {
		t.Fatal(err)
	}
	_, listed, _ := strings.Cut(string(design), "## Rights\n\n`")
	listed, _, _ = strings.Cut(listed, "`")
	for user, rights := range map[string]string{"wide": strings.ReplaceAll(line, "prefix", "wide:"), "narrow": listed + " ~narrow:* &narrow:*"} {
		s.Do(t, append([]string{"ACL", "SETUSER", user, "on", ">secret"}, strings.Fields(rights)...)...)
		u := at(Scheme, s, user+":")
		u.User = url.UserPassword(user, "secret")
		eng := open(t, u, Options{Logger: slog.New(slog.DiscardHandler), HistoryBytes: 1 << 10})
		pos, err := add(eng)
		if err != nil {
			t.Fatalf("%s: %v", user, err)
		}
		if n := count(t, eng); n != 1 || !eng.Promises().Durable {
			t.Errorf("%s: the number is %d, durable: %v", user, n, eng.Promises().Durable)
		}
		for c, err := range eng.Changes(t.Context(), pos-1) {
			if err != nil || c.Pos != pos {
				t.Errorf("%s: the change after %d: %+v, %v", user, pos-1, c, err)
			}
			break
		}
		if _, err := replace(eng, "new", "n"); err != nil {
			t.Errorf("%s: %v", user, err)
		}
		if got := s.Do(t, "ACL", "DRYRUN", user, "SET", user+":turn", "x", "NX", "PX", "100"); got != "OK" {
			t.Errorf("%s: it cannot take the turn: %s", user, got)
		}
		eng.Close()
	}
	s.Restart(t) // a new epoch
	u := at(Scheme, s, "narrow:")
	s.Do(t, append([]string{"ACL", "SETUSER", "narrow", "on", ">secret"}, strings.Fields(listed+" ~narrow:* &narrow:*")...)...)
	u.User = url.UserPassword("narrow", "secret")
	eng := open(t, u, Options{Logger: slog.New(slog.DiscardHandler)})
	defer eng.Close()
	if pos, err := add(eng); err != nil || epochOf(pos) != 1 {
		t.Errorf("after a restart: %d, %v", pos, err)
	}
}

// TestOwnDeadline lets a caller's deadline pass; that is not a fault of the server.
func TestOwnDeadline(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Nanosecond)
	defer cancel()
	_, err := (&net.Dialer{}).DialContext(ctx, "tcp", "127.0.0.1:1")
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	if got := fault(ctx, err); got != err {
		t.Errorf("a caller's deadline: %v", got)
	}
	if got := fault(t.Context(), err); engine.CodeOf(got) != engine.CodeUnavailable {
		t.Errorf("a dial that took too long: %v", got)
	}
}

// TestNoSlot: a slot that the client knows nobody to serve is said as the server says it.
func TestNoSlot(t *testing.T) {
	for _, err := range []error{rueidis.ErrNoSlot, fmt.Errorf("get: %w", rueidis.ErrNoSlot)} {
		refusedWith(t, fault(t.Context(), err), engine.CodeUnavailable, "the cluster does not serve the slot")
	}
}

// TestMaxClients opens an engine on a server that takes no more clients. It may end the connection before the client has
// read why.
func TestMaxClients(t *testing.T) {
	s := redisserver.Start(t, "--maxclients", "1")
	only, err := net.Dial("tcp", s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer only.Close()
	eventually.True(t, "the other client is served", func() bool {
		if _, err := only.Write([]byte("PING\r\n")); err != nil {
			t.Fatal(err)
		}
		pong := make([]byte, len("+PONG\r\n"))
		_, err := io.ReadFull(only, pong)
		return err == nil && string(pong) == "+PONG\r\n"
	})
	eng, err := Open(t.Context(), at(Scheme, s, "t:"), Options{})
	if err == nil {
		eng.Close()
	}
	if engine.CodeOf(err) != engine.CodeUnavailable {
		t.Errorf("%v, want %s", err, engine.CodeUnavailable)
	}
}

// TestEmptied removes all data under an engine that is open. It must not go on as if there had never been any.
func TestEmptied(t *testing.T) {
	s := redisserver.Start(t)
	eng := open(t, at(Scheme, s, "t:"), Options{})
	defer eng.Close()
	if _, err := add(eng); err != nil {
		t.Fatal(err)
	}
	s.Do(t, "FLUSHALL")
	_, err := add(eng)
	if engine.CodeOf(err) != engine.CodeCorrupt {
		t.Errorf("a write: %v, want %s", err, engine.CodeCorrupt)
	}
	_, err = eng.View(t.Context(), engine.Read{}, func(tx engine.Tx) error { _, _, err := tx.Get([]byte("n")); return err })
	if engine.CodeOf(err) != engine.CodeCorrupt {
		t.Errorf("a read: %v, want %s", err, engine.CodeCorrupt)
	}
}

// TestEvictionLater switches eviction on, and off again, under an engine that is open.
func TestEvictionLater(t *testing.T) {
	s := redisserver.Start(t)
	eng := open(t, at(Scheme, s, "t:"), Options{})
	defer eng.Close()
	s.Do(t, "CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
	var err error
	eventually.True(t, "writes are refused", func() bool { _, err = add(eng); return err != nil })
	if engine.CodeOf(err) != engine.CodeUnsupported || !strings.Contains(err.Error(), "noeviction") {
		t.Errorf("%v, want %s with noeviction", err, engine.CodeUnsupported)
	}
	s.Do(t, "CONFIG", "SET", "maxmemory-policy", "noeviction")
	eventually.True(t, "writes succeed again", func() bool { _, err = add(eng); return err == nil })
}

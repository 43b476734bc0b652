package resp_test

import (
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/skerrydb/skerry/ci/eventually"
	"github.com/skerrydb/skerry/engine/embedded"
	"github.com/skerrydb/skerry/resp"
	"github.com/skerrydb/skerry/resp/wire"
)

// startSkewed starts a real cluster whose nodes' clocks are ahead by the given times. The
// first node is the leader. It returns the addresses for clients.
func startSkewed(t *testing.T, ahead ...time.Duration) (addrs []string) {
	t.Helper()
	quiet := slog.New(slog.DiscardHandler)
	var first string
	var dbs []*embedded.DB
	for i, by := range ahead {
		dir, l := t.TempDir(), loopback(t)
		o := embedded.Options{Logger: quiet, Now: func() time.Time { return time.Now().Add(by) }, Cluster: embedded.ClusterOptions{Listener: l}}
		if i == 0 {
			first = dir
			if _, _, err := embedded.InitCluster(t.Context(), dir, l.Addr().String(), o); err != nil {
				t.Fatal(err)
			}
		} else {
			text, err := embedded.Invite(first)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := embedded.Accept(dir, text, o); err != nil {
				t.Fatal(err)
			}
			s := dbs[0].Cluster().State()
			me, _ := s.Node(s.Self)
			o.Cluster.Join = []string{me.Addr}
		}
		db, err := embedded.Open(dir, o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = db.Close() })
		dbs = append(dbs, db)
		clients := loopback(t)
		serve(t, db, clients, resp.Options{Logger: quiet, Meter: db, Cluster: db.Cluster()})
		addrs = append(addrs, clients.Addr().String())
	}
	return addrs
}

// TestExpiryOnFollowers checks that a lock of one minute exists on every node at every
// level, though the clocks of the nodes differ by minutes, and that it is gone on all of
// them once it is gone on the leader.
func TestExpiryOnFollowers(t *testing.T) {
	t.Parallel()
	addrs := startSkewed(t, 0, 2*time.Minute, -3*time.Minute)
	levels := []string{"LINEARIZABLE", "SESSION", "LOCAL"}
	leader := newAsker(t, addrs[0])
	on := map[string]*asker{}
	for i, addr := range addrs {
		for _, level := range levels {
			a := newAsker(t, addr)
			a.ask("CLIENT", "READ", level)
			on[fmt.Sprint(i, level)] = a
		}
	}
	// asks returns the replies of a node. At level SESSION, the client uses the leader
	// first.
	asks := func(i int, level string, commands ...string) (replies []string) {
		t.Helper()
		a := on[fmt.Sprint(i, level)]
		if level == "SESSION" {
			a.ask("CLIENT", "POSITION", said(leader.ask("CLIENT", "POSITION")))
		}
		for _, c := range commands {
			replies = append(replies, said(a.ask(strings.Fields(c)...)))
		}
		return replies
	}
	leader.ask("SET", "first", "me", "PX", "600000")
	for i := range addrs { // a node that has just joined has not heard the leader's time yet
		eventually.True(t, "the leader's time at node "+fmt.Sprint(i+1), func() bool {
			left, err := strconv.Atoi(asks(i, "LOCAL", "PTTL first")[0])
			return err == nil && left > 500_000 && left <= 600_000
		})
	}
	began := time.Now()
	leader.ask("SET", "lock", "me", "PX", "60000")
	leader.ask("SET", "short", "me", "PX", "400")
	for i := range addrs {
		for _, level := range levels {
			if level == "LOCAL" { // it may be stale
				eventually.True(t, "the lock at node "+fmt.Sprint(i+1), func() bool { return asks(i, level, "EXISTS lock")[0] == "1" })
			}
			got := asks(i, level, "GET lock", "EXISTS lock", "TTL lock", "PTTL lock", "SCAN 0 MATCH loc*")
			var left int
			_, err := fmt.Sscan(got[3], &left)
			passed := time.Since(began)
			least := time.Minute - passed - passed/10 // the time may be a tenth faster for a while
			if got[0] != "me" || got[1] != "1" || got[2] == "-2" || err != nil ||
				left > 60000 || time.Duration(left+1)*time.Millisecond < least || !strings.Contains(got[4], "lock") {
				t.Errorf("node %d, %s, %v after a lock of a minute was taken: %q", i+1, level, passed, got)
			}
		}
	}
	eventually.True(t, "the end of a short key", func() bool { return said(leader.ask("EXISTS", "short")) == "0" })
	if passed := time.Since(began); passed < 300*time.Millisecond {
		t.Errorf("a key of 400 ms was gone after %v", passed)
	}
	for i := range addrs {
		if got := asks(i, "LINEARIZABLE", "EXISTS short", "PTTL short"); got[0] != "0" || got[1] != "-2" {
			t.Errorf("node %d has a key that the leader no longer has: %q", i+1, got)
		}
		for _, level := range levels[1:] { // after the sweeper has run
			eventually.True(t, "the end of a short key at node "+fmt.Sprint(i+1), func() bool { return asks(i, level, "EXISTS short")[0] == "0" })
		}
	}
}

// said returns a reply as text.
func said(v wire.Value) string {
	switch v.Kind {
	case wire.KindInt:
		return fmt.Sprint(v.Int)
	case wire.KindArray:
		var all []string
		for _, e := range v.List {
			all = append(all, said(e))
		}
		return strings.Join(all, " ")
	}
	return string(v.Str)
}

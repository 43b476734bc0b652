package auth_test

import (
	"errors"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/skerrydb/skerry/auth"
	"github.com/skerrydb/skerry/ci/eventually"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/embedded"
	"github.com/skerrydb/skerry/kv"
)

// openNode opens a node of a cluster on a port of its own.
func openNode(t *testing.T, l net.Listener, dir string, tick time.Duration, join ...string) *world {
	t.Helper()
	db, err := embedded.Open(dir, embedded.Options{
		Logger: slog.New(slog.DiscardHandler), Cluster: embedded.ClusterOptions{Listener: l, Join: join, Tick: tick},
	})
	must(t, "open a node", err)
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Errorf("close a node: %v", err)
		}
	})
	store, err := kv.New(db, kv.Options{})
	must(t, "open the store", err)
	w := &world{t: t, eng: db, store: store}
	w.Auth = w.again(auth.Options{})
	return w
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, "listen", err)
	return l
}

// TestFollower: a node that does not lead reads, and refuses writes as such,
// before it has hashed anything.
func TestFollower(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	quiet := embedded.Options{Logger: slog.New(slog.DiscardHandler)}
	l1, dir1, l2, dir2 := listen(t), t.TempDir(), listen(t), t.TempDir()
	id, _, err := embedded.InitCluster(ctx, dir1, l1.Addr().String(), quiet)
	must(t, "make a cluster", err)
	leader := openNode(t, l1, dir1, 0)
	// All of the leader's writes are done before another node could become the leader.
	_, err = leader.eng.(engine.Clustered).Cluster().AwaitLeader(ctx)
	must(t, "wait for a leader", err)
	ann, err := leader.Create(ctx, "ann@example.com", good, true)
	must(t, "create", err)
	key, _, err := leader.CreateKey(ctx, ann.ID, "", []string{"*"}, time.Time{})
	must(t, "create a key", err)
	phone, err := leader.OpenDevice(ctx, ann, "phone")
	must(t, "log a device in", err)
	msg, err := leader.RequestReset(ctx, "ann@example.com", "")
	must(t, "request a reset", err)
	pos, err := leader.eng.View(ctx, engine.Read{}, func(engine.Tx) error { return nil })
	must(t, "read", err)

	invitation, err := id.Invite()
	must(t, "invite", err)
	_, err = embedded.Accept(dir2, invitation, quiet)
	must(t, "accept", err)
	// So slow a clock that it does not stand for election while the machine is busy.
	follower := openNode(t, l2, dir2, 300*time.Millisecond, l1.Addr().String())
	r := engine.Read{Level: engine.Session, AtLeast: pos}
	eventually.True(t, "the follower knows the key", func() bool {
		u, _, err := follower.CheckKey(ctx, r, key)
		return err == nil && u.ID == ann.ID
	})
	if u, err := follower.Find(ctx, r, "ann@example.com"); err != nil || u.ID != ann.ID {
		t.Errorf("find: %+v %v", u, err)
	}
	if u, d, err := follower.CheckAccess(ctx, r, phone.Access); err != nil || u.ID != ann.ID || d.ID != phone.Device.ID {
		t.Errorf("the access token: %+v %+v %v", u, d, err)
	}
	for what, fn := range map[string]func() error{
		"OpenDevice":    func() error { _, err := follower.OpenDevice(ctx, ann, "phone"); return err },
		"Refresh":       func() error { _, _, err := follower.Refresh(ctx, phone.Refresh); return err },
		"RevokeDevice":  func() error { return follower.RevokeDevice(ctx, ann.ID, phone.Device.ID) },
		"Register":      func() error { _, err := follower.Register(ctx, "bob@example.com", good, "192.0.2.1"); return err },
		"Login":         func() error { _, err := follower.Login(ctx, "ann@example.com", good, "192.0.2.1"); return err },
		"RequestReset":  func() error { _, err := follower.RequestReset(ctx, "ann@example.com", ""); return err },
		"ChangePass":    func() error { _, err := follower.ChangePassword(ctx, ann.ID, good, "a new password"); return err },
		"LoginIdentity": func() error { _, err := follower.LoginIdentity(ctx, identity("1", "", false)); return err },
		"LoginTOTP":     func() error { _, err := follower.LoginTOTP(ctx, msg.Token, "123456"); return err },
		"EnrolTOTP":     func() error { _, err := follower.EnrolTOTP(ctx, ann.ID); return err },
		"RevokeKey":     func() error { return follower.RevokeKey(ctx, ann.ID, strings.Split(key, "_")[1]) },
		"Delete":        func() error { return follower.Delete(ctx, ann.ID) },
	} {
		if err := fn(); !errors.Is(err, engine.ErrNotLeader) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if n := follower.Hashes(); n != 0 {
		t.Errorf("the follower computed %d hashes", n)
	}
}

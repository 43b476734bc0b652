package client_test

import (
	"context"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/skerrydb/skerry"
	"github.com/skerrydb/skerry/ci/eventually"
	"github.com/skerrydb/skerry/ci/ports"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/embedded"
	"github.com/skerrydb/skerry/proc"
)

// member is one of the nodes of a real cluster in this process.
type member struct {
	db   *embedded.DB
	addr string // for clients
	stop func() // stops its faces and then the node; may be called more than once
}

// listen returns a listener on loopback.
func listen(tb testing.TB) net.Listener {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	return l
}

// startCluster starts three nodes, all of which vote.
func startCluster(tb testing.TB) []*member {
	tb.Helper()
	ctx, cancel := context.WithTimeout(background, patience)
	defer cancel()
	quiet := slog.New(slog.DiscardHandler)
	var list []*member
	var first string
	for i := range 3 {
		dir, l := tb.TempDir(), listen(tb)
		o := embedded.Options{Logger: quiet, Cluster: embedded.ClusterOptions{Listener: l}}
		if i == 0 {
			first = dir
			if _, _, err := embedded.InitCluster(ctx, dir, l.Addr().String(), o); err != nil {
				tb.Fatal(err)
			}
		} else {
			text, err := embedded.Invite(first)
			if err != nil {
				tb.Fatal(err)
			}
			if _, err := embedded.Accept(dir, text, o); err != nil {
				tb.Fatal(err)
			}
			st := list[0].db.Cluster().State()
			n, _ := st.Node(st.Self)
			o.Cluster.Join = []string{n.Addr}
		}
		db, err := embedded.Open(dir, o)
		if err != nil {
			tb.Fatal(err)
		}
		list = append(list, startMember(tb, db, skerry.Options{}))
	}
	eventually.True(tb, "three nodes vote and are known to each other", func() bool {
		for _, m := range list {
			st := m.db.Cluster().State()
			if len(st.Nodes) != 3 || st.Leader == 0 {
				return false
			}
			for _, n := range st.Nodes {
				if n.RESP == "" || !n.Voter {
					return false
				}
			}
		}
		return true
	})
	return list
}

// startMember serves clients of db.
func startMember(tb testing.TB, db *embedded.DB, o skerry.Options) *member {
	tb.Helper()
	o.HTTP, o.RESP = skerry.Off, ports.Addr(tb)
	o.Procedures = procedures()
	o.Grace = time.Second
	s, err := skerry.Open(db, o)
	if err != nil {
		db.Close()
		tb.Fatal(err)
	}
	ctx, cancel := context.WithCancel(background)
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	_, addr, _ := strings.Cut(s.RESPURL(), "://")
	m := &member{db: db, addr: addr}
	stopped := false
	m.stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-ended; err != nil {
			tb.Errorf("the server ended with %v", err)
		}
		db.Close()
	}
	tb.Cleanup(m.stop)
	return m
}

// startServer runs Skerry without a cluster, and returns its address.
func startServer(tb testing.TB, o skerry.Options) string {
	tb.Helper()
	db, err := embedded.Open(tb.TempDir(), embedded.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		tb.Fatal(err)
	}
	return startMember(tb, db, o).addr
}

// leader returns the index in list of the leader.
func leader(tb testing.TB, list []*member) int {
	tb.Helper()
	at := -1
	eventually.True(tb, "somebody leads", func() bool {
		for i, m := range list {
			if st := m.db.Cluster().State(); st.Leader != 0 && st.Leader == st.Self {
				at = i
				return true
			}
		}
		return false
	})
	return at
}

// addIn and addOut are the argument and the result of the procedure add.
type addIn struct {
	Key string `json:"key"`
	N   int64  `json:"n"`
}

type addOut struct {
	Total int64     `json:"total"`
	Key   string    `json:"key"`
	At    time.Time `json:"at"`
	Tags  []string  `json:"tags"`
	Prev  *int64    `json:"prev"`
}

// procedures returns the procedures of the servers under test.
func procedures() []proc.Procedure {
	add := proc.Define("add", func(tx *proc.Tx, in addIn) (addOut, error) {
		n, err := tx.KV(0).Add([]byte(in.Key), in.N)
		return addOut{Total: n, Key: in.Key, At: tx.Now(), Tags: []string{"a", "b"}}, err
	})
	fail := proc.Define("fail", func(_ *proc.Tx, in struct{ Code string }) (string, error) {
		return "", engine.Errorf(engine.Code(in.Code), "as you like")
	})
	echo := proc.DefineRead("echo", func(_ *proc.Tx, in struct {
		Text string `json:"text"`
	}) (string, error) {
		return in.Text, nil
	})
	return []proc.Procedure{add, fail, echo}
}

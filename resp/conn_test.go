package resp

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/embedded"
	"github.com/skerrydb/skerry/resp/wire"
)

// deposed is an engine that is not the leader.
type deposed struct{ *embedded.DB }

// UpdateEach implements engine.Engine.
func (deposed) UpdateEach(context.Context, int, func(engine.Tx, int) error) (engine.Position, error) {
	return 0, engine.ErrNotLeader
}

// finishing is a connection of c whose server stops just when the drain begins to read.
// Only expired deadlines have an effect, so that nothing else ends it first.
type finishing struct {
	net.Conn
	c    *conn
	once sync.Once
}

// Read implements net.Conn.
func (f *finishing) Read(p []byte) (int, error) {
	f.c.mu.Lock()
	draining := f.c.draining
	f.c.mu.Unlock()
	if draining {
		f.once.Do(f.c.finish)
	}
	return f.Conn.Read(p)
}

// SetReadDeadline implements net.Conn.
func (f *finishing) SetReadDeadline(t time.Time) error {
	if t.After(time.Now()) {
		return nil
	}
	return f.Conn.SetReadDeadline(t)
}

// TestFinishInDrain checks that a server that stops does not interrupt the closing of a
// connection that has begun. The other node, which has learned that this one is not the
// leader, is still sending, and would lose the last reply.
func TestFinishInDrain(t *testing.T) {
	srv := newTestServer(t, deposed{openEngine(t)}, nil, Options{})
	ours, theirs := net.Pipe()
	f := &finishing{Conn: ours}
	f.c = srv.newNodeConn(f)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		f.c.serve()
	}()
	theirs.SetDeadline(time.Now().Add(time.Minute))
	if _, err := theirs.Write([]byte("SET k 1\r\n")); err != nil {
		t.Fatal(err)
	}
	rd := wire.NewReplies(theirs, &srv.bufs, 0)
	defer rd.Release()
	if v, err := rd.Read(); err != nil || string(v.Str) != "CLUSTERDOWN "+engine.ErrNotLeader.Error() {
		t.Fatalf("a write where no leader is: %q, %v", v.Str, err)
	}
	for range 3 { // each is sent when the previous one was read
		if _, err := theirs.Write([]byte("SET k 2\r\n")); err != nil {
			t.Errorf("what was still being sent: %v", err)
		}
	}
	theirs.Close()
	<-ended
	if !f.c.ending.Load() {
		t.Error("the server did not stop while the connection ended")
	}
}

package resp

import (
	"context"
	"errors"
	"net"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/resp/wire"
)

const (
	// MaxConsoles bounds the consoles that are open at once, besides the clients. One whose
	// context has ended counts until its last command has.
	MaxConsoles = 8
	// MaxConsoleReply bounds one reply to a console, in bytes.
	MaxConsoleReply = 8 << 20
)

// ConsoleOptions says what a console may do.
type ConsoleOptions struct {
	Database int  // that is selected, below MaxDatabases whatever Options.Databases is
	Changes  bool // whether commands with EffectChanges may run
}

// Console is a connection that a program opens to its own server, for operators who try
// commands. Commands run as those of clients do. It has all rights without a password,
// speaks RESP3, and runs no command with EffectHolds. It is not safe for concurrent use.
type Console struct {
	srv     *Server
	ctx     context.Context
	changes bool
	nc      net.Conn
	rd      *wire.Replies
	stop    func() bool // ends the watch of ctx
}

// OpenConsole opens a console that works until ctx ends. The server needs no listener. If
// MaxConsoles are open, the error is engine.CodeQueueFull.
func (s *Server) OpenConsole(ctx context.Context, o ConsoleOptions) (*Console, error) {
	if o.Database < 0 || o.Database >= MaxDatabases {
		return nil, engine.Errorf(engine.CodeInvalid, "there is no database %d; the last one is %d", o.Database, MaxDatabases-1)
	}
	if err := s.addConsole(); err != nil {
		return nil, err
	}
	near, far := net.Pipe()
	c := s.newConn(far, fromConsole)
	if c == nil {
		s.removeConsole()
		near.Close()
		return nil, engine.Errorf(engine.CodeClosed, "resp: the server is closed")
	}
	c.db, c.out.RESP3, c.pre.RESP3 = uint8(o.Database), true, true
	c.cl.stays = true // a person does not follow MOVED
	c.show()
	go func() {
		defer s.removeConsole()
		c.serve()
	}()
	stop := context.AfterFunc(ctx, func() { near.Close() })
	return &Console{srv: s, ctx: ctx, changes: o.Changes, nc: near, rd: wire.NewReplies(near, &s.bufs, MaxConsoleReply), stop: stop}, nil
}

func (s *Server) addConsole() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.consoles >= MaxConsoles {
		return engine.Errorf(engine.CodeQueueFull, "%d consoles are open already, as many as may be; try again in a moment", MaxConsoles)
	}
	s.consoles++
	return nil
}

func (s *Server) removeConsole() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.consoles--
}

// Do runs one command and returns its reply, which may be an error of the command; it is
// valid until the next Do or Close. A command that may not run here, or does not exist, is
// an error of Do. After another error the console is useless.
func (k *Console) Do(words ...string) (wire.Value, error) {
	e, err := k.srv.Explain(words...)
	if err != nil {
		return wire.Value{}, err
	}
	if err := e.Allowed(k.changes); err != nil {
		return wire.Value{}, err
	}
	if err := k.ctx.Err(); err != nil {
		return wire.Value{}, err
	}
	if _, err := k.nc.Write(wire.AppendCommandStrings(nil, words...)); err != nil {
		return wire.Value{}, k.lost(err)
	}
	for {
		v, err := k.rd.Read()
		if err != nil {
			return v, k.lost(err)
		}
		if v.Kind != wire.KindPush {
			return v, nil
		}
	}
}

// lost returns the reason why the connection was lost.
func (k *Console) lost(err error) error {
	if p, ok := errors.AsType[*wire.ProtocolError](err); ok {
		return engine.Errorf(engine.CodeLimit, "the reply is over the limit of %d bytes (%s)", MaxConsoleReply, p.Text)
	}
	if err := k.ctx.Err(); err != nil {
		return err
	}
	return engine.Errorf(engine.CodeClosed, "the server has closed the connection")
}

// Close closes the console.
func (k *Console) Close() {
	k.stop()
	k.nc.Close()
	k.rd.Release()
}

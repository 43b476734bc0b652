package resp

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"strconv"
	"time"

	"github.com/skerrydb/skerry/decimal"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/kv"
	"github.com/skerrydb/skerry/resp/wire"
)

// migration is one MIGRATE: it copies keys to another server and then deletes them here.
type migration struct {
	host, port    string
	keys          [][]byte
	db            int64
	timeout       time.Duration
	copy, replace bool
	auth          [][]byte // arguments of AUTH, if any

	entries []movedEntry
	asOf    time.Time // the store's time when they were read
	readAt  time.Time // this machine's clock at that time
}

type movedEntry struct {
	key, val []byte
	rev      kv.Revision
	expires  time.Time
	sent     bool // the other server has it
}

func (m *migration) parse(args [][]byte) error {
	m.host, m.port = string(args[1]), string(args[2])
	m.keys = args[3:4]
	for i := 6; i < len(args); i++ {
		more := len(args) - 1 - i
		switch {
		case wordIs(args[i], "COPY"):
			m.copy = true
		case wordIs(args[i], "REPLACE"):
			m.replace = true
		case wordIs(args[i], "AUTH") && more >= 1:
			m.auth = args[i+1 : i+2]
			i++
		case wordIs(args[i], "AUTH2") && more >= 2:
			m.auth = args[i+1 : i+3]
			i += 2
		case wordIs(args[i], "KEYS"):
			if len(args[3]) > 0 {
				return replyError("ERR When using MIGRATE KEYS option, the key argument must be set to the empty string")
			}
			m.keys = args[i+1:]
			i = len(args)
		default:
			return errSyntax
		}
	}
	ms, ok := decimal.Parse(args[5])
	db, ok2 := decimal.Parse(args[4])
	if !ok || !ok2 {
		return errNotInteger
	}
	if ms <= 0 || ms > int64(time.Hour/time.Millisecond) {
		ms = 1000
	}
	m.db, m.timeout = db, time.Duration(ms)*time.Millisecond
	return nil
}

func migrateCmd(x *call) error {
	if cl := x.srv.opts.Cluster; cl != nil && x.conn.cl.node {
		if st := cl.State(); st.Leader != st.Self {
			return engine.ErrNotLeader // before anything is copied
		}
	}
	var m migration
	if err := m.parse(x.args); err != nil {
		return err
	}
	_, err := x.srv.store.View(context.Background(), engine.Read{}, x.db, m.read)
	if err != nil {
		return err
	}
	if len(m.entries) == 0 {
		x.out.Simple("NOKEY")
		return nil
	}
	sendErr := m.send(&x.srv.bufs, x.srv)
	if !m.copy {
		if err := m.remove(x.srv.store, x.db); err != nil {
			return err
		}
	}
	if sendErr != nil {
		return sendErr
	}
	x.out.OK()
	return nil
}

func (m *migration) read(t *kv.Tx) error {
	m.entries, m.asOf, m.readAt = m.entries[:0], t.AsOf(), time.Now()
	for _, key := range m.keys {
		e, ok, err := t.Get(key)
		if err != nil {
			return err
		}
		if ok {
			m.entries = append(m.entries, movedEntry{bytes.Clone(key), bytes.Clone(e.Val), e.Rev, e.Expires, false})
		}
	}
	return nil
}

// remove deletes the keys that the other server has received. A key that was changed in the
// meantime stays here with its new value.
func (m *migration) remove(store *kv.Store, db uint8) error {
	changed := false
	_, err := store.Update(context.Background(), db, func(t *kv.Tx) error {
		changed = false
		for _, e := range m.entries {
			if !e.sent {
				continue
			}
			_, err := t.DeleteIf(e.key, e.rev)
			if errors.Is(err, engine.ErrPreconditionFailed) {
				changed, err = true, nil
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	if engine.CodeOf(err) == engine.CodeNotLeader {
		return engine.Errorf(engine.CodeOutcomeUnknown, "the keys were copied but not deleted here, because this node is no longer the leader")
	}
	if err == nil && changed {
		return engine.Errorf(engine.CodePreconditionFailed, "a key changed while it was copied: the old value was copied, and the new one was kept here")
	}
	return err
}

// send copies the entries and records which of them have arrived.
func (m *migration) send(bufs *wire.Buffers, s *Server) error {
	nc, err := net.DialTimeout("tcp", net.JoinHostPort(m.host, m.port), m.timeout)
	if err != nil {
		return replyError("IOERR error or timeout connecting to the client")
	}
	defer nc.Close()
	var b []byte
	replies := 1
	if m.auth != nil {
		b = wire.AppendCommand(b, append([][]byte{[]byte("AUTH")}, m.auth...)...)
		replies++
	}
	b = wire.AppendCommandStrings(b, "SELECT", strconv.FormatInt(m.db, 10))
	rd := wire.NewReplies(nc, bufs, 0)
	defer rd.Release()
	if err := m.exchange(nc, rd, b, replies, nil); err != nil {
		return err
	}
	for i := range m.entries {
		e := &m.entries[i]
		ttl := int64(0)
		if !e.expires.IsZero() {
			ttl = max(1, (e.expires.Sub(m.asOf) - time.Since(m.readAt)).Milliseconds())
		}
		args := [][]byte{[]byte("RESTORE"), e.key, strconv.AppendInt(nil, ttl, 10), s.packer.appendDump(nil, s.crc, e.val)}
		if m.replace {
			args = append(args, []byte("REPLACE"))
		}
		if err := m.exchange(nc, rd, wire.AppendCommand(nil, args...), 1, &e.sent); err != nil {
			return err
		}
	}
	return nil
}

// exchange sends b and reads n replies, none of which may be an error.
func (m *migration) exchange(nc net.Conn, rd *wire.Replies, b []byte, n int, ok *bool) error {
	nc.SetDeadline(time.Now().Add(m.timeout))
	if _, err := nc.Write(b); err != nil {
		return replyError("IOERR error or timeout writing to target instance")
	}
	for range n {
		v, err := rd.Read()
		if err != nil {
			return replyError("IOERR error or timeout reading from target instance")
		}
		if v.IsError() {
			return replyError("ERR Target instance replied with error: " + string(v.Str))
		}
	}
	if ok != nil {
		*ok = true
	}
	return nil
}

func isTimeout(err error) bool { return errors.Is(err, os.ErrDeadlineExceeded) }

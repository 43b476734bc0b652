package postgres

import (
	"bytes"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/skerrydb/skerry/engine"
)

// settle finds out what became of a batch whose COMMIT was not answered. It returns nil if the
// batch was committed, cause if it was not, or ErrOutcomeUnknown if the server cannot be asked
// in time, which the calls have then been told.
func (b *batch) settle(id []byte, cause error) error {
	x := b.x
	old := x.session.backend
	x.disconnect()
	giveUp := time.Now().Add(x.d.o.Patience)
	for try := 1; ; try++ {
		committed, err := x.ask(b, id, old)
		x.disconnect() // connect does more than ask
		if err == nil {
			x.d.settled.Add(1)
			if !committed {
				return errors.Join(errNotCommitted, cause)
			}
			b.committed()
			return nil
		}
		if time.Now().After(giveUp) || !x.pause(try) {
			break
		}
	}
	x.d.unknown.Add(1)
	return engine.Errorf(engine.CodeOutcomeUnknown, "postgres: the connection was lost during a commit, and the server cannot be asked whether it succeeded: %w", cause)
}

var errNotCommitted = errors.New("the batch was not committed")

// ask looks for the batch in table change. The lock waits until the lost session has ended its
// transaction, which is ended if it does nothing. The COMMIT waits for synchronous standbys,
// because taking the lock is a write: then they have the lost batch too.
func (x *executor) ask(b *batch, id []byte, backend int32) (committed bool, err error) {
	ctx, cancel := x.d.within()
	defer cancel()
	if x.conn, err = x.d.connect(ctx); err != nil {
		return false, err
	}
	// Another server may have given that number to another process, perhaps not even of Skerry.
	if _, err := x.conn.Exec(ctx, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid = $1 AND usename = current_user
		AND application_name = current_setting('application_name') AND state LIKE 'idle in transaction%' AND pid <> pg_backend_pid()`, backend); err != nil {
		return false, err
	}
	var send pgx.Batch
	var found []byte
	send.Queue(beginSQL)
	send.Queue(x.d.sql.lock)
	send.Queue(x.d.rewrite("SELECT coalesce((SELECT batch FROM SCHEMA.change WHERE pos = $1), '')"), b.poss[0]).QueryRow(func(row pgx.Row) error {
		return row.Scan(&found)
	})
	send.Queue("COMMIT")
	if err := x.conn.SendBatch(ctx, &send).Close(); err != nil {
		return false, err
	}
	if err := synced(x.conn); err != nil {
		return false, err
	}
	return bytes.Equal(found, id), nil
}

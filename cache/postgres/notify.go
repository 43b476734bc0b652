package postgres

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/skerrydb/skerry/cache"
	"github.com/skerrydb/skerry/engine"
)

// NotifyOptions configure Notify. URL is required.
type NotifyOptions struct {
	URL     string
	Channel string        // of the notifications: lower-case letters, digits and _; "" is "skerry_cache"
	Every   time.Duration // how often the feed proves that it is not behind; 0 is 250 ms
	Logger  *slog.Logger  // nil discards
}

var channelForm = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,62}$`)

// Notify returns a Feed of notifications that triggers send, for servers that allow no replication slot; NotifySQL makes
// the triggers. Notifications cost writers much more than replication, as PostgreSQL lets only one transaction with
// notifications commit at a time. Whenever the connection is lost, the cache is emptied. Positions are LSNs; see
// Position.
func Notify(o NotifyOptions) (cache.Feed, error) {
	o.Channel = cmp.Or(o.Channel, "skerry_cache")
	if !channelForm.MatchString(o.Channel) {
		return nil, engine.Errorf(engine.CodeInvalid, "cache/postgres: the channel %q is not lower-case letters, digits and _", o.Channel)
	}
	if o.Every < 0 {
		return nil, engine.Errorf(engine.CodeInvalid, "cache/postgres: Every is negative")
	}
	if _, err := pgx.ParseConfig(o.URL); err != nil {
		return nil, engine.Errorf(engine.CodeInvalid, "cache/postgres: the URL is malformed")
	}
	o.Every = cmp.Or(o.Every, defaultEvery)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	return &notify{o}, nil
}

// A payload begins with a letter that says what it is; the rest is a key or a token.
const (
	payloadKey      = "k"
	payloadAll      = "a"
	payloadSentinel = "s"
)

// maxPayload is the longest payload that the triggers send, in bytes; the limit of PostgreSQL is 7,999.
const maxPayload = 7900

// MaxNotifiedRows is how many rows of one transaction are notified one by one; with more, the cache is emptied.
const MaxNotifiedRows = 1000

// NotifySQL returns the SQL that makes triggers on a table. They notify channel ("" is "skerry_cache") of the entry whose
// key an SQL expression makes of a row: "new" stands for the row, for example new.dept_id::text. TRUNCATE empties the
// cache.
func NotifySQL(table, channel, key string) string {
	channel = cmp.Or(channel, "skerry_cache")
	name := "skerry_" + channel + "_" + strings.NewReplacer(".", "_", `"`, "").Replace(table)
	send := func(row string) string {
		expr := regexp.MustCompile(`\bnew\b`).ReplaceAllString(key, row)
		return fmt.Sprintf("payload := 'k' || (%s);\n\tperform pg_notify('%s', case when payload is null or octet_length(payload) > %d then 'a' else payload end);", expr, channel, maxPayload)
	}
	return fmt.Sprintf(`create or replace function %[1]s() returns trigger language plpgsql as $skerry$
declare payload text;
	rows int := coalesce(nullif(current_setting('skerry_cache.rows', true), ''), '0')::int + 1;
begin
	perform set_config('skerry_cache.rows', rows::text, true);
	if tg_op = 'TRUNCATE' or rows > %[8]d then
		perform pg_notify('%[3]s', 'a');
		return null;
	end if;
	if tg_op <> 'INSERT' then
		%[4]s
	end if;
	if tg_op <> 'DELETE' then
		%[5]s
	end if;
	return null;
end $skerry$;
create or replace trigger %[6]s after insert or update or delete on %[2]s for each row execute function %[1]s();
create or replace trigger %[7]s after truncate on %[2]s for each statement execute function %[1]s();
`, quoted(name), quoted(table), channel, send("old"), send("new"), quoted(name+"_rows"), quoted(name+"_all"), MaxNotifiedRows)
}

type notify struct{ o NotifyOptions }

// notification is what one notification says, or why no more come.
type notification struct {
	payload string
	err     error
}

// Run implements cache.Feed.
func (f *notify) Run(ctx context.Context, sink cache.Sink) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	listener, err := connect(ctx, f.o.URL)
	if err != nil {
		return fmt.Errorf("connect to PostgreSQL: %w", err)
	}
	defer closeSoon(listener.Close)
	db, err := connect(ctx, f.o.URL)
	if err != nil {
		return fmt.Errorf("connect to PostgreSQL: %w", err)
	}
	defer closeSoon(db.Close)
	if _, err := listener.Exec(ctx, "listen "+quoted(f.o.Channel)); err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	_, pos, err := f.ask(ctx, db)
	if err != nil {
		return cause(ctx, err)
	}
	sink.Begin("notify "+rand.Text(), pos, false)
	heard := make(chan notification, 1024)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		f.listen(ctx, listener, heard)
	}()
	defer func() { cancel(); <-ended }()
	return cause(ctx, f.follow(ctx, db, sink, heard))
}

// listen passes on notifications.
func (f *notify) listen(ctx context.Context, c *pgx.Conn, to chan<- notification) {
	for {
		n, err := c.WaitForNotification(ctx)
		next := notification{err: err}
		if err == nil {
			next.payload = n.Payload
		}
		select {
		case to <- next:
		case <-ctx.Done():
			return
		}
		if err != nil {
			return
		}
	}
}

// ask notes the time and asks for an LSN that is after everything that is visible.
func (f *notify) ask(ctx context.Context, db *pgx.Conn) (at time.Time, pos cache.Position, err error) {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	at = time.Now()
	var lsn string
	if err := db.QueryRow(ctx, "select pg_current_wal_insert_lsn()::text").Scan(&lsn); err != nil {
		return at, 0, fmt.Errorf("ask for the newest position: %w", err)
	}
	pos, err = parseLSN(lsn)
	return at, pos, err
}

// follow reports notifications. PostgreSQL delivers them in the order of commits, each once its transaction is visible.
// So when a sentinel that was sent after a question comes back, everything that was visible at the question has been
// delivered.
func (f *notify) follow(ctx context.Context, db *pgx.Conn, sink cache.Sink, heard <-chan notification) error {
	tick := time.NewTicker(f.o.Every)
	defer tick.Stop()
	var token string // of the sentinel that is under way
	var asked question
	for {
		select {
		case n := <-heard:
			if n.err != nil {
				return fmt.Errorf("wait for notifications: %w", n.err)
			}
			kind, rest := payloadAll, ""
			if n.payload != "" {
				kind, rest = n.payload[:1], n.payload[1:]
			}
			switch kind {
			case payloadKey:
				sink.Changed(rest)
			case payloadSentinel:
				if rest == token && token != "" {
					sink.Reached(asked.lsn, asked.at)
					token = ""
				}
			default:
				sink.ChangedAll("a notification says so")
			}
		case <-tick.C:
			if token != "" {
				if time.Since(asked.at) > answerWithin {
					return fmt.Errorf("wait for notifications: %w", errSilent)
				}
				continue
			}
			var err error
			if asked.at, asked.lsn, err = f.ask(ctx, db); err != nil {
				return err
			}
			token = rand.Text()
			within, cancel := context.WithTimeout(ctx, answerWithin)
			_, err = db.Exec(within, "select pg_notify($1, $2)", f.o.Channel, payloadSentinel+token)
			cancel()
			if err != nil {
				return errors.Join(errors.New("send a sentinel"), err)
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"slices"
	"strconv"

	"github.com/skerrydb/skerry/bench/records/item"
	"github.com/skerrydb/skerry/bench/rig"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/embedded"
	"github.com/skerrydb/skerry/engine/postgres"
	"github.com/skerrydb/skerry/engine/postgres/tables"
	"github.com/skerrydb/skerry/engine/redis"
	"github.com/skerrydb/skerry/examples/voter"
	"github.com/skerrydb/skerry/kv"
	"github.com/skerrydb/skerry/proc"
	"github.com/skerrydb/skerry/record"
	"github.com/skerrydb/skerry/record/keys"
	"github.com/skerrydb/skerry/session"
)

// place opens an engine on a database below dir, which it starts if the engine needs one. stop ends it.
type place func(ctx context.Context, dir string) (eng engine.Engine, pids []int, stop func() error, err error)

// skerrySystems returns Skerry on each of its engines.
func skerrySystems() []*system {
	on := func(name, about string, at place) *system {
		return &system{name: name, about: about, open: func(ctx context.Context, p *plan, dir string, fill bool) (*side, error) {
			return openSkerry(ctx, p, dir, fill, at)
		}}
	}
	return []*system{
		on("embedded", "Skerry on the embedded engine, in this process", onEmbedded),
		on("postgres", "Skerry on PostgreSQL, records in tables", onPostgres),
		on("redis", "Skerry on one primary of Redis", onRedis),
	}
}

var quiet = slog.New(slog.DiscardHandler)

func nothing() error { return nil }

func onEmbedded(_ context.Context, dir string) (engine.Engine, []int, func() error, error) {
	db, err := embedded.Open(dir, embedded.Options{Logger: quiet})
	return db, nil, nothing, err
}

func onPostgres(ctx context.Context, dir string) (engine.Engine, []int, func() error, error) {
	server, addr, stop, err := startPostgres(dir)
	if err != nil {
		return nil, nil, nil, err
	}
	u, err := url.Parse(rig.PostgresURL(addr))
	if err != nil {
		return nil, nil, nil, errors.Join(err, stop())
	}
	own := tables.New(postgres.DefaultSchema)
	db, err := postgres.Open(ctx, u, postgres.Options{Logger: quiet, Attached: keys.Native{Driver: own, Create: true}, Setup: own.Setup()})
	return db, []int{server.PID()}, stop, err
}

func onRedis(ctx context.Context, dir string) (engine.Engine, []int, func() error, error) {
	server, addr, stop, err := startRedis(dir)
	if err != nil {
		return nil, nil, nil, err
	}
	eng, err := redis.Open(ctx, &url.URL{Scheme: "redis", Host: addr}, redis.Options{Logger: quiet})
	return eng, []int{server.PID()}, stop, err
}

// bench is the capabilities of one engine.
type bench struct {
	p        *plan
	kv       *kv.Store
	procs    *proc.Set
	sessions *session.Store
	records  *record.DB
	tokens   []string
}

func openSkerry(ctx context.Context, p *plan, dir string, fill bool, at place) (*side, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	eng, pids, stop, err := at(ctx, dir)
	if err != nil {
		return nil, err
	}
	end := func() error { return errors.Join(eng.Close(), stop()) }
	b := &bench{p: p}
	if b.kv, err = kv.New(eng, kv.Options{}); err == nil {
		b.procs, err = proc.New(eng, proc.Options{}, voter.Procedures()...)
	}
	if err == nil {
		b.sessions, err = session.New(b.kv, session.Options{Namespace: "bench"})
	}
	if err == nil {
		if b.records, err = record.Open(eng, record.Options{}); err == nil {
			err = b.records.Define(item.Describe())
		}
	}
	if err == nil && fill {
		err = b.fill(ctx)
	}
	if err == nil {
		err = b.open(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, end())
	}
	return &side{ops: b.ops(), pids: pids, close: end}, nil
}

// fillBatch is how many keys or records one transaction loads.
const fillBatch = 500

// fill loads the keys, the records and the vote.
func (b *bench) fill(ctx context.Context) error {
	for from := 0; from < b.p.keys; from += fillBatch {
		if _, err := b.kv.UpdateEach(ctx, min(fillBatch, b.p.keys-from), func(t *kv.Tx, i int) error {
			_, err := t.Set(key(int64(from+i)), value(int64(from+i)), kv.SetOptions{})
			return err
		}); err != nil {
			return err
		}
	}
	for from := 0; from < b.p.records; from += fillBatch {
		if _, err := b.records.Update(ctx, record.Program(), func(tx *record.Tx) error {
			for n := from; n < min(from+fillBatch, b.p.records); n++ {
				if _, err := tx.Create(item.Collection, string(item.AppendID(nil, int64(n))), item.AppendJSON(nil, int64(n))); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			return err
		}
	}
	_, _, err := voter.Initialize.Call(ctx, b.procs, voter.InitializeIn{Contestants: voter.MaxContestants})
	return err
}

// text is what each session has.
var text = session.NewKey[string]("text")

// sessionText is as long as the values of keys.
var sessionText = string(value(0))

// sessions that the callers use; more would only take longer to make.
const sessions = 1000

// open makes the sessions of this round.
func (b *bench) open(ctx context.Context) error {
	for i := range sessions {
		s := b.sessions.New()
		s.Login(strconv.Itoa(i))
		if err := text.Set(s, sessionText); err != nil {
			return err
		}
		token, _, err := s.Save(ctx)
		if err != nil {
			return err
		}
		b.tokens = append(b.tokens, token)
	}
	return nil
}

// ops returns the operations by lane.
func (b *bench) ops() map[string]op {
	keys, records := int64(b.p.keys), int64(b.p.records)
	return map[string]op{
		"get": func(ctx context.Context, _ int, n int64) error {
			_, ok, _, err := b.kv.Get(ctx, engine.Read{}, 0, key(n%keys))
			return there(ok, err)
		},
		"set": func(ctx context.Context, _ int, n int64) error {
			_, _, err := b.kv.Set(ctx, 0, key(n%keys), value(n), kv.SetOptions{})
			return err
		},
		"vote": func(ctx context.Context, _ int, n int64) error {
			_, _, err := voter.Vote.Call(ctx, b.procs, voter.VoteIn{Phone: phone(n % keys), Contestant: contestant(n), MaxVotes: maxVotes})
			return err
		},
		"session load": func(ctx context.Context, caller int, n int64) error {
			s, err := b.sessions.Load(ctx, b.token(caller, n), engine.Read{})
			if err != nil {
				return err
			}
			_, ok, err := text.Get(s)
			return there(ok, err)
		},
		"session save": func(ctx context.Context, caller int, n int64) error {
			s, err := b.sessions.Load(ctx, b.token(caller, n), engine.Read{})
			if err == nil {
				err = text.Set(s, sessionText[:90]+strconv.FormatInt(n%1e9, 10))
			}
			if err == nil {
				_, _, err = s.Save(ctx)
			}
			return err
		},
		"record get": func(ctx context.Context, _ int, n int64) error {
			_, err := b.records.View(ctx, engine.Read{}, record.Program(), func(tx *record.Tx) error {
				_, err := tx.Get(item.Collection, string(item.AppendID(nil, n%records)))
				return err
			})
			return err
		},
		"record list": b.list,
		"record create": func(ctx context.Context, _ int, n int64) error {
			_, err := b.records.Update(ctx, record.Program(), func(tx *record.Tx) error {
				_, err := tx.Create(item.Collection, "", item.AppendJSON(nil, n))
				return err
			})
			return err
		},
		"record update": func(ctx context.Context, _ int, n int64) error {
			_, err := b.records.Update(ctx, record.Program(), func(tx *record.Tx) error {
				_, err := tx.Update(item.Collection, string(item.AppendID(nil, n%records)), item.AppendChange(nil, n), 0)
				return err
			})
			return err
		},
	}
}

// token returns the token of a session that no other caller uses: two requests of one session would be one conflict
// after the other.
func (b *bench) token(caller int, n int64) string {
	mine := sessions / maxCallers
	return b.tokens[caller*mine+int(n%int64(mine))]
}

// list reads the 20 newest records of one status.
func (b *bench) list(ctx context.Context, _ int, n int64) error {
	_, err := b.records.View(ctx, engine.Read{}, record.Program(), func(tx *record.Tx) error {
		q, err := tx.ParseQuery(item.Collection, url.Values{
			"filter": {"status = '" + string(item.AppendStatus(nil, n%item.Statuses)) + "'"}, "sort": {"-number"}, "limit": {strconv.Itoa(listed)},
		})
		if err != nil {
			return err
		}
		page, err := tx.Find(item.Collection, q)
		if err == nil && len(page.Items) == 0 {
			err = errors.New("an empty list")
		}
		return err
	})
	return err
}

// listed is how many records a list has.
const listed = 20

// maxVotes lets every phone vote as often as the benchmark wants.
const maxVotes = 1 << 40

func phone(n int64) int64 { return 200_000_0000 + n }

func contestant(n int64) int { return int(n/7%voter.MaxContestants) + 1 }

func key(n int64) []byte { return fmt.Appendf(nil, "key:%012d", n) }

// value returns about 100 bytes that differ with n.
func value(n int64) []byte {
	return append(slices.Repeat([]byte("."), 80), strconv.FormatInt(n&(1<<62-1)|1<<62, 10)...)
}

// there turns a missing value into an error.
func there(ok bool, err error) error {
	if err == nil && !ok {
		err = errors.New("a value that was written is missing")
	}
	return err
}

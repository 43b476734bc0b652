package skerry_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/skerrydb/skerry"
	"github.com/skerrydb/skerry/ci/cassandraserver"
	"github.com/skerrydb/skerry/ci/redisserver"
	"github.com/skerrydb/skerry/ci/seed"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/cassandra"
	"github.com/skerrydb/skerry/engine/enginetest"
	"github.com/skerrydb/skerry/engine/redis"
	"github.com/skerrydb/skerry/kv"
	"github.com/skerrydb/skerry/series"
	"github.com/skerrydb/skerry/session"
	"github.com/skerrydb/skerry/transfer"
)

// carrySource is an engine with random data that Cassandra can carry.
type carrySource struct {
	t      *testing.T
	eng    engine.Engine
	kv     *kv.Store
	series *series.DB
	rng    *rand.Rand
	keys   map[uint8][][]byte // by space; some have expired or are deleted
	token  string             // of a session of SCS
}

// carryCollections are those of the source.
func carryCollections() []series.Collection {
	return []series.Collection{{Name: "plant", Retention: 30 * 24 * time.Hour, Window: 365 * 24 * time.Hour}, {Name: "for-ever"}, {Name: "empty"}}
}

// openSeries opens the series of an engine.
func openSeries(t *testing.T, eng engine.Engine) *series.DB {
	t.Helper()
	db, err := series.New(eng, series.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range carryCollections() {
		if _, err := db.Use(c); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = db.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return db
}

func newCarrySource(t *testing.T) *carrySource {
	t.Helper()
	eng := openEngine(t)
	store, err := kv.New(eng, kv.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := &carrySource{t: t, eng: eng, kv: store, series: openSeries(t, eng), rng: rand.New(rand.NewPCG(seed.Of(t), 1)), keys: map[uint8][][]byte{}}
	s.fillKeys()
	s.fillSeries()
	return s
}

// fillKeys sets keys in several spaces: with and without tags, expiries and marks, empty and large.
func (s *carrySource) fillKeys() {
	s.t.Helper()
	for i := range 600 {
		space := []uint8{0, 1, 16, 127}[s.rng.IntN(4)]
		key := fmt.Appendf(nil, "k%d\x00\xff", i)
		if s.rng.IntN(2) == 0 {
			key = fmt.Appendf(nil, "{tag%d}%d", s.rng.IntN(5), i)
		}
		val := make([]byte, s.rng.IntN(200))
		if i%100 == 0 {
			val = make([]byte, 1<<20)
		}
		for j := range val {
			val[j] = byte(s.rng.Uint32())
		}
		o := kv.SetOptions{Mark: uint8(s.rng.IntN(2))}
		switch s.rng.IntN(4) {
		case 0:
			o.TTL = time.Duration(1+s.rng.IntN(1000)) * time.Hour
		case 1:
			o.TTL = time.Millisecond
		}
		s.keys[space] = append(s.keys[space], key)
		for range 1 + s.rng.IntN(2) {
			if _, _, err := s.kv.Set(s.t.Context(), space, key, val, o); err != nil {
				s.t.Fatal(err)
			}
		}
		if s.rng.IntN(10) == 0 {
			if _, _, err := s.kv.Delete(s.t.Context(), space, key, 0); err != nil {
				s.t.Fatal(err)
			}
		}
	}
	scs, err := session.NewSCS(s.kv, session.SCSOptions{Namespace: "app"})
	if err != nil {
		s.t.Fatal(err)
	}
	s.token = "token"
	if err := scs.Commit(s.token, []byte("values"), time.Now().Add(time.Hour)); err != nil {
		s.t.Fatal(err)
	}
}

// fillSeries appends samples of several days and ages, some twice.
func (s *carrySource) fillSeries() {
	s.t.Helper()
	now := time.Now()
	for _, name := range []string{"plant", "for-ever"} {
		c, err := s.series.Collection(name)
		if err != nil {
			s.t.Fatal(err)
		}
		var all []series.Labels
		for i := range 25 {
			l, err := series.NewLabels("temp", series.Label{Name: "line", Value: fmt.Sprintf("%d ü\"", i)})
			if err != nil {
				s.t.Fatal(err)
			}
			all = append(all, l)
		}
		ids, err := c.Define(s.t.Context(), all)
		if err != nil {
			s.t.Fatal(err)
		}
		for range 20 {
			var b series.Batch
			for range 200 {
				v := s.rng.NormFloat64()
				switch s.rng.IntN(20) {
				case 0:
					v = math.NaN()
				case 1:
					v = math.Inf(-1)
				case 2, 3, 4:
					v = float64(s.rng.IntN(100))
				}
				b.Add(ids[s.rng.IntN(20)], now.Add(-time.Duration(s.rng.IntN(60*24))*time.Hour).Truncate(time.Hour).UnixNano()+s.rng.Int64N(3), v)
			}
			if _, err := c.Append(s.t.Context(), &b); err != nil {
				s.t.Fatal(err)
			}
		}
	}
}

// openKeyspace opens a keyspace, which is created.
func openKeyspace(t *testing.T, host, name string) engine.Engine {
	t.Helper()
	eng, err := cassandra.Open(t.Context(), &url.URL{Scheme: cassandra.Scheme, Host: host, Path: "/" + name}, cassandra.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := eng.Close(); err != nil {
			t.Error(err)
		}
	})
	return eng
}

// same compares all that was carried, through the capabilities' own calls.
func (s *carrySource) same(to engine.Engine) {
	s.t.Helper()
	store, err := kv.New(to, kv.Options{})
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, live := s.t.Context(), 0
	for space, keys := range s.keys {
		for _, key := range keys {
			want, has, _, err := s.kv.Get(ctx, engine.Read{}, space, key)
			if err != nil {
				s.t.Fatal(err)
			}
			got, ok, _, err := store.Get(ctx, engine.Read{}, space, key)
			if err != nil {
				s.t.Fatal(err)
			}
			if has {
				live++
			}
			if ok != has || got.Rev != want.Rev || got.Mark != want.Mark || !got.Expires.Equal(want.Expires) || !bytes.Equal(got.Val, want.Val) {
				s.t.Errorf("%q of space %d: %v revision %d, %d bytes until %v, want %v revision %d, %d bytes until %v", key, space, ok, got.Rev, len(got.Val), got.Expires, has, want.Rev, len(want.Val), want.Expires)
			}
		}
	}
	if live < 200 {
		s.t.Errorf("only %d keys are left to compare", live)
	}
	scs, err := session.NewSCS(store, session.SCSOptions{Namespace: "app"})
	if err != nil {
		s.t.Fatal(err)
	}
	if b, ok, err := scs.Find(s.token); err != nil || !ok || string(b) != "values" {
		s.t.Errorf("the session of SCS: %q %v %v", b, ok, err)
	}
	if _, ok := to.(engine.SampleStore); !ok {
		return
	}
	theirs := openSeries(s.t, to)
	from := time.Now().Add(-60 * 24 * time.Hour)
	for _, c := range carryCollections() {
		a, b := s.samples(s.series, c.Name, from), s.samples(theirs, c.Name, from)
		if len(b) == 0 && c.Name != "empty" {
			s.t.Errorf("no samples of %s", c.Name)
		}
		if !maps.EqualFunc(a, b, slices.Equal) {
			s.t.Errorf("the samples of %s differ: %d series, want %d", c.Name, len(b), len(a))
		}
	}
}

// samples returns the samples of all series of a collection, with the bits of values, by labels. Series without any
// have an empty list.
func (s *carrySource) samples(db *series.DB, name string, from time.Time) map[string][]int64 {
	s.t.Helper()
	c, err := db.Collection(name)
	if err != nil {
		s.t.Fatal(err)
	}
	all := map[string][]int64{}
	labels, err := c.Find(s.t.Context(), nil, engine.Read{}, 0)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, l := range labels {
		all[l.String()] = nil
	}
	// Those that expire within minutes differ by when they are read.
	if at := time.Now().Add(20*time.Minute - 30*24*time.Hour); name == "plant" && from.Before(at) {
		from = at
	}
	list, err := c.Select(s.t.Context(), series.Query{From: from})
	if err != nil {
		s.t.Fatal(err)
	}
	for _, x := range list {
		for i, at := range x.Times {
			all[x.Labels.String()] = append(all[x.Labels.String()], at, int64(math.Float64bits(x.Values[i])))
		}
	}
	return all
}

func (s *carrySource) carry(ctx context.Context, to engine.Engine, o skerry.CarryOptions) (transfer.CarryResult, error) {
	o.From, o.To = "source", "target"
	if o.Series == nil {
		o.Series = carryCollections()
	}
	return skerry.Carry(ctx, transfer.Of(s.eng), to, o)
}

// TestCarryToCassandra moves random keys and samples, is interrupted again and again, and compares them.
func TestCarryToCassandra(t *testing.T) {
	t.Parallel()
	host := cassandraserver.Start(t).Addr()
	s := newCarrySource(t)
	to := openKeyspace(t, host, "skerry")
	var res transfer.CarryResult
	stops := 0
	for {
		ctx, stop := context.WithCancel(t.Context())
		steps := 1 + s.rng.IntN(4)
		var o skerry.CarryOptions
		if stops < 8 {
			o.Report = func(transfer.Progress) {
				if steps--; steps == 0 {
					stop()
				}
			}
		}
		var err error
		res, err = s.carry(ctx, to, o)
		stop()
		if err == nil {
			break
		}
		if stops++; !errors.Is(err, context.Canceled) || stops > 20 {
			t.Fatal(err)
		}
		if _, err := skerry.Open(to, skerry.Options{RESP: skerry.Off}); engine.CodeOf(err) != engine.CodeFenced {
			t.Errorf("a server on an unfinished target: %v", err)
		}
		if _, _, err := s.kv.Set(t.Context(), 0, []byte("late"), nil, kv.SetOptions{}); engine.CodeOf(err) != engine.CodeFenced {
			t.Errorf("a write to the source: %v", err)
		}
	}
	if stops == 0 {
		t.Error("it was never interrupted")
	}
	t.Logf("%+v after %d interruptions", res, stops)
	s.same(to)
	server, _, _ := start(t, to, skerry.Options{RESP: skerry.Off, HTTP: "127.0.0.1:0", Series: carryCollections()})
	if code, text := request(t, "PUT", server.HTTPURL()+"/db/late", strings.NewReader("1")); code >= 400 {
		t.Errorf("a write to the target: %d %s", code, text)
	}
	if _, err := s.carry(t.Context(), to, skerry.CarryOptions{}); err == nil || !strings.Contains(err.Error(), "not empty") {
		t.Errorf("a second move: %v", err)
	}
}

// TestCarryToRedisCluster moves random keys; series are refused, and left behind.
func TestCarryToRedisCluster(t *testing.T) {
	t.Parallel()
	nodes := redisserver.Cluster(t, 3)
	to, err := redis.Open(t.Context(), &url.URL{Scheme: redis.SchemeCluster, Host: nodes[0].Addr(), RawQuery: "prefix=a[*]:"}, redis.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { to.Close() })
	s := newCarrySource(t)
	if _, err := s.carry(t.Context(), to, skerry.CarryOptions{}); engine.CodeOf(err) != engine.CodeUnsupported || !strings.Contains(err.Error(), "series (") {
		t.Errorf("series: %v", err)
	}
	if _, err := s.carry(t.Context(), to, skerry.CarryOptions{Leave: []string{"series"}}); err != nil {
		t.Fatal(err)
	}
	s.same(to)
	if _, err := s.carry(t.Context(), to, skerry.CarryOptions{Leave: []string{"series"}}); err == nil || !strings.Contains(err.Error(), "not empty") {
		t.Errorf("a second move: %v", err)
	}
}

// emptier is an engine without scans and without a fence that can tell whether it has data.
type emptier struct {
	engine.Engine
	inner engine.Engine
}

func (e emptier) Empty(ctx context.Context) (empty bool, err error) {
	_, err = e.inner.View(ctx, engine.Read{}, func(tx engine.Tx) error {
		empty = true
		for p, err := range tx.Scan(nil, nil) {
			if err != nil {
				return err
			}
			empty = empty && string(p.Key) == unfenced
		}
		return nil
	})
	return empty, err
}

func (e emptier) View(ctx context.Context, r engine.Read, fn func(engine.Tx) error) (engine.Position, error) {
	return e.Engine.View(ctx, r, func(tx engine.Tx) error { return fn(unfencedTx{tx}) })
}

func (e emptier) Update(ctx context.Context, fn func(engine.Tx) error) (engine.Position, error) {
	return e.Engine.Update(ctx, func(tx engine.Tx) error { return fn(unfencedTx{tx}) })
}

// unfenced is where an emptier keeps engine.FenceKey, which the engine below it would honor.
const unfenced = "\x00unfenced"

type unfencedTx struct{ engine.Tx }

func (t unfencedTx) Get(key []byte) ([]byte, bool, error) { return t.Tx.Get(other(key)) }
func (t unfencedTx) Put(key, val []byte) error            { return t.Tx.Put(other(key), val) }
func (t unfencedTx) Delete(key []byte) error              { return t.Tx.Delete(other(key)) }

func other(key []byte) []byte {
	if string(key) == engine.FenceKey {
		return []byte(unfenced)
	}
	return key
}

// openWeak returns a target that is atomic over one partition, with the engine that has its data.
func openWeak(t *testing.T) (weak, inner engine.Engine) {
	t.Helper()
	inner = openEngine(t)
	return emptier{enginetest.Within(inner, engine.OnePartition), inner}, inner
}

// put writes pairs as they are.
func put(t *testing.T, eng engine.Engine, pairs ...string) {
	t.Helper()
	if _, err := eng.Update(t.Context(), func(tx engine.Tx) error {
		for i := 0; i < len(pairs); i += 2 {
			if err := tx.Put([]byte(pairs[i]), []byte(pairs[i+1])); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// record is a record of kv without an expiry.
const plainRecord = "\x00\x00\x00\x00\x00\x00\x00\x00\x01"

// TestCarryRefuses: what the target cannot carry is refused by name before anything is written, unless it is left behind.
func TestCarryRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, key, val string }{
		{"users", "k\xfda", plainRecord},
		{"certificates", "k\xfca", plainRecord},
		{"answers", "k\xffa", plainRecord},
		{"records", "ra", ""},
		{"series", "soplant", "\x00\x00\x00\x01"},
		{"other", "k\x80a", plainRecord},
		{"other", "k\xfea", plainRecord},
		{"other", "a", ""},
		{"other", "l", ""},
		{"other", "\xff", ""},
	} {
		src := openEngine(t)
		put(t, src, "k\x00plain", plainRecord+"v", c.key, c.val)
		to, inner := openWeak(t)
		move := func(leave ...string) (transfer.CarryResult, error) {
			return skerry.Carry(t.Context(), transfer.Of(src), to, skerry.CarryOptions{Options: transfer.Options{From: "a", To: "b"}, Leave: leave})
		}
		for _, leave := range [][]string{nil, {"keys"}} {
			_, err := move(leave...)
			if engine.CodeOf(err) != engine.CodeUnsupported || !strings.Contains(err.Error(), c.name+" (1 key)") || !strings.Contains(err.Error(), "`--leave "+c.name+"`") {
				t.Errorf("%q: %v", c.key, err)
			}
		}
		if all := stored(t, inner); len(all) > 0 {
			t.Errorf("%q: the target has %q", c.key, all)
		}
		put(t, src, "k\x00plain", plainRecord+"v") // it takes writes
		res, err := move(c.name)
		if err != nil || res.Left[c.name] != 1 || res.Items["keys"] != 1 {
			t.Errorf("%q: %+v %v", c.key, res, err)
		}
		if all := stored(t, inner); !maps.Equal(all, map[string]string{"k\x00plain": plainRecord + "v"}) {
			t.Errorf("%q: the target has %q", c.key, all)
		}
	}
}

// stored returns the pairs of an engine.
func stored(t *testing.T, eng engine.Engine) map[string]string {
	t.Helper()
	var all map[string]string
	if _, err := eng.View(t.Context(), engine.Read{}, func(tx engine.Tx) error {
		all = map[string]string{}
		for p, err := range tx.Scan(nil, nil) {
			if err != nil {
				return err
			}
			all[string(p.Key)] = string(p.Val)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return all
}

// TestCarryRefusals: other moves that cannot be, and what is told of sessions.
func TestCarryRefusals(t *testing.T) {
	t.Parallel()
	src := openEngine(t)
	put(t, src, "k\x00plain", plainRecord, "k\xfes\x01a1", plainRecord, "k\xfes\x01a2", plainRecord, "k\xfeu\x01a1", plainRecord)
	move := func(to engine.Engine, o skerry.CarryOptions) error {
		o.From, o.To = "a", "b"
		_, err := skerry.Carry(t.Context(), transfer.Of(src), to, o)
		return err
	}
	if err := move(openPartitions(t), skerry.CarryOptions{}); engine.CodeOf(err) != engine.CodeUnsupported {
		t.Errorf("a target that cannot tell whether it is empty: %v", err)
	}
	weak, inner := openWeak(t)
	if err := move(weak, skerry.CarryOptions{Leave: []string{"nothing"}}); engine.CodeOf(err) != engine.CodeInvalid {
		t.Errorf("a name that there is not: %v", err)
	}
	put(t, inner, "k\x00old", plainRecord)
	if err := move(weak, skerry.CarryOptions{}); engine.CodeOf(err) != engine.CodeInvalid || !strings.Contains(err.Error(), "not empty") {
		t.Errorf("a target with data: %v", err)
	}
	if _, err := skerry.Carry(t.Context(), transfer.Of(weak), src, skerry.CarryOptions{}); engine.CodeOf(err) != engine.CodeUnsupported {
		t.Errorf("a source without scans: %v", err)
	}
	// An abandoned move leaves a target that nothing can use, and a source that takes writes.
	weak, _ = openWeak(t)
	ctx, stop := context.WithCancel(t.Context())
	var told string
	o := skerry.CarryOptions{Notice: func(text string) { told = text }}
	o.Report = func(transfer.Progress) { stop() }
	if _, err := skerry.Carry(ctx, transfer.Of(src), weak, o); !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "refuses writes") {
		t.Errorf("an interrupted move: %v", err)
	}
	if told != "left behind: sessions (2 keys)" {
		t.Errorf("it tells %q", told)
	}
	if _, err := transfer.Abandon(t.Context(), transfer.Of(src), weak); err != nil {
		t.Fatal(err)
	}
	put(t, src, "k\x00plain", plainRecord)
	if err := move(weak, skerry.CarryOptions{}); engine.CodeOf(err) != engine.CodeInvalid || !strings.Contains(err.Error(), "abandoned") {
		t.Errorf("a target that was abandoned: %v", err)
	}
	if _, err := skerry.Open(weak, skerry.Options{RESP: skerry.Off}); engine.CodeOf(err) != engine.CodeFenced {
		t.Errorf("a server on it: %v", err)
	}
}

package resp_test

import (
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/skerrydb/skerry/ci/eventually"
	"github.com/skerrydb/skerry/resp"
)

func newRueidis(t *testing.T, o rueidis.ClientOption) rueidis.Client {
	t.Helper()
	c, err := rueidis.NewClient(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func TestRueidis(t *testing.T) {
	server, client, _ := testTLS(t)
	plain := startSkerry(t, resp.Options{})
	secured := startSkerry(t, resp.Options{Password: "secret", TLS: server})
	for name, o := range map[string]rueidis.ClientOption{
		"default":       {InitAddress: []string{plain}},
		"RESP2":         {InitAddress: []string{plain}, AlwaysRESP2: true, DisableCache: true, SelectDB: 1},
		"named":         {InitAddress: []string{plain}, ClientName: "rueidis-test", SelectDB: 2, ClientNoEvict: true},
		"TLS and AUTH":  {InitAddress: []string{secured}, TLSConfig: client, Password: "secret", SelectDB: 3},
		"broadcasting":  {InitAddress: []string{plain}, ClientTrackingOptions: []string{"PREFIX", "k", "BCAST"}, SelectDB: 4},
		"no pipelining": {InitAddress: []string{plain}, DisableAutoPipelining: true, SelectDB: 5},
	} {
		t.Run(name, func(t *testing.T) {
			c := newRueidis(t, o)
			rueidisStrings(t, c)
			rueidisPipeline(t, c)
			rueidisWatch(t, c)
			if !o.DisableCache {
				rueidisCache(t, c, newRueidis(t, o))
			}
		})
	}
}

func rueidisStrings(t *testing.T, c rueidis.Client) {
	t.Helper()
	ctx := t.Context()
	if err := c.Do(ctx, c.B().Set().Key("k").Value("v").Ex(time.Minute).Build()).Error(); err != nil {
		t.Fatal(err)
	}
	if v, err := c.Do(ctx, c.B().Get().Key("k").Build()).ToString(); v != "v" || err != nil {
		t.Errorf("GET: %q, %v", v, err)
	}
	if err := c.Do(ctx, c.B().Get().Key("none").Build()).Error(); !rueidis.IsRedisNil(err) {
		t.Errorf("GET of nothing: %v", err)
	}
	err := c.Do(ctx, c.B().Incr().Key("k").Build()).Error()
	if e, ok := rueidis.IsRedisErr(err); !ok || e.Error() != "value is not an integer or out of range" {
		t.Errorf("INCR of text: %v", err)
	}
	got, err := rueidis.MGet(c, ctx, []string{"k", "none"})
	if m := got["none"]; err != nil || len(got) != 2 || !m.IsNil() {
		t.Errorf("MGET: %v, %v", got, err)
	}
	cmd := c.B().Lcs().Key1("k").Key2("k").Idx().Withmatchlen().Build()
	if m, err := c.Do(ctx, cmd).AsMap(); err != nil || len(m) != 2 {
		t.Errorf("LCS: %v, %v", m, err)
	}
}

func rueidisPipeline(t *testing.T, c rueidis.Client) {
	t.Helper()
	const n = 1000
	var cmds rueidis.Commands
	for i := range n {
		cmds = append(cmds, c.B().Set().Key(fmt.Sprintf("p:%d", i)).Value(strconv.Itoa(i)).Build(),
			c.B().Get().Key(fmt.Sprintf("p:%d", i)).Build())
	}
	for i, r := range c.DoMulti(t.Context(), cmds...) {
		if v, err := r.ToString(); err != nil || i%2 == 1 && v != strconv.Itoa(i/2) {
			t.Fatalf("reply %d of the pipeline is %q, %v", i, v, err)
		}
	}
	var wg sync.WaitGroup // many concurrent callers: rueidis writes them as one pipeline
	for i := range 64 {
		wg.Go(func() {
			for j := range 20 {
				key := fmt.Sprintf("p:%d", i*10+j%10)
				if v, err := c.Do(t.Context(), c.B().Get().Key(key).Build()).ToString(); "p:"+v != key || err != nil {
					t.Errorf("GET %s: %q, %v", key, v, err)
				}
			}
		})
	}
	wg.Wait()
}

// rueidisWatch adds to one counter from many goroutines with WATCH and retry.
func rueidisWatch(t *testing.T, c rueidis.Client) {
	t.Helper()
	ctx := t.Context()
	const workers, each = 6, 8
	lost := errors.New("another was faster")
	add := func(d rueidis.DedicatedClient) error {
		d.Do(ctx, d.B().Watch().Key("counter").Build())
		n, err := d.Do(ctx, d.B().Get().Key("counter").Build()).AsInt64()
		if err != nil && !rueidis.IsRedisNil(err) {
			return err
		}
		r := d.DoMulti(ctx, d.B().Multi().Build(),
			d.B().Set().Key("counter").Value(strconv.FormatInt(n+1, 10)).Build(), d.B().Exec().Build())
		if err := r[2].Error(); rueidis.IsRedisNil(err) {
			return lost
		}
		return r[2].Error()
	}
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for range each {
				err := lost
				for err == lost {
					err = c.Dedicated(add)
				}
				if err != nil {
					t.Errorf("WATCH: %v", err)
				}
			}
		})
	}
	wg.Wait()
	if n, err := c.Do(ctx, c.B().Get().Key("counter").Build()).AsInt64(); n != workers*each || err != nil {
		t.Errorf("counter is %d, want %d; %v", n, workers*each, err)
	}
}

// rueidisCache reads through the client's cache while another client writes. Every value
// acknowledged to the writer must arrive.
func rueidisCache(t *testing.T, reader, writer rueidis.Client) {
	t.Helper()
	ctx := t.Context()
	read := func() rueidis.RedisResult {
		return reader.DoCache(ctx, reader.B().Get().Key("k:cached").Cache(), time.Minute)
	}
	for i := range 50 {
		want := strconv.Itoa(i)
		if err := writer.Do(ctx, writer.B().Set().Key("k:cached").Value(want).Build()).Error(); err != nil {
			t.Fatal(err)
		}
		eventually.True(t, "the invalidation of "+want, func() bool {
			v, err := read().ToString()
			return err == nil && v == want
		})
		// An extra invalidation does no harm. It may follow a read that it was too late
		// for.
		eventually.True(t, "a read of "+want+" from the cache", func() bool { r := read(); return r.IsCacheHit() })
	}
	if err := writer.Do(ctx, writer.B().Del().Key("k:cached").Build()).Error(); err != nil {
		t.Fatal(err)
	}
	eventually.True(t, "the invalidation by DEL", func() bool { return rueidis.IsRedisNil(read().Error()) })
	for ttl := 80 * time.Millisecond; ; ttl *= 2 { // until the reader is fast enough to see the value
		if err := writer.Do(ctx, writer.B().Set().Key("k:cached").Value("x").Px(ttl).Build()).Error(); err != nil {
			t.Fatal(err)
		}
		if eventually.Within(ttl, func() bool { v, _ := read().ToString(); return v == "x" }) {
			break
		}
		if ttl > eventually.Limit {
			t.Fatal("a value that expires is not seen")
		}
	}
	eventually.True(t, "the invalidation by expiry", func() bool { return rueidis.IsRedisNil(read().Error()) })
	if err := writer.Do(ctx, writer.B().Set().Key("k:cached").Value("y").Build()).Error(); err != nil {
		t.Fatal(err)
	}
	eventually.True(t, "the value before FLUSHDB", func() bool { v, _ := read().ToString(); return v == "y" })
	if err := writer.Do(ctx, writer.B().Flushdb().Build()).Error(); err != nil {
		t.Fatal(err)
	}
	eventually.True(t, "the invalidation by FLUSHDB", func() bool { return rueidis.IsRedisNil(read().Error()) })
}

// TestRueidisReconnects closes the client's connection. The client must drop its cache.
func TestRueidisReconnects(t *testing.T) {
	addr := startSkerry(t, resp.Options{})
	c := newRueidis(t, rueidis.ClientOption{InitAddress: []string{addr}})
	raw, err := tcp(addr)()
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	other := newPeer(raw)
	read := func() (string, error) {
		return c.DoCache(t.Context(), c.B().Get().Key("k").Cache(), time.Minute).ToString()
	}
	for i := range 5 {
		want := strconv.Itoa(i)
		if v, err := other.do("SET", "k", want); err != nil || v.text != "OK" {
			t.Fatal(v, err)
		}
		eventually.True(t, "value "+want, func() bool { v, _ := read(); return v == want })
		if v, err := other.do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"); err != nil || v.text == "0" {
			t.Fatal(v, err)
		}
	}
}

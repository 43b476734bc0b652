package auth_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skerrydb/skerry/auth"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/kv"
)

func TestKeys(t *testing.T) {
	t.Parallel()
	w, ctx := open(t, auth.Options{}), t.Context()
	ann, bob := w.verified("ann@example.com"), w.verified("bob@example.com")
	at := w.clock.Now()
	text, key, err := w.CreateKey(ctx, ann.ID, "laptop", []string{"todo:write", "todo:read", "todo:read"}, at.Add(time.Hour))
	must(t, "create", err)
	if !strings.HasPrefix(text, "sk_"+key.ID+"_") || len(text) != 3+16+1+52+7 || key.User != ann.ID ||
		!slices.Equal(key.Scopes, []string{"todo:read", "todo:write"}) {
		t.Errorf("key %q: %+v", text, key)
	}
	u, got, err := w.CheckKey(ctx, engine.Read{}, text)
	if err != nil || u.ID != ann.ID || got.ID != key.ID || got.Name != "laptop" || !got.Used.IsZero() {
		t.Errorf("check: %+v %+v %v", u, got, err)
	}
	for i := range text { // every character matters
		c := byte('a')
		if text[i] == c {
			c = 'b'
		}
		_, _, err := w.CheckKey(ctx, engine.Read{}, text[:i]+string(c)+text[i+1:])
		want(t, fmt.Sprintf("a key with another letter at %d", i), err, engine.CodeUnauthenticated)
	}
	for _, s := range []string{"", "sk_", text + "a", text[1:], strings.ToUpper(text), "pk" + text[2:]} {
		_, _, err := w.CheckKey(ctx, engine.Read{}, s)
		want(t, s, err, engine.CodeUnauthenticated)
	}
	want(t, "revoke another's key", w.RevokeKey(ctx, bob.ID, key.ID), engine.CodeNotFound)
	w.clock.Add(time.Second) // keys are listed by the time of creation
	second, _, err := w.CreateKey(ctx, ann.ID, "", nil, time.Time{})
	must(t, "create", err)
	keys, err := w.ListKeys(ctx, engine.Read{}, ann.ID)
	if err != nil || len(keys) != 2 || keys[0].ID != key.ID {
		t.Errorf("keys: %+v %v", keys, err)
	}
	must(t, "revoke", w.RevokeKey(ctx, ann.ID, keys[1].ID))
	_, _, err = w.CheckKey(ctx, engine.Read{}, second)
	want(t, "a revoked key", err, engine.CodeUnauthenticated)
	_, err = w.Disable(ctx, ann.ID, true)
	must(t, "disable", err)
	_, _, err = w.CheckKey(ctx, engine.Read{}, text)
	want(t, "a disabled user's key", err, engine.CodeUnauthenticated)
	_, err = w.Disable(ctx, ann.ID, false)
	must(t, "enable", err)
	_, _, err = w.CheckKey(ctx, engine.Read{}, text)
	must(t, "the key of a user who is enabled again", err)
	w.clock.Add(time.Hour)
	_, _, err = w.CheckKey(ctx, engine.Read{}, text)
	want(t, "an expired key", err, engine.CodeUnauthenticated)
	if keys, err := w.ListKeys(ctx, engine.Read{}, ann.ID); err != nil || len(keys) != 0 {
		t.Errorf("keys: %+v %v", keys, err)
	}
}

// TestKeySecret: an id, which is not secret, is of no use with another secret.
func TestKeySecret(t *testing.T) {
	t.Parallel()
	w, ctx := open(t, auth.Options{}), t.Context()
	one, _, err := w.CreateKey(ctx, w.verified("ann@example.com").ID, "", nil, time.Time{})
	must(t, "create", err)
	two, _, err := w.CreateKey(ctx, w.verified("bob@example.com").ID, "", nil, time.Time{})
	must(t, "create", err)
	summed := func(s string) string {
		return s + lower32.EncodeToString(binary.BigEndian.AppendUint32(nil, crc32.ChecksumIEEE([]byte(s))))
	}
	if summed(one[:72]) != one {
		t.Fatalf("the sum of %q is made otherwise", one)
	}
	_, _, err = w.CheckKey(ctx, engine.Read{}, summed(one[:20]+two[20:72]))
	want(t, "one's id and another's secret", err, engine.CodeUnauthenticated)
	_, _, err = w.CheckKey(ctx, engine.Read{}, summed("sk_aaaaaaaaaaaaaaaa_"+two[20:72]))
	want(t, "an id that was never given", err, engine.CodeUnauthenticated)
}

// counting counts what asks for the executor.
type counting struct {
	engine.Engine
	updates atomic.Int64
}

func (c *counting) Update(ctx context.Context, fn func(engine.Tx) error) (engine.Position, error) {
	c.updates.Add(1)
	return c.Engine.Update(ctx, fn)
}

// TestKeyUsed: the time of use is kept as exactly as asked, and reads do not
// become writes.
func TestKeyUsed(t *testing.T) {
	t.Parallel()
	w, ctx := open(t, auth.Options{}), t.Context()
	counted := &counting{Engine: w.eng}
	var err error
	w.store, err = kv.New(counted, kv.Options{})
	must(t, "open the store", err)
	w.Auth = w.again(auth.Options{UsedEvery: time.Minute})
	ann := w.verified("ann@example.com")
	text, _, err := w.CreateKey(ctx, ann.ID, "", nil, time.Time{})
	must(t, "create", err)
	used := func() time.Time {
		t.Helper()
		keys, err := w.ListKeys(ctx, engine.Read{}, ann.ID)
		must(t, "list", err)
		return keys[0].Used
	}
	check := func() {
		t.Helper()
		_, _, err := w.CheckKey(ctx, engine.Read{}, text)
		must(t, "check", err)
	}
	check()
	first := used()
	if d := first.Sub(w.clock.Now()); d < 0 || d > time.Second {
		t.Fatalf("used at %v, now %v", first, w.clock.Now())
	}
	w.clock.Add(59 * time.Second)
	updates := counted.updates.Load()
	check()
	if !used().Equal(first) || counted.updates.Load() != updates {
		t.Error("written again before its time")
	}
	w.clock.Add(2 * time.Second)
	check()
	if d := used().Sub(first); d < time.Minute || d > 62*time.Second {
		t.Errorf("used %v after the first time, want 61 s", d)
	}
}

func TestKeyLimits(t *testing.T) {
	t.Parallel()
	w, ctx := open(t, auth.Options{}), t.Context()
	ann := w.verified("ann@example.com")
	var many []string
	for i := range auth.MaxScopes + 1 {
		many = append(many, fmt.Sprintf("s%d", i))
	}
	for _, c := range []struct {
		what, name string
		scopes     []string
		expires    time.Time
		code       engine.Code
	}{
		{"name", strings.Repeat("n", auth.MaxNameBytes+1), nil, time.Time{}, engine.CodeLimit},
		{"line break", "a\r\nb", nil, time.Time{}, engine.CodeInvalid},
		{"scopes", "", many, time.Time{}, engine.CodeLimit},
		{"scope", "", []string{strings.Repeat("s", auth.MaxScopeBytes+1)}, time.Time{}, engine.CodeLimit},
		{"empty scope", "", []string{""}, time.Time{}, engine.CodeInvalid},
		{"odd scope", "", []string{"a b"}, time.Time{}, engine.CodeInvalid},
		{"past", "", nil, w.clock.Now(), engine.CodeInvalid},
		{"ok", strings.Repeat("n", auth.MaxNameBytes), many[1:], w.clock.Now().Add(time.Minute), ""},
	} {
		_, _, err := w.CreateKey(ctx, ann.ID, c.name, c.scopes, c.expires)
		want(t, c.what, err, c.code)
	}
	_, _, err := w.CreateKey(ctx, "nobody", "", nil, time.Time{})
	want(t, "nobody", err, engine.CodeNotFound)
	for range auth.MaxKeys - 1 {
		_, _, err := w.CreateKey(ctx, ann.ID, "", nil, time.Time{})
		must(t, "create", err)
	}
	_, _, err = w.CreateKey(ctx, ann.ID, "", nil, time.Time{})
	want(t, "one too many", err, engine.CodeLimit)
	w.clock.Add(time.Minute) // one of them expires
	_, _, err = w.CreateKey(ctx, ann.ID, "", nil, time.Time{})
	must(t, "create in place of an expired one", err)
}

func TestAllows(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		scopes, scope string
		ok            bool
	}{
		{"", "a", false},
		{"a", "a", true},
		{"a", "ab", false},
		{"ab", "a", false},
		{"*", "anything:at:all", true},
		{"todo:*", "todo:read", true},
		{"todo:*", "todo:", true},
		{"todo:*", "todo", false},
		{"todo:*", "todos:read", false},
		{"tod*", "todo", false},
		{"b todo:read", "todo:read", true},
	} {
		k := auth.Key{Scopes: strings.Fields(c.scopes)}
		if k.Allows(c.scope) != c.ok {
			t.Errorf("%q allows %q: %v", c.scopes, c.scope, !c.ok)
		}
	}
}

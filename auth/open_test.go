package auth_test

import (
	"context"
	"encoding/binary"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skerrydb/skerry/auth"
	"github.com/skerrydb/skerry/ci/eventually"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/testengine"
	"github.com/skerrydb/skerry/kv"
)

// cheap are parameters that cost next to nothing; argon2 is not under test.
var cheap = auth.Params{MemoryKiB: 64, Passes: 1}

const good = "correct horse battery"

// clock is moved by hand.
type clock struct{ us atomic.Int64 }

func (c *clock) Now() time.Time      { return time.UnixMicro(c.us.Load()).UTC() }
func (c *clock) Add(d time.Duration) { c.us.Add(d.Microseconds()) }

// world is an Auth on a fresh engine.
type world struct {
	*auth.Auth
	t     testing.TB
	eng   engine.Engine
	store *kv.Store
	clock *clock
}

// open returns an Auth on a fresh engine; o's zero Argon2 becomes cheap.
func open(t testing.TB, o auth.Options) *world {
	t.Helper()
	c := &clock{}
	c.us.Store(time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC).UnixMicro())
	eng := testengine.Open(t, testengine.Options{Now: c.Now})
	store, err := kv.New(eng, kv.Options{})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, eng: eng, store: store, clock: c}
	w.Auth = w.again(o)
	return w
}

// again returns another Auth on the same store.
func (w *world) again(o auth.Options) *auth.Auth {
	w.t.Helper()
	if o.Argon2 == (auth.Params{}) {
		o.Argon2 = cheap
	}
	a, err := auth.New(w.store, o)
	if err != nil {
		w.t.Fatal(err)
	}
	return a
}

// verified returns a user who has verified the address.
func (w *world) verified(email string) auth.User {
	w.t.Helper()
	msg, err := w.Register(w.t.Context(), email, good, "")
	if err != nil || msg.Kind != auth.Verify {
		w.t.Fatalf("register: %+v %v", msg, err)
	}
	done, err := w.Verify(w.t.Context(), msg.Token, auth.Proof{Password: good})
	if err != nil {
		w.t.Fatalf("verify: %v", err)
	}
	return done.User
}

// register registers an address and fails at an error.
func (w *world) register(email, password string) auth.Email {
	w.t.Helper()
	msg, err := w.Register(w.t.Context(), email, password, "")
	must(w.t, "register", err)
	return msg
}

// requestReset requests a reset and fails at an error.
func (w *world) requestReset(email string) auth.Email {
	w.t.Helper()
	msg, err := w.RequestReset(w.t.Context(), email, "")
	must(w.t, "request a reset", err)
	return msg
}

// login fails unless the login of ann@example.com returns an error with the code; "" means no error. So do
// loginTOTP, verify and reset.
func (w *world) login(what, password string, code engine.Code) {
	w.t.Helper()
	_, err := w.Login(w.t.Context(), "ann@example.com", password, "")
	want(w.t, what, err, code)
}

func (w *world) loginTOTP(what, ticket, digits string, code engine.Code) {
	w.t.Helper()
	_, err := w.LoginTOTP(w.t.Context(), ticket, digits)
	want(w.t, what, err, code)
}

func (w *world) verify(what, token, password string, code engine.Code) {
	w.t.Helper()
	_, err := w.Verify(w.t.Context(), token, auth.Proof{Password: password})
	want(w.t, what, err, code)
}

func (w *world) reset(what, token, password string, code engine.Code) {
	w.t.Helper()
	_, err := w.Reset(w.t.Context(), token, password)
	want(w.t, what, err, code)
}

// want fails unless err has the code; "" means no error.
func want(t testing.TB, what string, err error, code engine.Code) {
	t.Helper()
	if got := engine.CodeOf(err); got != code {
		t.Errorf("%s: %v, want code %q", what, err, code)
	}
}

// must fails at an error.
func must(t testing.TB, what string, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// dump returns everything that the engine holds.
func (w *world) dump() string {
	w.t.Helper()
	var b strings.Builder
	_, err := w.eng.View(w.t.Context(), engine.Read{}, func(tx engine.Tx) error {
		b.Reset()
		for p, err := range tx.Scan(nil, nil) {
			if err != nil {
				return err
			}
			b.Write(p.Key)
			b.WriteByte('\n')
			b.Write(p.Val)
			b.WriteByte('\n')
		}
		return nil
	})
	must(w.t, "scan the engine", err)
	return b.String()
}

// expire deletes what has expired.
func (w *world) expire() {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.t.Context())
	done := make(chan error, 1)
	go func() { done <- w.store.Run(ctx) }()
	eventually.True(w.t, "expired keys are deleted", func() bool { return !w.due() })
	cancel()
	<-done
}

// written returns how many keys the transactions after one position, up to
// another, have written.
func (w *world) written(after, upTo engine.Position) int {
	w.t.Helper()
	n := 0
	for c, err := range w.eng.Changes(w.t.Context(), after) {
		must(w.t, "read changes", err)
		n += len(c.Writes)
		if c.Pos >= upTo {
			break
		}
	}
	return n
}

// due reports whether kv's index has something that has expired.
func (w *world) due() bool {
	w.t.Helper()
	found := false
	_, err := w.eng.View(w.t.Context(), engine.Read{}, func(tx engine.Tx) error {
		found = false
		for p, err := range tx.Scan([]byte{'x'}, []byte{'z'}) {
			if err != nil {
				return err
			}
			found = found || int64(binary.BigEndian.Uint64(p.Key[1:])) <= tx.Now().UnixMilli()
		}
		return nil
	})
	must(w.t, "scan the index", err)
	return found
}

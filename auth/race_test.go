package auth_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skerrydb/skerry/auth"
	"github.com/skerrydb/skerry/ci/eventually"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/kv"
)

const patience = eventually.Limit

// gate holds the n-th hash and those after it until it is opened.
type gate struct {
	arrived chan struct{} // one value for each hash that is held
	pass    chan struct{} // closed: hashes go on
}

// hold makes every hash of a wait from now on.
func hold(a *auth.Auth) *gate {
	g := &gate{make(chan struct{}, 100), make(chan struct{})}
	a.Hold(func() {
		g.arrived <- struct{}{}
		<-g.pass
	})
	return g
}

// await waits until n hashes are held.
func (g *gate) await(t testing.TB, n int) {
	t.Helper()
	for range n {
		select {
		case <-g.arrived:
		case <-time.After(patience):
			t.Fatal("no hash is computed")
		}
	}
}

// started runs fn in the background and returns where its error comes.
func started(fn func() error) chan error {
	done := make(chan error, 1)
	go func() { done <- fn() }()
	return done
}

func result(t testing.TB, done chan error) error {
	t.Helper()
	select {
	case err := <-done:
		return err
	case <-time.After(patience):
		t.Fatal("the call does not return")
		return nil
	}
}

// TestHashOutsideTransactions: while a password is hashed everybody else writes.
func TestHashOutsideTransactions(t *testing.T) {
	t.Parallel()
	w, ctx := open(t, auth.Options{}), t.Context()
	ann := w.verified("ann@example.com")
	msg := w.requestReset("ann@example.com")
	var writes atomic.Int64
	w.Hold(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if _, _, err := w.store.Set(ctx, 0, []byte("k"), []byte("v"), kv.SetOptions{}); err != nil {
			t.Errorf("a write while a password is hashed: %v", err)
		}
		writes.Add(1)
	})
	w.register("bob@example.com", good)
	_, err := w.Create(ctx, "cid@example.com", good, true)
	must(t, "create", err)
	w.login("login", good, "")
	w.reset("reset", msg.Token, good, "")
	_, err = w.ChangePassword(ctx, ann.ID, good, good+"!")
	must(t, "change", err)
	must(t, "confirm", w.ConfirmPassword(ctx, ann.ID, good+"!"))
	_, err = w.SetPassword(ctx, ann.ID, good)
	must(t, "set", err)
	if n := writes.Load(); n != 8 {
		t.Errorf("%d hashes, want 8", n)
	}
}

// TestRaceRegister: an address is registered and verified while another
// registration of it is hashed: that one changes nothing.
func TestRaceRegister(t *testing.T) {
	t.Parallel()
	w, ctx := open(t, auth.Options{}), t.Context()
	slow := w.again(auth.Options{})
	g := hold(slow)
	var msg auth.Email
	done := started(func() (err error) {
		msg, err = slow.Register(ctx, "ann@example.com", "a slow password", "")
		return err
	})
	g.await(t, 1)
	w.verified("ann@example.com")
	close(g.pass)
	must(t, "the slow registration", result(t, done))
	if msg.Kind != auth.Known || msg.Token != "" {
		t.Errorf("email: %+v", msg)
	}
	w.login("login with the slow password", "a slow password", auth.CodeWrongCredentials)
	w.login("login", good, "")
}

// TestRaceRegisterBoth: of two registrations of a new address that are hashed at
// the same time, one email works, with its own password, and there is one user.
func TestRaceRegisterBoth(t *testing.T) {
	t.Parallel()
	w, ctx := open(t, auth.Options{}), t.Context()
	g := hold(w.Auth)
	emails := make([]auth.Email, 2)
	var done []chan error
	for i := range emails {
		done = append(done, started(func() (err error) {
			emails[i], err = w.Register(ctx, "ann@example.com", fmt.Sprintf("password %d of two", i), "")
			return err
		}))
	}
	g.await(t, 2)
	close(g.pass)
	w.Hold(nil)
	ok := 0
	for i := range emails {
		must(t, "register", result(t, done[i]))
	}
	for i := range emails {
		if _, err := w.Verify(ctx, emails[i].Token, auth.Proof{Password: fmt.Sprintf("password %d of two", i)}); err != nil {
			want(t, "verify", err, auth.CodeTokenInvalid)
			continue
		}
		ok++
		w.login("login with the password of the email that was verified", fmt.Sprintf("password %d of two", i), "")
	}
	page, err := w.List(ctx, engine.Read{}, auth.ListOptions{})
	if err != nil || ok != 1 || len(page.Users) != 1 {
		t.Errorf("%d emails work, %d users: %v", ok, len(page.Users), err)
	}
}

// TestRaceReset: two uses of a token, both past its check, have one effect.
func TestRaceReset(t *testing.T) {
	t.Parallel()
	w, ctx := open(t, auth.Options{}), t.Context()
	w.verified("ann@example.com")
	msg := w.requestReset("ann@example.com")
	g := hold(w.Auth)
	var done []chan error
	for i := range 2 {
		done = append(done, started(func() error {
			_, err := w.Reset(ctx, msg.Token, fmt.Sprintf("password %d of two", i))
			return err
		}))
	}
	g.await(t, 2)
	close(g.pass)
	w.Hold(nil)
	ok := 0
	for i := range done {
		if err := result(t, done[i]); err != nil {
			want(t, "the second reset", err, auth.CodeTokenInvalid)
			continue
		}
		ok++
		w.login("login with the password of the reset that worked", fmt.Sprintf("password %d of two", i), "")
	}
	if ok != 1 {
		t.Errorf("%d of two resets worked", ok)
	}
}

// TestRaceChange: the password changes while an old one is checked, which opens
// nothing any more.
func TestRaceChange(t *testing.T) {
	t.Parallel()
	w, ctx := open(t, auth.Options{}), t.Context()
	ann := w.verified("ann@example.com")
	slow := w.again(auth.Options{})
	g := hold(slow)
	login := started(func() error { _, err := slow.Login(ctx, "ann@example.com", good, ""); return err })
	change := started(func() error {
		_, err := slow.ChangePassword(ctx, ann.ID, good, "a slow password")
		return err
	})
	confirm := started(func() error { return slow.ConfirmPassword(ctx, ann.ID, good) })
	g.await(t, 3)
	_, err := w.ChangePassword(ctx, ann.ID, good, "a fast password")
	must(t, "change", err)
	close(g.pass)
	want(t, "a login with the old password", result(t, login), auth.CodeWrongCredentials)
	want(t, "a change with the old password", result(t, change), auth.CodeWrongCredentials)
	want(t, "the old password confirmed", result(t, confirm), auth.CodeWrongCredentials)
	w.login("login", "a fast password", "")
}

// TestRacePending: the owner registers an address while a thief, who has
// registered it before and never logged in, does so.
func TestRacePending(t *testing.T) {
	t.Parallel()
	o := auth.Options{AllowUnverified: true}
	w, ctx := open(t, o), t.Context()
	w.register("ann@example.com", "password of a thief")
	slow := w.again(o)
	g := hold(slow)
	thief := started(func() error { _, err := slow.Login(ctx, "ann@example.com", "password of a thief", ""); return err })
	g.await(t, 1)
	msg, err := w.Register(ctx, "ann@example.com", good, "")
	if err != nil || msg.Kind != auth.Verify {
		t.Errorf("register: %+v %v", msg, err)
	}
	close(g.pass)
	want(t, "the thief's login", result(t, thief), auth.CodeWrongCredentials)
	w.login("login", good, "")
	msg, err = w.Register(ctx, "ann@example.com", "password of a thief", "")
	if err != nil || msg.Kind != auth.Known {
		t.Errorf("register an address that is now in use: %+v %v", msg, err)
	}
}

// TestRaceDelete: a user is deleted, or disabled, while the password is checked.
func TestRaceDelete(t *testing.T) {
	t.Parallel()
	w, ctx := open(t, auth.Options{}), t.Context()
	ann, bob := w.verified("ann@example.com"), w.verified("bob@example.com")
	slow := w.again(auth.Options{})
	g := hold(slow)
	first := started(func() error { _, err := slow.Login(ctx, "ann@example.com", good, ""); return err })
	second := started(func() error { _, err := slow.Login(ctx, "bob@example.com", good, ""); return err })
	g.await(t, 2)
	must(t, "delete", w.Delete(ctx, ann.ID))
	_, err := w.Disable(ctx, bob.ID, true)
	must(t, "disable", err)
	close(g.pass)
	want(t, "login of a deleted user", result(t, first), auth.CodeWrongCredentials)
	want(t, "login of a disabled user", result(t, second), auth.CodeAccountDisabled)
}

// TestRaceOnce: of many uses at once of what works once, one works.
func TestRaceOnce(t *testing.T) {
	t.Parallel()
	w, ctx := open(t, auth.Options{Limits: auth.Limits{Code: auth.Limit{N: -1}}}), t.Context()
	msg := w.register("bob@example.com", good)
	if n := together(t, 8, func(int) error { _, err := w.Verify(ctx, msg.Token, auth.Proof{Password: good}); return err }); n != 1 {
		t.Errorf("an email was verified %d times", n)
	}
	ann := w.verified("ann@example.com")
	d := w.enrol(ann.ID)
	var tickets []string
	for range auth.MaxTokens {
		tickets = append(tickets, w.ticket("ann@example.com"))
	}
	code := d.code(1)
	if n := together(t, len(tickets), func(i int) error { _, err := w.LoginTOTP(ctx, tickets[i], code); return err }); n != 1 {
		t.Errorf("a code worked %d times", n)
	}
	tickets = nil
	for range auth.MaxTokens {
		tickets = append(tickets, w.ticket("ann@example.com"))
	}
	if n := together(t, len(tickets), func(i int) error { _, err := w.LoginRecovery(ctx, tickets[i], d.recovery[0]); return err }); n != 1 {
		t.Errorf("a recovery code worked %d times", n)
	}
	ticket := w.ticket("ann@example.com")
	if n := together(t, 8, func(i int) error { _, err := w.LoginRecovery(ctx, ticket, d.recovery[1+i]); return err }); n != 1 {
		t.Errorf("a ticket worked %d times", n)
	}
	id := auth.Identity{Issuer: "https://id.example", Subject: "s", Email: "cid@example.com", EmailVerified: true}
	if n := together(t, 8, func(int) error { _, err := w.LoginIdentity(ctx, id); return err }); n != 8 {
		t.Errorf("%d of 8 logins by a provider worked", n)
	}
	page, err := w.List(ctx, engine.Read{}, auth.ListOptions{})
	if err != nil || len(page.Users) != 3 {
		t.Errorf("%d users, want 3: %v", len(page.Users), err)
	}
}

// TestRaceAttempts: attempts at once are counted before they are hashed.
func TestRaceAttempts(t *testing.T) {
	t.Parallel()
	w, ctx := open(t, auth.Options{Limits: auth.Limits{Login: auth.Limit{N: 3}}}), t.Context()
	w.verified("ann@example.com")
	before := w.Hashes()
	var limited atomic.Int64
	together(t, 20, func(int) error {
		_, err := w.Login(ctx, "ann@example.com", "wrong password", "")
		if errors.Is(err, auth.ErrRateLimited) {
			limited.Add(1)
		}
		return err
	})
	if n := w.Hashes() - before; n != 3 || limited.Load() != 17 {
		t.Errorf("%d hashes, %d refused, want 3 and 17", n, limited.Load())
	}
}

// TestHashingBounded: so many hashes run, so many wait, and no more.
func TestHashingBounded(t *testing.T) {
	t.Parallel()
	w, ctx := open(t, auth.Options{MaxHashing: 2, MaxWaiting: 1}), t.Context()
	g := hold(w.Auth)
	login := func(ctx context.Context, i int) error {
		_, err := w.Login(ctx, fmt.Sprintf("u%d@example.com", i), "wrong password", "")
		return err
	}
	var running []chan error
	for i := range 2 {
		running = append(running, started(func() error { return login(ctx, i) }))
	}
	g.await(t, 2)
	waits, cancel := context.WithCancel(ctx)
	waiting := started(func() error { return login(waits, 2) })
	eventually.True(t, "the third hash waits", func() bool { return w.Waiting() == 1 })
	want(t, "a fourth", login(ctx, 3), engine.CodeQueueFull)
	cancel()
	if err := result(t, waiting); !errors.Is(err, context.Canceled) {
		t.Errorf("the third, cancelled: %v", err)
	}
	close(g.pass)
	for _, done := range running {
		want(t, "the first two", result(t, done), auth.CodeWrongCredentials)
	}
	want(t, "after that", login(ctx, 4), auth.CodeWrongCredentials)
	if w.Waiting() != 0 {
		t.Errorf("%d calls wait", w.Waiting())
	}
}

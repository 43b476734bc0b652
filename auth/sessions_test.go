package auth_test

import (
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/pquerna/otp"
	"github.com/pquerna/otp/totp"

	"github.com/skerrydb/skerry/auth"
	"github.com/skerrydb/skerry/engine"
)

// sessions counts whose sessions were to end. It writes in the transaction, as
// real ones do.
type sessions struct {
	mu   sync.Mutex
	ends map[string]int
	fail atomic.Bool
}

func (s *sessions) RevokeAllIn(tx engine.Tx, user string) error {
	if s.fail.Load() {
		return engine.Errorf(engine.CodeLimit, "too many sessions")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ends == nil {
		s.ends = map[string]int{}
	}
	key := []byte("zz-revoked-" + user) // the transaction may run again
	old, _, err := tx.Get(key)
	if err != nil {
		return err
	}
	n, _ := strconv.Atoi(string(old))
	s.ends[user] = n + 1
	return tx.Put(key, strconv.AppendInt(nil, int64(n+1), 10))
}

// revoked returns how often the sessions of a user were ended.
func (s *sessions) revoked(user string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ends[user]
}

// device is a user's authenticator app.
type device struct {
	w        *world
	secret   string
	url      string
	recovery []string
}

// enrol gives a user a second factor that is on.
func (w *world) enrol(user string) *device {
	w.t.Helper()
	e, err := w.EnrolTOTP(w.t.Context(), user)
	must(w.t, "enrol", err)
	d := &device{w: w, secret: e.Secret, url: e.URL}
	d.recovery, err = w.ConfirmTOTP(w.t.Context(), user, d.code(0))
	must(w.t, "confirm", err)
	return d
}

// code returns what the app shows so many steps from now.
func (d *device) code(steps int) string {
	d.w.t.Helper()
	at := d.w.clock.Now().Unix() + int64(steps)*30
	code, err := totp.GenerateCodeCustom(d.secret, unix(at), totp.ValidateOpts{Period: 30, Digits: otp.DigitsSix, Algorithm: otp.AlgorithmSHA1})
	must(d.w.t, "generate a code", err)
	return code
}

// ticket logs in with the password and returns what the second factor needs.
func (w *world) ticket(email string) string {
	w.t.Helper()
	_, err := w.Login(w.t.Context(), email, good, "")
	want(w.t, "login with the password alone", err, auth.CodeSecondFactor)
	ticket, ok := auth.Ticket(err)
	if !ok || len(ticket) != 43 {
		w.t.Fatalf("no ticket: %v", err)
	}
	return ticket
}

// together runs fn n times at once and returns how many had no error.
func together(t testing.TB, n int, fn func(i int) error) int {
	t.Helper()
	var ok atomic.Int64
	var wg sync.WaitGroup
	begin := make(chan struct{})
	for i := range n {
		wg.Go(func() {
			<-begin
			if fn(i) == nil {
				ok.Add(1)
			}
		})
	}
	close(begin)
	wg.Wait()
	return int(ok.Load())
}

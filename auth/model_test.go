package auth_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/skerrydb/skerry/auth"
	"github.com/skerrydb/skerry/ci/seed"
	"github.com/skerrydb/skerry/engine"
)

// person is what the model knows of one address. It is written by the words of the
// documentation and knows nothing of the store.
type person struct {
	email              string
	id                 string
	password           string // "": there is no account
	verified, disabled bool
	device             *device
	step               uint64            // of the last code that worked
	verifyToken        string            // the newest, "" if there is none that works
	resets             map[string]bool   // tokens; whether they work
	keys               map[string]string // text to id, of those that work
	dead               []string          // keys that were revoked
}

// model compares a random run of everything with people.
type model struct {
	*world
	rng      *rand.Rand
	sessions *sessions
	people   []*person
	n        int // of passwords so far
}

func (m *model) newPassword() string {
	m.n++
	return fmt.Sprintf("password number %d", m.n)
}

// forget is what happens to a person when the account is gone or begins anew.
func (p *person) forget() {
	for k := range p.keys {
		p.dead = append(p.dead, k)
	}
	for token := range p.resets {
		p.resets[token] = false
	}
	*p = person{email: p.email, resets: p.resets, keys: map[string]string{}, dead: p.dead}
}

// endTokens is what a change of the password does.
func (p *person) endTokens() {
	p.verifyToken = ""
	for token := range p.resets {
		p.resets[token] = false
	}
}

// TestModel is a random life of a few people against a model of it.
func TestModel(t *testing.T) {
	t.Parallel()
	s := &sessions{}
	off := auth.Limit{N: -1}
	w := open(t, auth.Options{Sessions: s, Limits: auth.Limits{Login: off, LoginFrom: off, Code: off, Email: off, EmailFrom: off, RegisterFrom: off}})
	m := &model{world: w, rng: seed.Rand(t), sessions: s}
	for i := range 4 {
		m.people = append(m.people, &person{email: fmt.Sprintf("p%d@example.com", i), resets: map[string]bool{}, keys: map[string]string{}})
	}
	steps := []func(p *person){
		m.register, m.register, m.verify, m.verify, m.login, m.login, m.login, m.wrongLogin, m.askReset, m.reset, m.reset, m.change,
		m.createKey, m.checkKeys, m.revokeKey, m.disable, m.remove, m.factor, m.factorOff, m.find,
	}
	for range 600 {
		steps[m.rng.IntN(len(steps))](m.people[m.rng.IntN(len(m.people))])
		m.clock.Add(time.Duration(m.rng.IntN(1000)) * time.Millisecond)
		if t.Failed() {
			return
		}
	}
}

func (m *model) register(p *person) {
	password := m.newPassword()
	msg, err := m.Register(m.t.Context(), p.email, password, "")
	must(m.t, "register", err)
	if p.password != "" && (p.verified || p.disabled) {
		if msg.Kind != auth.Known {
			m.t.Errorf("register %s, who has an account: %+v", p.email, msg)
		}
		return
	}
	if msg.Kind != auth.Verify {
		m.t.Errorf("register %s: %+v", p.email, msg)
	}
	p.endTokens()
	p.id, p.password, p.verifyToken = msg.User.ID, password, msg.Token
}

func (m *model) verify(p *person) {
	if p.password == "" {
		return
	}
	done, err := m.Verify(m.t.Context(), p.verifyToken, auth.Proof{Password: p.password})
	if p.verifyToken == "" || p.disabled {
		want(m.t, "verify with a token that does not work", err, auth.CodeTokenInvalid)
		return
	}
	must(m.t, "verify", err)
	if done.User.ID != p.id {
		m.t.Errorf("verified %+v, want %s", done, p.id)
	}
	p.verified, p.verifyToken = true, ""
}

// expected is the code of a login with the right password.
func (p *person) expected() engine.Code {
	switch {
	case p.password == "":
		return auth.CodeWrongCredentials
	case p.disabled:
		return auth.CodeAccountDisabled
	case !p.verified:
		return auth.CodeEmailUnverified
	case p.device != nil:
		return auth.CodeSecondFactor
	}
	return ""
}

func (m *model) login(p *person) {
	u, err := m.Login(m.t.Context(), p.email, cmp.Or(p.password, good), "")
	want(m.t, "login of "+p.email, err, p.expected())
	if err == nil && u.ID != p.id {
		m.t.Errorf("logged in as %+v, want %s", u, p.id)
	}
	ticket, ok := auth.Ticket(err)
	if !ok {
		return
	}
	ahead := m.rng.IntN(5) - 2
	step := auth.StepOf(m.clock.Now()) + uint64(ahead)
	u, err = m.LoginTOTP(m.t.Context(), ticket, p.device.code(ahead))
	if ahead < -1 || ahead > 1 || step <= p.step {
		want(m.t, fmt.Sprintf("code of step %+d, the last one was %d", ahead, p.step), err, auth.CodeCodeWrong)
		return
	}
	must(m.t, "second factor", err)
	p.step = step
	if u.ID != p.id {
		m.t.Errorf("logged in as %+v, want %s", u, p.id)
	}
}

func (m *model) wrongLogin(p *person) {
	_, err := m.Login(m.t.Context(), p.email, "not "+p.password+" at all", "")
	want(m.t, "login with a wrong password", err, auth.CodeWrongCredentials)
}

func (m *model) askReset(p *person) {
	msg, err := m.RequestReset(m.t.Context(), p.email, "")
	must(m.t, "request a reset", err)
	if exists := p.password != "" && !p.disabled; (msg.Kind == auth.Reset) != exists {
		m.t.Errorf("%s exists: %v, email %+v", p.email, exists, msg)
	}
	if msg.Token != "" {
		for token := range p.resets { // one at a time keeps the model below MaxTokens
			if p.resets[token] {
				if _, err := m.CheckToken(m.t.Context(), engine.Read{}, auth.ToReset, token); err != nil {
					m.t.Errorf("a token does not work while there are few: %v", err)
				}
				delete(p.resets, token)
			}
		}
		p.resets[msg.Token] = true
	}
}

func (m *model) reset(p *person) {
	for token, works := range p.resets {
		password := m.newPassword()
		before := m.sessions.revoked(p.id)
		_, err := m.Reset(m.t.Context(), token, password)
		if !works {
			want(m.t, "reset with a token that does not work", err, auth.CodeTokenInvalid)
			continue
		}
		must(m.t, "reset", err)
		if m.sessions.revoked(p.id) != before+1 {
			m.t.Error("a reset did not end the sessions")
		}
		p.endTokens()
		p.password, p.verified = password, true
		return
	}
}

func (m *model) change(p *person) {
	if p.password == "" {
		return
	}
	password := m.newPassword()
	_, err := m.ChangePassword(m.t.Context(), p.id, p.password, password)
	must(m.t, "change", err)
	p.endTokens()
	p.password = password
	if !p.verified {
		m.remove(p) // whether such a registration gives way is TestRegisterAgain's
	}
}

func (m *model) createKey(p *person) {
	if p.password == "" || !p.verified || len(p.keys) > 3 {
		return
	}
	text, key, err := m.CreateKey(m.t.Context(), p.id, "", nil, time.Time{})
	must(m.t, "create a key", err)
	p.keys[text] = key.ID
}

func (m *model) checkKeys(p *person) {
	for text := range p.keys {
		u, _, err := m.CheckKey(m.t.Context(), engine.Read{}, text)
		code := engine.Code("")
		if p.disabled {
			code = engine.CodeUnauthenticated
		}
		want(m.t, "check a key", err, code)
		if err == nil && u.ID != p.id {
			m.t.Errorf("a key of %s is of %+v", p.id, u)
		}
	}
	for _, text := range p.dead {
		_, _, err := m.CheckKey(m.t.Context(), engine.Read{}, text)
		want(m.t, "check a key that was revoked", err, engine.CodeUnauthenticated)
	}
}

func (m *model) revokeKey(p *person) {
	for text, id := range p.keys {
		must(m.t, "revoke", m.RevokeKey(m.t.Context(), p.id, id))
		delete(p.keys, text)
		p.dead = append(p.dead, text)
		return
	}
}

func (m *model) disable(p *person) {
	if p.password == "" {
		return
	}
	_, err := m.Disable(m.t.Context(), p.id, !p.disabled)
	must(m.t, "disable", err)
	if p.disabled = !p.disabled; p.disabled {
		p.endTokens()
	}
	if !p.verified {
		m.remove(p)
	}
}

func (m *model) remove(p *person) {
	if p.password == "" {
		return
	}
	must(m.t, "delete", m.Delete(m.t.Context(), p.id))
	p.forget()
}

func (m *model) factor(p *person) {
	if p.password == "" || !p.verified || p.device != nil {
		return
	}
	p.device = m.enrol(p.id)
	p.step = auth.StepOf(m.clock.Now())
}

func (m *model) factorOff(p *person) {
	if p.device == nil || m.rng.IntN(2) == 0 {
		return
	}
	must(m.t, "remove the second factor", m.DisableTOTP(m.t.Context(), p.id, p.device.recovery[0]))
	p.device = nil
}

func (m *model) find(p *person) {
	u, err := m.Find(m.t.Context(), engine.Read{}, p.email)
	if p.password == "" {
		want(m.t, "find an address without an account", err, engine.CodeNotFound)
		return
	}
	must(m.t, "find", err)
	if u.ID != p.id || u.Verified() != p.verified || u.Disabled != p.disabled || u.TOTP != (p.device != nil) {
		m.t.Errorf("found %+v, want %+v", u, p)
	}
}

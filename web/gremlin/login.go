package gremlin

import (
	"bytes"
	"encoding/base64"

	"github.com/coder/websocket"

	"github.com/skerrydb/skerry/graph/value"
)

// login is the state of a connection's authentication. Requests that come before
// it is done wait; the first of them is answered with a challenge.
type login struct {
	done    bool
	user    string
	waiting []*job // which are admitted
	wrong   int    // passwords
}

// challenge asks for a password, unless it was asked for before.
func (c *conn) challenge(j *job) bool {
	c.login.waiting = append(c.login.waiting, j)
	if len(c.login.waiting) > 1 {
		return true
	}
	return c.refuse(j, errorf(StatusChallenge, "authentication is required"))
}

// authenticate reads the answer to a challenge. If the password is right, what
// waits runs, otherwise it is refused.
func (c *conn) authenticate(j *job) bool {
	l := &c.login
	if len(l.waiting) == 0 {
		return c.refuse(j, errorf(StatusMalformed, "authentication was not asked for"))
	}
	waiting := l.waiting
	user, password, bad := plain(j.req.Args)
	if bad == nil {
		l.user, bad = c.h.authenticate(c.ctx, Login{user, password, c.from})
	}
	l.waiting = nil
	c.setKnown(bad == nil)
	for _, w := range waiting {
		if l.done {
			if !c.start(w) {
				return false
			}
			continue
		}
		c.release(w.size)
		if !c.refuse(w, bad) {
			return false
		}
	}
	if bad != nil {
		if l.wrong++; l.wrong >= MaxLogins {
			_ = c.ws.Close(websocket.StatusPolicyViolation, "too many wrong passwords")
			return false
		}
	}
	return true
}

// plain reads the user and the password of SASL's mechanism PLAIN: base64 of
// three parts between zero bytes, of which the first may be the user too.
func plain(args *value.Map) (user, password string, bad *Error) {
	a := &arguments{m: args}
	if m := a.string("saslMechanism"); m != "" && m != "PLAIN" {
		return "", "", errorf(StatusUnauthorized, "SASL's mechanism %q is not supported; use PLAIN", m)
	}
	text := a.string("sasl")
	if a.err != nil {
		return "", "", a.err
	}
	b, err := base64.StdEncoding.DecodeString(text)
	parts := bytes.Split(b, []byte{0})
	if err != nil || len(parts) != 3 {
		return "", "", errorf(StatusUnauthorized, "expected SASL PLAIN as base64 of a zero byte, user, a zero byte and password")
	}
	if len(parts[0]) > 0 && !bytes.Equal(parts[0], parts[1]) {
		return "", "", errorf(StatusUnauthorized, "a user cannot act for another one")
	}
	return string(parts[1]), string(parts[2]), nil
}

package admin

import (
	"context"
	"encoding/json"
	"time"

	"github.com/skerrydb/skerry/auth"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/keyspace"
	"github.com/skerrydb/skerry/kv"
	"github.com/skerrydb/skerry/web"
	"github.com/skerrydb/skerry/web/account"
)

// AttemptsEvery is how long the log of actions has one line for all wrong secrets of one kind for one account, and one for all
// addresses without an account: strangers must not be able to fill it.
const AttemptsEvery = 10 * time.Minute

const (
	attemptPrefix = "try/" // of keys in keyspace.AdminPage: the key of the line that counts. In the data: do not change
	stranger      = "(not logged in)"
	noAccount     = "(no account)"
)

// accountEvent writes what administrators do with their own accounts into the log of actions, and who has tried to.
func (a *Admin) accountEvent(c *web.Context, e account.Event) {
	action := "account." + string(e.Kind)
	if e.Err == nil {
		detail := ""
		if e.Recovery {
			detail = "with a recovery code"
		}
		a.record(c, e.User, action, e.User.Email, detail)
		return
	}
	u, subject, detail := e.User, e.User.Email, ""
	if u.ID == "" {
		found, err := a.users.Find(c, engine.Read{}, e.Email)
		if u, subject = found, found.Email; err != nil {
			subject, detail = noAccount, "first: "+e.Email
		}
	}
	l := a.line(c, u, action, subject, detail, e.Err)
	if e.Kind == account.LoggedIn || e.Kind == account.GaveCode {
		l.Who, l.UserID = stranger, ""
	}
	begun, err := a.countAttempt(c, l, u)
	if begun || err != nil {
		a.o.Logger.Warn("admin page", "action", action, "subject", subject, "who", l.Who, "from", l.From, "request", l.RequestID, "failed", l.Failed, "err", err)
	}
}

// countAttempt writes the line of a failed attempt on an account, or counts it in the line of those before.
func (a *Admin) countAttempt(ctx context.Context, l Line, u auth.User) (begun bool, err error) {
	mark := []byte(attemptPrefix + l.Action + "/" + u.ID)
	_, err = a.o.Store.Update(context.WithoutCancel(ctx), keyspace.AdminPage, func(t *kv.Tx) error {
		begun = false
		key, old, err := attemptLine(t, mark)
		if err != nil {
			return err
		}
		one, o := l, kv.SetOptions{TTL: LogTTL, SkipOld: true}
		if begun = key == nil || l.At.Sub(old.At) >= AttemptsEvery; begun {
			key = logKey(l)
			if _, err := t.Set(mark, key, kv.SetOptions{TTL: AttemptsEvery, SkipOld: true}); err != nil {
				return err
			}
		} else {
			one, o = old, kv.SetOptions{KeepTTL: true, SkipOld: true}
			one.Count, one.Last = max(old.Count, 1)+1, l.At
		}
		text, err := json.Marshal(one)
		if err != nil {
			return err
		}
		_, err = t.Set(key, text, o)
		return err
	})
	return begun, err
}

// attemptLine returns the line that counts attempts, and its key; nil: there is none.
func attemptLine(t *kv.Tx, mark []byte) (key []byte, l Line, err error) {
	e, found, err := t.Get(mark)
	if err != nil || !found {
		return nil, l, err
	}
	line, found, err := t.Get(e.Val)
	if err != nil || !found {
		return nil, l, err
	}
	if err := json.Unmarshal(line.Val, &l); err != nil {
		return nil, l, engine.Errorf(engine.CodeCorrupt, "a line of the log: %w", err)
	}
	return e.Val, l, nil
}

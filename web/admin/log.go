package admin

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"net/http"
	"time"

	"github.com/skerrydb/skerry/auth"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/keyspace"
	"github.com/skerrydb/skerry/kv"
	"github.com/skerrydb/skerry/web"
)

// LogTTL is how long the log of actions keeps a line.
const LogTTL = 400 * 24 * time.Hour

const (
	logPrefix    = "log/" // of keys in keyspace.AdminPage. In the data: do not change
	logPage      = 100    // lines of one page
	maxLogDetail = 4 << 10
)

// Line is one action of an administrator. In the data: do not rename.
type Line struct {
	At        time.Time `json:"at"`
	Who       string    `json:"who"` // email address
	UserID    string    `json:"user"`
	From      string    `json:"from"` // address of the client
	RequestID string    `json:"request"`
	Action    string    `json:"action"`  // "key.set"
	Subject   string    `json:"subject"` // what it was done to
	Detail    string    `json:"detail,omitempty"`
	Failed    string    `json:"failed,omitempty"` // why it failed
	Count     int       `json:"count,omitempty"`  // how many attempts the line stands for; 0: one
	Last      time.Time `json:"last,omitzero"`    // the last of them
}

// record adds a line to the log of actions. An action whose line cannot be written is reported in the server's log.
func (a *Admin) record(c *web.Context, u auth.User, action, subject, detail string) {
	_ = a.write(c, u, action, subject, detail, nil) // it is in the server's log
}

// act does fn for the administrator of a request and writes a line about it, before it as well as after a failure: an action
// without a line does not happen.
func (a *Admin) act(c *web.Context, action, subject, detail string, fn func() error) error {
	return a.actAs(c, person(c), action, subject, detail, fn)
}

// actAs is act for an account, or for whom its email address names.
func (a *Admin) actAs(c *web.Context, u auth.User, action, subject, detail string, fn func() error) error {
	if err := a.write(c, u, action, subject, detail, nil); err != nil {
		return err
	}
	err := fn()
	if err != nil {
		_ = a.write(c, u, action, subject, detail, err) // it is in the server's log
	}
	return err
}

func (a *Admin) write(c *web.Context, u auth.User, action, subject, detail string, failed error) error {
	return a.keep(c, a.line(c, u, action, subject, detail, failed))
}

// keep writes a line, also if ctx has ended.
func (a *Admin) keep(ctx context.Context, l Line) error {
	text, err := json.Marshal(l)
	if err == nil {
		_, err = a.o.Store.Update(context.WithoutCancel(ctx), keyspace.AdminPage, func(t *kv.Tx) error {
			_, err := t.Set(logKey(l), text, kv.SetOptions{TTL: LogTTL})
			return err
		})
	}
	a.o.Logger.Info("admin page", "action", l.Action, "subject", l.Subject, "who", l.Who, "request", l.RequestID, "failed", l.Failed, "err", err)
	return err
}

// line makes the line of an action.
func (a *Admin) line(c *web.Context, u auth.User, action, subject, detail string, failed error) Line {
	l := Line{At: a.o.Now().UTC(), Who: u.Email, UserID: u.ID, From: c.ClientIP(), RequestID: c.RequestID(), Action: action, Subject: shorten(subject, maxLogDetail), Detail: shorten(detail, maxLogDetail)}
	if failed != nil {
		l.Failed = shorten(failed.Error(), maxLogDetail)
	}
	return l
}

// logKey orders lines by time; a request that writes two at one time has two keys, as the second tells of a failure.
func logKey(l Line) []byte {
	key := binary.BigEndian.AppendUint64([]byte(logPrefix), uint64(l.At.UnixMicro()))
	key = append(key, l.RequestID...)
	if l.Failed != "" {
		key = append(key, '!')
	}
	return key
}

// tellsOf reports whether l says that the action failed whose beginning is the line begun.
func (l Line) tellsOf(begun Line) bool {
	return l.Failed != "" && begun.Failed == "" && l.RequestID == begun.RequestID && l.Action == begun.Action && l.Subject == begun.Subject
}

func (a *Admin) addLog(g *web.Group) { g.Get("/log", a.logPage) }

// logPage shows the newest lines, or those before a key.
func (a *Admin) logPage(c *web.Context) error {
	before := []byte(c.Query("before").String())
	var lines []Line
	next := ""
	_, err := a.o.Store.View(c, engine.Read{Level: engine.Local}, keyspace.AdminPage, func(t *kv.Tx) error {
		lines, next = nil, ""
		hi := before
		if !bytes.HasPrefix(hi, []byte(logPrefix)) { // there is more than the log in this space
			hi = []byte(logPrefix + "\xff")
		}
		for it, err := range t.ScanBack([]byte(logPrefix), hi) {
			if err != nil {
				return err
			}
			if len(lines) == logPage {
				return nil
			}
			var l Line
			if err := json.Unmarshal(it.Val, &l); err != nil {
				return engine.Errorf(engine.CodeCorrupt, "a line of the log: %w", err)
			}
			next = string(it.Key)
			if n := len(lines); n > 0 && lines[n-1].tellsOf(l) {
				continue // one line for an action that failed
			}
			lines = append(lines, l)
		}
		next = ""
		return nil
	})
	if err != nil {
		return err
	}
	return a.show(c, http.StatusOK, "log", web.Locals{"title": a.text("Log of actions"), "lines": lines, "next": next})
}

package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/skerrydb/skerry/engine"
)

// health is the answer of /healthz and /readyz.
type health struct {
	Status string      `json:"status"`         // ok, ready or not_ready
	Code   engine.Code `json:"code,omitempty"` // why not ready
	Detail string      `json:"detail,omitempty"`
}

// healthz says that the process answers.
func (a *app) healthz(x *exchange, _ *http.Request) error {
	return x.json(http.StatusOK, health{Status: "ok"})
}

// readyz says whether requests should come here. It is answered to everybody,
// so it tells no more than the code's meaning.
func (a *app) readyz(x *exchange, _ *http.Request) error {
	if err := a.ready(); err != nil {
		m := a.outcomes.Of(engine.CodeOf(err))
		detail := m.Text
		if m.Code == engine.CodeNotLeader {
			detail = "no node leads: this node has lost the others, or they elect"
		}
		return x.json(http.StatusServiceUnavailable, health{Status: "not_ready", Code: m.Code, Detail: detail})
	}
	return x.json(http.StatusOK, health{Status: "ready"})
}

// json answers with v, which may not be cached.
func (x *exchange) json(status int, v any) error {
	var body bytes.Buffer
	enc := json.NewEncoder(&body)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("encode answer: %w", err)
	}
	h := x.Header()
	h["Content-Type"] = x.app.json
	h["X-Content-Type-Options"] = x.app.noSniff
	h.Set("Cache-Control", "no-store")
	x.WriteHeader(status)
	x.Write(body.Bytes()) // an error means that the client is gone
	return nil
}

// backup streams a backup of everything. Its position follows as a trailer. If
// it fails half-way the connection is cut, and the bytes do not verify.
func (a *app) backup(x *exchange, r *http.Request) error {
	if a.o.Backup == nil {
		return engine.Errorf(engine.CodeUnsupported, "this engine has no backup of its own")
	}
	if _, err := query(r); err != nil {
		return err
	}
	if err := a.backups.enter("backups"); err != nil {
		return err
	}
	defer a.backups.leave()
	c := http.NewResponseController(x)
	if err := c.SetReadDeadline(time.Time{}); err != nil {
		return fmt.Errorf("lift the request's deadline: %w", err)
	}
	h := x.Header()
	h["Content-Type"] = a.octets
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Disposition", `attachment; filename="skerry.backup"`)
	h.Set("Trailer", positionHeader)
	pos, err := a.o.Backup(r.Context(), &patient{x, c, a.stall})
	if err != nil {
		return err
	}
	h.Set(positionHeader, strconv.FormatUint(uint64(pos), 10))
	return nil
}

// patient is a writer with no bound on the whole, only on each write: a reader
// that stops would hold the snapshot for ever.
type patient struct {
	w     io.Writer
	c     *http.ResponseController
	stall time.Duration
}

func (p *patient) Write(b []byte) (int, error) {
	if err := p.c.SetWriteDeadline(time.Now().Add(p.stall)); err != nil {
		return 0, err
	}
	return p.w.Write(b)
}

// places lets a bounded number of requests in at once.
type places struct {
	max    int32
	inside atomic.Int32
}

// enter fails if all are taken; else leave must follow.
func (g *places) enter(what string) error {
	if g.inside.Add(1) > g.max {
		g.inside.Add(-1)
		return engine.Errorf(engine.CodeQueueFull, "%d %s are being answered already", g.max, what)
	}
	return nil
}

func (g *places) leave() { g.inside.Add(-1) }

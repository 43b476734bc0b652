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
	"github.com/skerrydb/skerry/web"
)

// health is the response of /healthz and /readyz.
type health struct {
	Status string      `json:"status"`         // ok, ready or not_ready
	Code   engine.Code `json:"code,omitempty"` // why not ready
	Detail string      `json:"detail,omitempty"`
}

// healthz reports that the process responds.
func (a *app) healthz(c *web.Context) error {
	return sendJSON(c, http.StatusOK, health{Status: "ok"})
}

// readyz reports whether requests should come here. Anyone may ask, so the response has the meaning of the
// code, without details.
func (a *app) readyz(c *web.Context) error {
	if err := a.ready(); err != nil {
		m := a.outcomes.Of(engine.CodeOf(err))
		detail := m.Text
		if m.Code == engine.CodeNotLeader {
			detail = "there is no leader: this node is cut off from the others, or an election is running"
		}
		return sendJSON(c, http.StatusServiceUnavailable, health{Status: "not_ready", Code: m.Code, Detail: detail})
	}
	return sendJSON(c, http.StatusOK, health{Status: "ready"})
}

// sendJSON responds with v, which must not be cached.
func sendJSON(c *web.Context, status int, v any) error {
	var body bytes.Buffer
	enc := json.NewEncoder(&body)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("encode response: %w", err)
	}
	h := c.Header()
	h.Set("Content-Type", "application/json")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	c.Writer.WriteHeader(status)
	_, _ = c.Writer.Write(body.Bytes()) // an error means that the client is gone
	return nil
}

// backup streams a backup of everything, with its position in a trailer. If it fails halfway, the connection
// is closed, and the bytes do not verify.
func (a *app) backup(c *web.Context) error {
	if a.o.Backup == nil {
		return engine.Errorf(engine.CodeUnsupported, "this engine cannot make backups")
	}
	if _, err := query(c.Request); err != nil {
		return err
	}
	if err := a.backups.enter("backups"); err != nil {
		return err
	}
	defer a.backups.leave()
	conn := http.NewResponseController(c.Writer)
	if err := conn.SetReadDeadline(time.Time{}); err != nil {
		return fmt.Errorf("clear the request's deadline: %w", err)
	}
	h := c.Header()
	h["Content-Type"] = a.octets
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Disposition", `attachment; filename="skerry.backup"`)
	h.Set("Trailer", positionHeader)
	pos, err := a.o.Backup(c.Request.Context(), &patient{c.Writer, conn, a.stall})
	if err != nil {
		return err
	}
	h.Set(positionHeader, strconv.FormatUint(uint64(pos), 10))
	return nil
}

// patient is a writer without a deadline for the whole, only for each write: a stalled reader would keep the
// snapshot forever.
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

// semaphore bounds the number of concurrent requests.
type semaphore struct {
	max    int32
	inside atomic.Int32
}

// enter fails if the semaphore is full; otherwise the caller must call leave.
func (s *semaphore) enter(what string) error {
	if s.inside.Add(1) > s.max {
		s.inside.Add(-1)
		return engine.Errorf(engine.CodeQueueFull, "%d %s are already in progress", s.max, what)
	}
	return nil
}

func (s *semaphore) leave() { s.inside.Add(-1) }

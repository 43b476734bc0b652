package api

import (
	"net/http"
	"strconv"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/kv"
	"github.com/skerrydb/skerry/web/lane"
)

// Requests for keys that need no handler: reads of keys that exist and writes that succeed, without conditions. The
// handlers answer all others, so that errors have one source.

// fastKey returns an operation for the key in the path, nil if the request is left to its handler.
func (a *app) fastKey(c *lane.Fast, admitted bool) *operation {
	key := c.Path[len(dbPath):]
	if key == "" || len(key) > kv.MaxKeyBytes || !admitted || a.forward != nil && !a.forward.router.Leads() {
		return nil
	}
	x := a.pool.Get().(*operation)
	x.key = append(x.key[:0], key...)
	return x
}

// fastGet answers as getKey does. It returns the status, 0 if the handler must answer.
func (a *app) fastGet(c *lane.Fast, admitted bool) (status int) {
	x := a.fastKey(c, admitted)
	if x == nil {
		return 0
	}
	x.kept = true // until the engine has returned without an error
	defer x.end(false)
	x.head = c.Method == http.MethodHead
	pos, err := a.store.View(c.Context(), engine.Read{}, 0, x.getFn)
	if err != nil {
		return 0 // a read may be tried again
	}
	x.kept = false
	if !x.found {
		return 0
	}
	a.fastBegin(c, http.StatusOK, x, pos)
	c.Fields("Cache-Control: no-cache\r\nContent-Type: application/octet-stream\r\nX-Content-Type-Options: nosniff\r\n")
	c.Number("Content-Length", uint64(len(x.entry.Val)))
	c.End(x.val)
	return http.StatusOK
}

// fastSet answers as setKey does. It returns the status, 0 if the handler must answer.
func (a *app) fastSet(c *lane.Fast, admitted bool) (status int) {
	x := a.fastKey(c, admitted)
	if x == nil {
		return 0
	}
	x.kept = true
	defer x.end(false)
	x.val, x.set = append(x.val[:0], c.Body...), kv.SetOptions{SkipOld: true}
	pos, err := a.store.Update(c.Context(), 0, x.setFn)
	if err != nil {
		c.Tried(err)
		return 0
	}
	x.kept = false
	status = http.StatusNoContent
	if !x.replaced {
		status = http.StatusCreated
	}
	a.fastBegin(c, status, x, pos)
	if status == http.StatusCreated {
		c.Number("Content-Length", 0)
	}
	c.End(nil)
	return status
}

// fastBegin begins a response about x.entry, as stamp does.
func (a *app) fastBegin(c *lane.Fast, status int, x *operation, pos engine.Position) {
	c.Begin(status)
	if a.node != nil {
		c.Field(nodeHeader, a.node[0])
	}
	x.text = strconv.AppendUint(x.text[:0], uint64(x.entry.Rev), 10)
	c.Tag(x.text, "")
	c.Number(positionHeader, uint64(pos))
	if !x.entry.Expires.IsZero() {
		x.text = appendTime(x.text[:0], x.entry.Expires)
		c.Line(expiresHeader, x.text)
	}
}

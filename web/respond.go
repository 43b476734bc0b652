package web

import (
	"encoding/json"
	"io"
	"net/http"

	"github.com/skerrydb/skerry/engine"
)

// JSON responds with v as JSON. Nothing is sent if encoding fails.
func (c *Context) JSON(status int, v any) error {
	body := getBuffer()
	defer putBuffer(body)
	if err := json.NewEncoder(body).Encode(v); err != nil {
		return engine.Errorf(engine.CodeInternal, "web: cannot encode the response as JSON: %w", err)
	}
	h := c.Header()
	h["Content-Type"] = jsonType
	setLength(h, body.Len())
	c.Writer.WriteHeader(status)
	_, _ = c.Writer.Write(body.Bytes()) // an error means that the client is gone
	return nil
}

// Header values that all responses share; neither net/http nor this package changes them.
var (
	jsonType = []string{"application/json"}
	textType = []string{"text/plain; charset=utf-8"}
	htmlType = []string{"text/html; charset=utf-8"}
)

// NoContent responds with status 204 and no body.
func (c *Context) NoContent() error {
	c.Writer.WriteHeader(http.StatusNoContent)
	return nil
}

// WriteString implements io.StringWriter, which saves copying the text.
func (x *exchange) WriteString(s string) (int, error) {
	if x.status == 0 {
		x.WriteHeader(http.StatusOK)
	}
	if x.answered {
		return 0, errFailed
	}
	n, err := io.WriteString(x.w, s)
	x.sent += int64(n)
	return n, err
}

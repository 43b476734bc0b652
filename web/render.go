package web

import (
	"bytes"
	"html/template"
	"io"
	"maps"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/web/view"
)

// Locals are the values of a page, by name.
type Locals = map[string]any

// maxKeptBuffer is the largest buffer that is reused for another page.
const maxKeptBuffer = 256 << 10

var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

func getBuffer() *bytes.Buffer { return buffers.Get().(*bytes.Buffer) }

func putBuffer(b *bytes.Buffer) {
	if b.Cap() <= maxKeptBuffer {
		b.Reset()
		buffers.Put(b)
	}
}

// Render responds with a view in its layout, with status 200. The layout and the view also get title (""
// unless locals has it), project_name, assets, is_superadmin, debug_mode and nonce, the
// Content-Security-Policy's for inline scripts. Nothing is sent if the view fails.
func (c *Context) Render(name string, locals Locals) error {
	return c.RenderStatus(http.StatusOK, name, locals)
}

// RenderStatus is Render with another status.
func (c *Context) RenderStatus(status int, name string, locals Locals) error {
	return c.render(status, name, func(w io.Writer, v *view.Views) error {
		return v.Render(w, name, c.x.layoutLocals(name, locals))
	})
}

// RenderOffered is RenderStatus for locals that the view need not use: no warning is logged about unused ones.
// It is for packages whose pages an application can replace.
func (c *Context) RenderOffered(status int, name string, locals Locals) error {
	return c.render(status, name, func(w io.Writer, v *view.Views) error {
		return v.Offer(w, name, c.x.layoutLocals(name, locals))
	})
}

// RenderContents responds with contents, which is HTML already, inside the layout of Options.Views. The page
// has the assets of the view name, which need not exist.
func (c *Context) RenderContents(status int, name string, contents template.HTML, locals Locals) error {
	return c.render(status, name, func(w io.Writer, v *view.Views) error {
		return v.Wrap(w, contents, c.x.layoutLocals(name, locals))
	})
}

func (c *Context) render(status int, name string, fill func(w io.Writer, v *view.Views) error) error {
	v := c.x.app.o.Views
	if v == nil {
		return engine.Errorf(engine.CodeInternal, "web: Render of %q, but Options.Views is not set", name)
	}
	body := getBuffer()
	defer putBuffer(body)
	if err := fill(body, v); err != nil {
		return err
	}
	c.x.writePage(c.Writer, status, body)
	return nil
}

// pageType is shared by all pages; net/http does not change it.
var pageType = []string{"text/html; charset=utf-8"}

// writePage responds with a page.
func (x *exchange) writePage(w http.ResponseWriter, status int, page *bytes.Buffer) {
	if x.app.o.Debug {
		x.app.warnNonces()
		x.app.addReload(page)
	}
	h := w.Header()
	h["Content-Type"] = pageType
	setLength(h, page.Len())
	w.WriteHeader(status)
	_, _ = w.Write(page.Bytes()) // an error means that the client is gone
}

// ownLength is the longest body whose length net/http computes itself; it sends longer ones in chunks unless
// their length is set.
const ownLength = 2048

// setLength sets the length of a body that is written in one call.
func setLength(h http.Header, n int) {
	if n > ownLength {
		h["Content-Length"] = []string{strconv.Itoa(n)}
	}
}

// layoutLocals returns given with the values that every layout can use.
func (x *exchange) layoutLocals(view string, given Locals) Locals {
	all := make(Locals, len(given)+6)
	all["title"] = ""
	all["project_name"] = x.app.o.Name
	all["assets"] = x.assets(view)
	all["is_superadmin"] = x.isSuperadmin(x.r)
	all["debug_mode"] = x.app.o.Debug
	all["nonce"] = (*pageNonce)(x)
	maps.Copy(all, given)
	return all
}

func seconds(d time.Duration) string {
	return strconv.FormatInt(int64((d+time.Second-1)/time.Second), 10)
}

// assets returns the tags that load the assets of a view's page.
func (x *exchange) assets(view string) template.HTML {
	var tags template.HTML
	if files := x.app.o.Assets; files != nil {
		tags = files.of(view)
	}
	if x.app.o.Debug {
		tags += template.HTML(x.app.reloadTag())
	}
	return tags
}

package web

import (
	"bytes"
	_ "embed"
	"fmt"
	"hash/fnv"
	"io/fs"
	"net/http"
	"strings"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/web/hostname"
	"github.com/skerrydb/skerry/web/problem"
)

const (
	// reloadPoll is how often files are checked for changes, for every page that is open in a browser.
	reloadPoll = 250 * time.Millisecond
	// reloadRetry is how long a browser waits before it connects again.
	reloadRetry = 500 * time.Millisecond
)

// reloadTag makes the browser reload a page when something has changed since it was made. The script is of
// this origin and needs no nonce.
const reloadTag = `<script src="/_dev/reload.js" data-files="`

func (a *App) reloadTag() string { return reloadTag + a.devFiles() + "\" defer></script>\n" }

//go:embed reload.js
var reloadScript string

// addDev adds the routes that exist in debug mode only.
func (a *App) addDev() {
	a.warnNonces()
	a.handleApart("GET /_dev/reload.js", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		h := w.Header()
		h["Content-Type"] = []string{mediaType("reload.js")}
		h["Cache-Control"] = []string{"no-store"}
		_, _ = w.Write([]byte(reloadScript))
	}))
	a.handleApart("GET /_dev/reload", Handler(a.reload))
	if a.o.Outbox == nil {
		return
	}
	box := http.StripPrefix("/_dev/outbox", a.o.Outbox)
	a.handleApart("GET /_dev/outbox/", Handler(func(c *Context) error {
		if a.cluster != nil && !a.cluster.router.Leads() && !c.x.fromNode {
			return engine.ErrNotLeader // email is sent from the node that writes
		}
		box.ServeHTTP(c.Writer, c.Request)
		return nil
	}))
}

// checkHost refuses, in debug mode, host names that may belong to someone else's web page. See Options.Hosts.
func (a *App) checkHost(next http.Handler) http.Handler {
	if !a.o.Debug {
		return next
	}
	return Handler(func(c *Context) error {
		if d := a.o.GlobalDomain; hostname.Trusted(c.Request.Host, a.o.Hosts) || d != "" && strings.HasSuffix("."+strings.ToLower(hostOf(c.Request.Host)), "."+strings.ToLower(d)) {
			next.ServeHTTP(c.Writer, c.Request)
			return nil
		}
		return engine.Errorf(problem.CodeHostRefused, "in debug mode the application accepts only IP addresses, localhost and names without a dot as its host; allow others with the setting hosts (--hosts, web.Options.Hosts) or base-url")
	})
}

// warnNonces logs, once each, which scripts and styles in views the default policy blocks. Browsers report
// them in their consoles only.
func (a *App) warnNonces() {
	if h := a.o.Headers; a.o.Views == nil || h.Off || h.CSPReportOnly || h.CSP != "" && h.CSP != DefaultCSP {
		return
	}
	for _, p := range a.o.Views.WithoutNonce() {
		nonce := "{{.nonce}}"
		if strings.HasSuffix(p.File, ".z.html") {
			nonce = "#{nonce}"
		}
		text := fmt.Sprintf("%s:%d: this %s has no nonce; the Content-Security-Policy blocks it: write <%s nonce=\"%s\">", p.File, p.Line, p.Element, p.Element, nonce)
		if _, said := a.nonceless.LoadOrStore(text, true); !said {
			a.o.Logger.Warn(text)
		}
	}
}

// reload sends a browser the state, now and whenever it changes.
func (a *App) reload(c *Context) error {
	return c.SSE(EventOptions{Retry: reloadRetry}, func(s *Events) error {
		tick := time.NewTicker(reloadPoll)
		defer tick.Stop()
		for told := ""; ; {
			if state := a.devState(); state != told {
				if err := s.Send(Event{Name: "state", Data: state}); err != nil {
					return err
				}
				told = state
			}
			select {
			case <-s.Context().Done():
				return nil
			case <-tick.C:
			}
		}
	})
}

// devState identifies this run of the program and the contents of its files.
func (a *App) devState() string { return a.ids.Run() + a.devFiles() }

// devFiles identifies the contents of the files. It is the same on all nodes that have the same files.
func (a *App) devFiles() string {
	var views, files uint64
	if a.o.Views != nil {
		views = a.o.Views.Fingerprint()
	}
	if a.o.Assets != nil {
		files = a.o.Assets.fingerprint()
	}
	return fmt.Sprintf("%x-%x", views, files)
}

// fingerprint is a hash of all files, by their sizes and times. It is constant without AssetOptions.Reload.
func (a *Assets) fingerprint() uint64 {
	h := fnv.New64a()
	if !a.o.Reload {
		return 0
	}
	_ = fs.WalkDir(a.fsys, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil //nolint:nilerr // gone since the folder was listed
		}
		if d.Name()[0] == '.' && name != "." {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if info, err := fs.Stat(a.fsys, name); err == nil && !d.IsDir() {
			fmt.Fprintln(h, name, info.Size(), info.ModTime().UnixNano())
		}
		return nil
	})
	return h.Sum64()
}

// addReload adds the tag to a page whose layout has not loaded its assets.
func (a *App) addReload(page *bytes.Buffer) {
	text := page.Bytes()
	if bytes.Contains(text, []byte(reloadTag)) {
		return
	}
	at := bytes.LastIndex(text, []byte("</body>"))
	if at < 0 {
		at = bytes.LastIndex(text, []byte("</html>"))
	}
	if at < 0 {
		return // not a whole page
	}
	rest := bytes.Clone(text[at:])
	page.Truncate(at)
	page.WriteString(a.reloadTag())
	page.Write(rest)
}

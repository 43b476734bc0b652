package web

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"net/http"
	"time"

	"github.com/skerrydb/skerry/engine"
)

const (
	// reloadPoll is how often it is looked whether files have changed, for every
	// page that is open in a browser.
	reloadPoll = 250 * time.Millisecond
	// reloadQuiet is after how many looks without news the connection is tried.
	reloadQuiet = 40
	// reloadStall is how long a browser may take nothing of the news.
	reloadStall = 10 * time.Second
)

// reloadTag has the browser load a page anew when something has changed. The script
// is of this origin and needs no nonce.
const reloadTag = `<script src="/_dev/reload.js" defer></script>` + "\n"

//go:embed reload.js
var reloadScript string

// addDev adds the routes that are there in debug mode only.
func (a *App) addDev() {
	a.handleApart("GET /_dev/reload.js", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		h := w.Header()
		h["Content-Type"] = []string{mediaType("reload.js")}
		h["Cache-Control"] = []string{"no-store"}
		_, _ = w.Write([]byte(reloadScript))
	}))
	a.handleApart("GET /_dev/reload", http.HandlerFunc(a.reload))
	if a.o.Outbox == nil {
		return
	}
	box := http.StripPrefix("/_dev/outbox", a.o.Outbox)
	a.handleApart("GET /_dev/outbox/", Handler(func(c *Context) error {
		if a.relay != nil && !a.relay.leads() && !c.x.fromNode {
			return engine.ErrNotLeader // mail is sent where things are written
		}
		box.ServeHTTP(c.Writer, c.Request)
		return nil
	}))
}

// reload tells a browser what the state is, now and when it has changed. It ends
// with the connection, and when the server stops.
func (a *App) reload(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h["Content-Type"] = []string{"text/event-stream"}
	h["Cache-Control"] = []string{"no-store"}
	rc := http.NewResponseController(w)
	_, _ = w.Write([]byte("retry: 500\n\n")) // an error shows when it is flushed
	tick := time.NewTicker(reloadPoll)
	defer tick.Stop()
	told, quiet := "", 0
	for !a.stopping() {
		if state := a.devState(); state != told {
			fmt.Fprintf(w, "event: state\ndata: %s\n\n", state)
			told, quiet = state, 0
		} else if quiet++; quiet == reloadQuiet {
			fmt.Fprint(w, ":\n\n")
			quiet = 0
		}
		_ = rc.SetWriteDeadline(time.Now().Add(reloadStall)) // a recorder has none
		if rc.Flush() != nil {
			return
		}
		select {
		case <-r.Context().Done():
			return
		case <-tick.C:
		}
	}
}

// stopping reports whether the server does not serve any more.
func (a *App) stopping() bool { return a.o.Ready != nil && errors.Is(a.o.Ready(), engine.ErrClosed) }

// devState names this run of the program and what is in its files.
func (a *App) devState() string {
	var views, files uint64
	if a.o.Views != nil {
		views = a.o.Views.Fingerprint()
	}
	if a.o.Assets != nil {
		files = a.o.Assets.fingerprint()
	}
	return fmt.Sprintf("%s%x-%x", a.ids.run, views, files)
}

// fingerprint is a number for all files as they are now, by their sizes and times;
// always the same without AssetOptions.Reload.
func (a *Assets) fingerprint() uint64 {
	h := fnv.New64a()
	if !a.o.Reload {
		return 0
	}
	_ = fs.WalkDir(a.fsys, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil // gone since the folder was listed
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

// addReload puts reloadTag into a page whose layout has not asked for its assets.
func addReload(page *bytes.Buffer) {
	text := page.Bytes()
	if bytes.Contains(text, []byte(reloadTag)) {
		return
	}
	at := bytes.LastIndex(text, []byte("</body>"))
	if at < 0 {
		at = bytes.LastIndex(text, []byte("</html>"))
	}
	if at < 0 {
		return // a part of a page
	}
	rest := bytes.Clone(text[at:])
	page.Truncate(at)
	page.WriteString(reloadTag)
	page.Write(rest)
}

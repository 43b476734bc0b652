package dev

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/skerrydb/skerry/cli/dev/front"
	"github.com/skerrydb/skerry/cli/serve"
	"github.com/skerrydb/skerry/cli/verb"
)

// command returns the command that runs a node of the program.
func (w *builder) command(n Node) (file string, args []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	args = append(n.flags(w.o), "--http", "127.0.0.1:0", "--admin", n.Admin, "--debug", "--source", w.program.Main, "--trusted-proxies", "127.0.0.1,::1")
	if !slices.ContainsFunc(w.flags, func(f string) bool { return strings.HasPrefix(strings.TrimLeft(f, "-"), "base-url") }) {
		args = append(args, "--base-url", "http://"+n.HTTP)
	}
	return w.file, append(args, w.flags...)
}

// up waits until a listening node is ready, and then forwards requests to it.
func (w *builder) up(n Node, a serve.Announcement) {
	target, err := url.Parse(a.HTTP)
	if err != nil || target.Host == "" {
		w.say("node %d has no HTTP address, so it gets no requests", n.ID)
		return
	}
	ctx, stop := context.WithCancel(w.run.ctx)
	w.mu.Lock()
	w.live = a.Live
	w.ready[n.ID] = stop
	w.mu.Unlock()
	go func() {
		defer stop()
		if !isReady(ctx, a.HTTP) {
			return
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		if ctx.Err() != nil { // down was called meanwhile
			return
		}
		w.fronts[n.ID].Open(target)
		if !w.since.IsZero() {
			w.say("%s in %v: http://%s", w.p.Paint(w.p.Stderr, verb.Green, "ready"), time.Since(w.since).Round(time.Millisecond), n.HTTP)
			w.since = time.Time{}
			if a.Outbox != "" && !w.mailShown {
				w.mailShown = true
				w.say("mail: http://%s%s (not sent)", n.HTTP, serve.OutboxPath)
			}
		}
	}()
}

// isReady polls a server until it is ready, or ctx ends. A server without a route for that is always ready.
func isReady(ctx context.Context, at string) bool {
	for ctx.Err() == nil {
		if req, err := http.NewRequestWithContext(ctx, http.MethodGet, at+"/readyz", nil); err == nil {
			if resp, err := http.DefaultClient.Do(req); err == nil {
				resp.Body.Close()
				if resp.StatusCode != http.StatusServiceUnavailable {
					return true
				}
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(readyEvery):
		}
	}
	return false
}

// down makes requests wait: a node has ended or is about to end.
func (w *builder) down(n Node) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if stop := w.ready[n.ID]; stop != nil {
		stop()
	}
	w.fronts[n.ID].Hold()
}

// failed shows why a node does not start.
func (w *builder) failed(n Node, words string, waits bool) {
	note := "It will be tried once more."
	if waits {
		note = "It starts again when a file changes."
	}
	w.fronts[n.ID].Crashed(front.Failure{Title: w.program.Name + " exits before it serves", Text: words, Note: note})
}

// announce prints the addresses.
func (w *builder) announce() error {
	out := w.p.Stdout
	if w.o.json {
		return verb.PrintJSON(out, map[string]any{"data": w.o.data, "program": w.program.Main, "nodes": w.nodes})
	}
	fmt.Fprintf(out, "%s, from %s, with %s in %s\n", w.program.Name, w.place(w.program.Main), verb.Plural(len(w.nodes), "node"), w.o.data)
	t := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	for _, n := range w.nodes {
		name := ""
		if len(w.nodes) > 1 {
			name = fmt.Sprintf(" %d", n.ID)
		}
		fmt.Fprintf(t, "  HTTP%s\thttp://%s\n  Redis%s\tredis://%s\n  admin%s\thttp://%s\n", name, n.HTTP, name, n.RESP, name, n.Admin)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintln(out, "Ctrl-C stops it and keeps the data")
	return err
}

package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/skerrydb/skerry/cli/top"
	"github.com/skerrydb/skerry/cli/verb"
	"github.com/skerrydb/skerry/engine"
)

var topVerb = verb.Verb{
	Name: "top", Short: "watch running servers in the terminal: load, latency, memory and what is wrong",
	Long: `Shows each server with its role, requests, writes, latency, memory, disk and how many
transactions it is behind the leader, what is wrong with any of them, and the history of the
chosen one. The numbers come from /metrics, /cluster and /nodes of the operator's
address; nodes of a cluster that are not given have memory and disk only.

Keys: q or ctrl-c quits, p pauses, the arrows and tab choose a server.

If the standard output is not a terminal, or with --once or --json, it prints one snapshot,
for which it reads the servers twice within a second. The exit code is 1 if none responds.`,
	Start: func(app verb.App) verb.Action {
		o := &topOptions{}
		settings := append([]verb.Setting{
			{Name: "url", Arg: "URL,…", Default: defaultURL(app), Help: "HTTP addresses of running servers; the admin address of those that serve a web application", Set: verb.List(&o.urls)},
			{Name: "every", Arg: "TIME", Default: "2s", Help: "time between two reads of a server", Set: verb.Duration(&o.every, 100*time.Millisecond, time.Hour)},
			{Name: "once", Help: "print one snapshot and exit", Set: verb.Toggle(&o.once)},
			verb.JSON(&o.json),
		}, o.accessSettings()...)
		check := func(rest []string) error {
			return verb.Mistakes(verb.NoArguments(rest), o.prepare())
		}
		return verb.Action{Settings: settings, Check: check, Do: o.do}
	},
}

// maxServers bounds the servers that one terminal watches.
const maxServers = 64

type topOptions struct {
	remote  // what all servers have in common
	urls    []string
	servers []remote
	every   time.Duration
	once    bool
	json    bool
}

// prepare checks the settings and makes a remote of each URL.
func (o *topOptions) prepare() error {
	if len(o.urls) > maxServers {
		return fmt.Errorf("--url: %d servers are more than %d", len(o.urls), maxServers)
	}
	var wrong []error
	for _, u := range o.urls {
		r := o.remote
		r.url = u
		wrong = append(wrong, r.check("url"))
		o.servers = append(o.servers, r)
	}
	return verb.Mistakes(wrong...)
}

func (o *topOptions) do(ctx context.Context, p verb.Process, _ []string) error {
	options := top.Options{Every: o.every, ASCII: !p.Draws(p.Stdout)}
	for i := range o.servers {
		r := &o.servers[i]
		name := strings.TrimSuffix(r.url, "/")
		if u, err := url.Parse(name); err == nil {
			name = u.Redacted()
		}
		options.Sources = append(options.Sources, top.Source{Name: name, Fetch: r.fetch})
	}
	if o.once || o.json || !interactive(p) {
		return top.Once(ctx, options, p.Stdout, o.json)
	}
	return top.Watch(ctx, options)
}

// interactive reports whether the standard output is a terminal that can be drawn on.
func interactive(p verb.Process) bool {
	return verb.Terminal(p.Stdout) && !slices.Contains(p.Environ, "TERM=dumb")
}

// fetch returns the body of the response to a GET, as a top.Source does.
func (r *remote) fetch(ctx context.Context, path string) ([]byte, error) {
	resp, err := r.ask(ctx, http.MethodGet, path, nil, nil)
	if no, ok := errors.AsType[*refusal](err); ok && no.Code == engine.CodeUnauthenticated {
		return nil, refusedPassword{no}
	}
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err == nil && len(b) > maxAnswer {
		err = fmt.Errorf("%s is larger than %s", path, verb.FormatSize(maxAnswer))
	}
	return b, err
}

// refusedPassword is a refusal that no further request changes.
type refusedPassword struct{ *refusal }

func (refusedPassword) Is(err error) bool { return err == top.ErrRefused }

package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/skerrydb/skerry"
	"github.com/skerrydb/skerry/cli/serve"
	"github.com/skerrydb/skerry/cli/verb"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/embedded"
	"github.com/skerrydb/skerry/record/keys"
	"github.com/skerrydb/skerry/transfer"
	"github.com/skerrydb/skerry/web/transfers"
)

// moveOptions are the options of `skerry move`.
type moveOptions struct {
	remote  remote // of the server, if from is one
	from    *url.URL
	to      *url.URL
	abandon bool
	json    bool
	carry   skerry.CarryOptions // for a target that cannot carry everything
}

var moveVerb = verb.Verb{
	Name: "move", Short: "move all data from one engine to another while the source serves",
	Long: `--from is the HTTP address of a running server (the admin address if it serves a web
application), for a cluster that of any node; the URL of a database; or the data folder of
a server that does not run, embedded:FOLDER. --to is the URL of an engine without data.

The verb copies, follows the changes meanwhile, and compares everything. Then the source
takes no more writes (503, code fenced) while the last changes follow and what changed is
compared again. When the verb ends, the target is complete: start servers on it and direct
clients there. The source keeps refusing writes, so that none is lost.

If the verb is stopped or fails, also because the target is full, run it again with the
same --from and --to: it continues. Until it has finished, --abandon ends the move.

Cassandra and a Redis Cluster cannot carry everything. Keys, sessions of SCS and, on
Cassandra, time series are moved; other sessions are left behind, so that everybody logs in
again. The move is refused by name if there is other data, unless --leave names it. The
source refuses writes from the beginning of the copy on, also while the verb is stopped.`,
	Start: func(app verb.App) verb.Action {
		o := &moveOptions{}
		settings := append([]verb.Setting{
			{Name: "from", Arg: "URL", Help: "running server, like " + defaultURL(app) + ", or engine to move the data from", Set: engineURL(&o.from)},
			{Name: "to", Arg: "URL", Help: "engine to move the data to", Set: engineURL(&o.to)},
			{Name: "abandon", Help: "end an unfinished move; without --to also if the target is lost", Set: verb.Toggle(&o.abandon)},
			{Name: "leave", Arg: "NAMES", Help: "data to leave behind if the target is Cassandra or a Redis Cluster, which cannot carry all of it: any of " + strings.Join(skerry.Leavable(), ","), Set: func(v string) error {
				o.carry.Leave = strings.Split(v, ",")
				return nil
			}},
			{Name: "series", Arg: "NAMES", Help: "how long Cassandra keeps the samples of each collection of time series, as for serve: telegraf=30d,plant=1y", Set: serve.SeriesList(&o.carry.Series)},
			verb.JSON(&o.json),
		}, o.remote.accessSettings()...)
		return verb.Action{Settings: settings, Check: o.check, Do: func(ctx context.Context, p verb.Process, _ []string) error {
			if o.abandon {
				return o.end(ctx, p)
			}
			return o.move(ctx, p)
		}}
	},
}

// engineURL parses the URL of an engine.
func engineURL(to **url.URL) func(string) error {
	return func(v string) (err error) {
		*to, err = verb.ParseEngine(v)
		return err
	}
}

func served(u *url.URL) bool { return u != nil && (u.Scheme == "http" || u.Scheme == "https") }

func (o *moveOptions) check(rest []string) error {
	wrong := []error{verb.NoArguments(rest)}
	switch {
	case o.from == nil:
		wrong = append(wrong, errors.New("needs --from URL"))
	case served(o.from):
		o.remote.url = o.from.String()
	}
	wrong = append(wrong, o.remote.check("from"))
	switch {
	case o.to == nil && !o.abandon:
		wrong = append(wrong, errors.New("needs --to URL"))
	case served(o.to):
		wrong = append(wrong, errors.New("--to: the target must be an engine that no server uses, not a server"))
	case o.to != nil && o.from != nil && same(o.from, o.to):
		wrong = append(wrong, errors.New("--from and --to name the same engine"))
	}
	return verb.Mistakes(wrong...)
}

// same reports whether two URLs name the same engine, as far as they show it.
func same(a, b *url.URL) bool {
	if a.Scheme != verb.Embedded || b.Scheme != verb.Embedded {
		return a.String() == b.String()
	}
	x, errX := verb.Folder(a)
	y, errY := verb.Folder(b)
	if errX != nil || errY != nil {
		return false // opening them reports it
	}
	x, errX = filepath.Abs(x)
	y, errY = filepath.Abs(y)
	return errX == nil && errY == nil && x == y
}

// source opens the source. close releases it.
func (o *moveOptions) source(ctx context.Context, p verb.Process) (src transfer.Source, about transfer.About, closing func() error, err error) {
	closing = func() error { return nil }
	if served(o.from) {
		src = transfers.Client{Ask: o.ask}
	} else {
		options := quiet(p)
		if dir, err := verb.Folder(o.from); o.from.Scheme == verb.Embedded && err == nil {
			if _, err := os.Stat(dir); err != nil {
				return nil, about, nil, fmt.Errorf("--from: %w", err) // opening it would create it
			}
			options.MemoryBytes = verb.NoLimit
		}
		eng, err := p.Engines.Open(ctx, o.from, options)
		if err != nil {
			return nil, about, nil, fmt.Errorf("open the source: %w", err)
		}
		src, closing = transfer.Of(eng), eng.Close
	}
	if about, err = src.About(ctx); err != nil {
		return nil, about, nil, errors.Join(fmt.Errorf("read the source: %w", err), closing())
	}
	return src, about, closing, nil
}

// quiet are the options of an engine of a move.
func quiet(p verb.Process) verb.EngineOptions {
	return verb.EngineOptions{Logger: verb.Quiet(p.Stderr)}
}

// ask sends one request of a move to the server. Its errors have the server's codes.
func (o *moveOptions) ask(ctx context.Context, method, path string) (io.ReadCloser, error) {
	resp, err := o.remote.ask(ctx, method, path, nil, nil)
	if no, ok := errors.AsType[*refusal](err); ok {
		return nil, engine.Errorf(no.Code, "%s", no.Detail)
	}
	if err != nil && ctx.Err() == nil {
		return nil, engine.Errorf(engine.CodeUnavailable, "%w", err)
	}
	if err != nil {
		return nil, ctx.Err()
	}
	return resp.Body, nil
}

// target opens the target, whose positions and times must come after the source's where that can be chosen.
func (o *moveOptions) target(ctx context.Context, p verb.Process, about transfer.About) (engine.Engine, error) {
	if o.to.Scheme == verb.Embedded {
		dir, err := verb.Folder(o.to)
		if err != nil {
			return nil, verb.Mistakes(err)
		}
		if embedded.Unused(dir) {
			if err := embedded.CreateAfter(ctx, dir, transfer.NextEpoch(about.Position), about.Time, embedded.Options{Logger: verb.Quiet(p.Stderr)}); err != nil {
				return nil, err
			}
		}
	}
	eng, err := p.Engines.Open(ctx, o.to, quiet(p))
	if err != nil {
		return nil, fmt.Errorf("open the target: %w", err)
	}
	return eng, nil
}

func (o *moveOptions) move(ctx context.Context, p verb.Process) (err error) {
	src, about, closing, err := o.source(ctx, p)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closing()) }()
	if about.Outside != "" && len(o.carry.Leave) == 0 {
		return engine.Errorf(engine.CodeUnsupported, "the source has %s in tables, and a move copies keys: convert them first, while a server of the source runs, with `skerry migrate convert --to keys --wait`", about.Outside)
	}
	dst, err := o.target(ctx, p, about)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dst.Close()) }()
	if skerry.Weaker(dst) {
		return o.carryTo(ctx, p, src, dst)
	}
	if len(o.carry.Leave)+len(o.carry.Series) > 0 {
		return verb.Mistakes(errors.New("--leave and --series are for targets that cannot carry everything; this one can"))
	}
	needs := map[string]engine.Promises{}
	for _, n := range skerry.Needs() {
		needs[n.Name] = n.Promises
	}
	bar := newProgress(p)
	res, err := transfer.Run(ctx, src, dst, transfer.Options{From: verb.Redacted(o.from), To: verb.Redacted(o.to), Needs: needs, Report: shower(bar)})
	bar.end()
	if err != nil {
		return err
	}
	if o.json {
		return verb.PrintJSON(p.Stdout, res)
	}
	if _, err = fmt.Fprintf(p.Stdout, `moved %s, %s, all of it compared; %s applied meanwhile
source: %s takes no more writes; its last position is %d
target: %s is complete at position %d; serve it and direct clients there
writes were stopped for %v
`, verb.Plural(int(res.Pairs), "pair"), verb.FormatSize(res.Bytes), verb.Plural(int(res.Changes), "change"), verb.Redacted(o.from), res.From, verb.Redacted(o.to), res.To, res.Paused.Round(time.Millisecond)); err != nil {
		return err
	}
	return hintTables(ctx, p, dst)
}

// carryTo moves what the target can carry.
func (o *moveOptions) carryTo(ctx context.Context, p verb.Process, src transfer.Source, dst engine.Engine) error {
	bar := newProgress(p)
	c := o.carry
	c.Options = transfer.Options{From: verb.Redacted(o.from), To: verb.Redacted(o.to), Report: shower(bar)}
	c.Series = slices.Concat(p.App.Series, c.Series)
	c.Notice = func(text string) { fmt.Fprintln(p.Stderr, text) }
	res, err := skerry.Carry(ctx, src, dst, c)
	bar.end()
	if err != nil {
		return err
	}
	if o.json {
		return verb.PrintJSON(p.Stdout, res)
	}
	for _, name := range slices.Sorted(maps.Keys(res.Items)) {
		if _, err := fmt.Fprintf(p.Stdout, "moved and compared: %s (%d)\n", name, res.Items[name]); err != nil {
			return err
		}
	}
	_, err = fmt.Fprintf(p.Stdout, `source: %s takes no more writes; its last position is %d
target: %s is complete; serve it and direct clients there
writes were stopped for %v, and before if the move was continued
`, verb.Redacted(o.from), res.From, verb.Redacted(o.to), res.Paused.Round(time.Millisecond))
	return err
}

// hintTables says how collections that have arrived in keys come into tables, if new ones would be there.
func hintTables(ctx context.Context, p verb.Process, dst engine.Engine) (err error) {
	var names []string
	if _, err = dst.View(ctx, engine.Read{}, func(tx engine.Tx) (err error) { names, err = keys.Behind(tx); return err }); err != nil || len(names) == 0 {
		return err
	}
	_, err = fmt.Fprintf(p.Stdout, "the records of %s are in keys: once a server runs on the target, `skerry migrate convert --to tables` puts them into tables\n", strings.Join(names, ", "))
	return err
}

// shower shows the progress of a move, with the rate of its stage and an estimate of the time left.
func shower(bar *progress) func(transfer.Progress) {
	var stage transfer.Stage
	var began time.Time
	var first transfer.Progress
	return func(now transfer.Progress) {
		if now.Stage != stage {
			stage, began, first = now.Stage, time.Now(), now
		}
		text := map[transfer.Stage]string{transfer.Copying: "copied", transfer.Verifying: "compared"}[stage]
		if text == "" {
			bar.show("%s: %d changes applied", stage, now.Changes)
			return
		}
		took := time.Since(began).Seconds()
		rate := float64(now.Pairs-first.Pairs) / max(took, 1e-3)
		left := ""
		if rate > 0 && now.Total > now.Pairs {
			left = fmt.Sprintf(", about %v left", (time.Duration(float64(now.Total-now.Pairs)/rate) * time.Second).Round(time.Second))
		}
		bar.show("%s %d of %d pairs, %.0f/s%s; %d changes applied", text, now.Pairs, now.Total, rate, left, now.Changes)
	}
}

// end abandons the move.
func (o *moveOptions) end(ctx context.Context, p verb.Process) (err error) {
	src, about, closing, err := o.source(ctx, p)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closing()) }()
	var dst engine.Engine
	if o.to != nil {
		if dst, err = o.target(ctx, p, about); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, dst.Close()) }()
	}
	m, err := transfer.Abandon(ctx, src, dst)
	if err != nil {
		return err
	}
	if o.json {
		return verb.PrintJSON(p.Stdout, m)
	}
	_, err = fmt.Fprintf(p.Stdout, "the move to %s has ended; %s takes writes\n", m.To, verb.Redacted(o.from))
	return err
}

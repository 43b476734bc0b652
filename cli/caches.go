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
	"text/tabwriter"
	"time"

	"github.com/skerrydb/skerry"
	"github.com/skerrydb/skerry/cache"
	"github.com/skerrydb/skerry/cli/verb"
	"github.com/skerrydb/skerry/engine"
)

var cacheVerb = verb.Verb{
	Name: "cache", Args: "stats|flush …", Short: "show and empty the caches of a running application",
	Long: `These are the caches that the application has opened with skerry.Services.Cache, on the
node at the admin address.`,
	Subs: []verb.Verb{cacheStatsVerb, cacheFlushVerb},
}

var cacheStatsVerb = verb.Verb{
	Name: "cache stats", Args: "[NAME]", Short: "show how the caches are doing",
	Start: func(app verb.App) verb.Action {
		o := &cacheOptions{}
		check := func(rest []string) error {
			var what error
			if len(rest) > 1 {
				what = errors.New("takes the name of one cache at most")
			}
			return verb.Mistakes(what, o.check("url"))
		}
		return verb.Action{Settings: o.settings(app), Check: check, Do: func(ctx context.Context, p verb.Process, rest []string) error {
			all, err := o.stats(ctx, strings.Join(rest, ""))
			if err != nil {
				return err
			}
			if o.json {
				return verb.PrintJSON(p.Stdout, skerry.CacheStats{Caches: all})
			}
			return printCaches(p.Stdout, all)
		}}
	},
}

var cacheFlushVerb = verb.Verb{
	Name: "cache flush", Args: "NAME", Short: "drop all entries of a cache, in memory and on disk",
	Start: func(app verb.App) verb.Action {
		o := &cacheOptions{}
		var every bool
		settings := o.settings(app, verb.Setting{Name: "all", Help: "empty every cache", Set: verb.Toggle(&every)})
		check := func(rest []string) error {
			var what error
			if every && len(rest) > 0 || !every && (len(rest) != 1 || rest[0] == "") {
				what = errors.New("needs the name of a cache or --all")
			}
			return verb.Mistakes(what, o.check("url"))
		}
		return verb.Action{Settings: settings, Check: check, Do: func(ctx context.Context, p verb.Process, rest []string) error {
			return o.flush(ctx, p, rest)
		}}
	},
}

// cacheOptions are the options of the verbs about caches.
type cacheOptions struct {
	remote
	json bool
}

func (o *cacheOptions) settings(app verb.App, more ...verb.Setting) []verb.Setting {
	return append(append([]verb.Setting{urlSetting(&o.url, defaultURL(app)), verb.JSON(&o.json)}, more...), o.accessSettings()...)
}

// stats returns the metrics of the cache with a name, or of all if it is "".
func (o *cacheOptions) stats(ctx context.Context, name string) ([]cache.Stats, error) {
	var all skerry.CacheStats
	if err := o.askJSON(ctx, "/caches", &all); err != nil {
		return nil, err
	}
	slices.SortFunc(all.Caches, func(a, b cache.Stats) int { return strings.Compare(a.Name, b.Name) })
	if name == "" {
		return all.Caches, nil
	}
	for _, c := range all.Caches {
		if c.Name == name {
			return []cache.Stats{c}, nil
		}
	}
	return nil, engine.Errorf(engine.CodeNotFound, "there is no cache %.80q", name)
}

// flush empties the caches with the given names, or all.
func (o *cacheOptions) flush(ctx context.Context, p verb.Process, names []string) error {
	if len(names) == 0 {
		all, err := o.stats(ctx, "")
		if err != nil {
			return err
		}
		for _, c := range all {
			names = append(names, c.Name)
		}
	}
	after := skerry.CacheStats{Caches: []cache.Stats{}}
	for _, name := range names {
		var c cache.Stats
		if err := o.sendJSON(ctx, http.MethodPost, "/caches/"+url.PathEscape(name), struct{}{}, &c); err != nil {
			return err
		}
		after.Caches = append(after.Caches, c)
		if !o.json {
			if _, err := fmt.Fprintf(p.Stdout, "cache %s is empty\n", name); err != nil {
				return err
			}
		}
	}
	if o.json {
		return verb.PrintJSON(p.Stdout, after)
	}
	return nil
}

// printCaches prints a block for each cache.
func printCaches(w io.Writer, all []cache.Stats) error {
	if len(all) == 0 {
		_, err := fmt.Fprintln(w, "the application has no caches")
		return err
	}
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	for i, c := range all {
		if i > 0 {
			fmt.Fprintln(t)
		}
		fmt.Fprintf(t, "%s\t%s\n", c.Name, freshness(c))
		memory := c.MemoryHits + c.MissingHits
		reads := memory + c.DiskHits + c.Joined + c.Loaded
		row := func(what string, n uint64) { fmt.Fprintf(t, "  %s\t%d\t%s\n", what, n, share(n, reads)) }
		row("reads from memory", memory)
		if c.Disk != nil {
			row("reads from disk", c.DiskHits)
		}
		row("reads that joined a load", c.Joined)
		row("keys loaded", c.Loaded)
		fmt.Fprintf(t, "  calls of the source\t%d\t%d failed keys, %d under way, %d keys waiting\n", c.Loads, c.Failed, c.Calls, c.Queued)
		fmt.Fprintf(t, "  changed keys\t%d\t%d while they were loaded\n", c.Invalidations, c.NotKept)
		fmt.Fprintf(t, "  emptied\t%d\t%d by gaps of the feed, %d times lost\n", c.Flushes+c.Gaps, c.Gaps, c.Lost)
		fmt.Fprintf(t, "  waits for a position\t%d\n", c.Waits)
		fmt.Fprintf(t, "  memory\t%s\tof %s, %d entries, %d evicted\n", verb.FormatSize(c.Memory.Bytes), verb.FormatSize(c.Memory.Max), c.Memory.Entries, c.Memory.Evicted)
		if d := c.Disk; d != nil {
			fmt.Fprintf(t, "  disk\t%s\tof %s, %d entries, %d not written yet\n", verb.FormatSize(d.Bytes), verb.FormatSize(d.Max), d.Entries, d.Queued)
			if d.Error != "" {
				fmt.Fprintf(t, "  disk is off\t%s\n", d.Error)
			}
		}
	}
	return t.Flush()
}

// freshness says in words whether a cache answers.
func freshness(c cache.Stats) string {
	switch {
	case c.Age == 0 && c.Fresh:
		return fmt.Sprintf("entries are at most %v old", c.Staleness)
	case c.Fresh:
		return fmt.Sprintf("%v behind at most, %v allowed, %d bytes of changes to come", c.Age.Round(time.Millisecond), c.Staleness, c.LagBytes)
	default:
		return "not fresh: reads go to the source until the feed of changes is back"
	}
}

func share(n, of uint64) string {
	if of == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f %%", 100*float64(n)/float64(of))
}

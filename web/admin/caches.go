package admin

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/web"
)

func (a *Admin) addCaches(g *web.Group) {
	g.Get("/caches", a.cachesPage)
	g.Post("/caches/{name}/flush", a.flushCache, superadmin)
}

// cacheCard is a cache as the page shows it.
type cacheCard struct {
	Cache
	State  string
	Shares []tierShare
}

// tierShare is a tier with its share of all reads.
type tierShare struct {
	Tier
	Share string
}

// cachesPage shows the caches of this node, of which a server has at most 100.
func (a *Admin) cachesPage(c *web.Context) error {
	var cards []cacheCard
	for _, x := range a.o.Caches() {
		card := cacheCard{Cache: x, State: a.cacheState(x)}
		var sum uint64
		for _, t := range x.Reads {
			sum += t.Reads
		}
		for _, t := range x.Reads {
			share := "–"
			if sum > 0 {
				share = fmt.Sprintf("%.1f %%", 100*float64(t.Reads)/float64(sum))
			}
			card.Shares = append(card.Shares, tierShare{t, share})
		}
		cards = append(cards, card)
	}
	slices.SortFunc(cards, func(x, y cacheCard) int { return strings.Compare(x.Name, y.Name) })
	return a.show(c, http.StatusOK, "caches", web.Locals{"title": a.text("Caches"), "cards": cards, "cluster": a.o.Cluster != nil})
}

// cacheState says how old the answers of a cache are.
func (a *Admin) cacheState(x Cache) string {
	switch {
	case !x.Fresh:
		return a.text("Reads go to the source until the feed of changes is back.")
	case x.Age == 0:
		return a.text("Entries are at most %v old.", x.Staleness)
	}
	return a.text("At most %v stale (limit %v).", x.Age.Round(time.Millisecond), x.Staleness)
}

func (a *Admin) flushCache(c *web.Context) error {
	name := c.Path("name").String()
	if !slices.ContainsFunc(a.o.Caches(), func(x Cache) bool { return x.Name == name }) {
		return engine.Errorf(engine.CodeNotFound, "there is no cache %.80q", name)
	}
	if err := a.act(c, "cache.flush", name, "", func() error { return a.o.FlushCache(c, name) }); err != nil {
		return err
	}
	return a.done(c, "/caches", "flushed")
}

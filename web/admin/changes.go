package admin

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/feed"
	"github.com/skerrydb/skerry/keyspace"
	"github.com/skerrydb/skerry/kv"
	"github.com/skerrydb/skerry/record"
	"github.com/skerrydb/skerry/web"
)

// Limits of the page of changes.
const (
	changesPage     = 50              // changes of one page
	maxChangeWindow = 5000            // positions that one page looks through
	maxChangeParts  = 20              // keys and records that are listed of one change
	maxChangeLooks  = 500             // histories of records that one page reads to learn who changed them
	changesWait     = 5 * time.Second // for the engine to read its history
	changesEvery    = 300 * time.Millisecond
	maxActorHistory = 20 // changes of one record that are read to find one of them
)

func (a *Admin) addChanges(g *web.Group) {
	g.Get("/changes", a.changesPage)
	g.Get("/changes/live", a.changesLive)
}

// changed is a transaction as the page of changes shows it.
type changed struct {
	Pos   engine.Position `json:"pos"`
	Time  time.Time       `json:"-"`
	When  string          `json:"when"`
	Parts []changedPart   `json:"parts"`
	More  int             `json:"more,omitempty"` // parts that are left out
}

// changedPart is a key, a record or something else that a transaction has written.
type changedPart struct {
	Kind    string `json:"kind"` // key, record, schema, series, graph or internal
	Name    string `json:"name"` // for people
	Link    string `json:"link,omitempty"`
	Deleted bool   `json:"deleted,omitempty"`
	By      string `json:"by,omitempty"` // id of the user who changed a record
	Op      string `json:"op,omitempty"` // of the change of a record
	Count   int    `json:"count,omitempty"`

	space          uint8
	key            string
	collection, id string
}

// changeFilter is what somebody wants to see.
type changeFilter struct {
	Kind, Collection, Prefix, Actor, Space string
	Internal                               bool

	space int    // -1: all
	actor string // id
}

func (a *Admin) changeFilter(c *web.Context) (f changeFilter, err error) {
	f = changeFilter{
		Kind: c.Query("kind").String(), Collection: strings.TrimSpace(c.Query("collection").String()), Prefix: c.Query("prefix").String(),
		Actor: strings.TrimSpace(c.Query("actor").String()), Space: strings.TrimSpace(c.Query("space").String()), Internal: c.Query("internal").String() != "", space: -1,
	}
	if f.Space != "" {
		n, err := strconv.ParseUint(f.Space, 10, 8)
		if err != nil || n > uint64(keyspace.LastApplication) {
			return f, engine.Errorf(engine.CodeInvalid, "the space must be a number from 0 to %d, not %q", keyspace.LastApplication, shorten(f.Space, 50))
		}
		f.space = int(n)
	}
	if !slices.Contains([]string{"", "key", "record", "series", "graph"}, f.Kind) {
		return f, engine.Errorf(engine.CodeInvalid, "the kind must be key, record, series or graph, not %q", shorten(f.Kind, 50))
	}
	f.actor = f.Actor
	if strings.Contains(f.Actor, "@") && a.o.Users != nil {
		u, err := a.o.Users.Find(c, engine.Read{Level: engine.Local}, f.Actor)
		if err != nil {
			return f, engine.Errorf(engine.CodeInvalid, "there is no user with the email address %q", shorten(f.Actor, 200))
		}
		f.actor = u.ID
	}
	return f, nil
}

// wants reports whether a part is to be shown, who changed it aside.
func (f *changeFilter) wants(p *changedPart) bool {
	switch {
	case p.Kind == "internal":
		return f.Internal && f.plain()
	case p.Kind == "schema":
		return f.plain()
	case f.Kind != "" && f.Kind != p.Kind:
		return false
	case f.Collection != "" && p.collection != f.Collection:
		return false
	case f.Actor != "" && p.Kind != "record":
		return false
	case f.Prefix != "" && (p.Kind != "key" || !strings.HasPrefix(p.key, f.Prefix)):
		return false
	case f.space >= 0 && (p.Kind != "key" || int(p.space) != f.space):
		return false
	}
	return true
}

// plain reports whether nothing is filtered.
func (f *changeFilter) plain() bool {
	return f.Kind == "" && f.Collection == "" && f.Prefix == "" && f.space < 0 && f.Actor == ""
}

// query returns the filter as a query of a URL.
func (f *changeFilter) query() url.Values {
	q := url.Values{}
	for name, v := range map[string]string{"kind": f.Kind, "collection": f.Collection, "prefix": f.Prefix, "actor": f.Actor, "space": f.Space} {
		if v != "" {
			q.Set(name, v)
		}
	}
	if f.Internal {
		q.Set("internal", "1")
	}
	return q
}

// describe returns what a change has written that a filter wants; no parts: nothing.
func (a *Admin) describe(ch engine.Change, f *changeFilter) changed {
	out := changed{Pos: ch.Pos, Time: ch.Time, When: when(ch.Time)}
	add := func(p changedPart) {
		switch {
		case !f.wants(&p):
		case len(out.Parts) == maxChangeParts:
			out.More++
		default:
			out.Parts = append(out.Parts, p)
		}
	}
	count := map[string]int{}
	for _, w := range ch.Writes {
		if len(w.Key) == 0 {
			continue
		}
		switch w.Key[0] {
		case keyspace.KV:
			if e, ok := kv.Decode(w); ok && e.Space <= keyspace.LastApplication {
				add(keyPart(e))
			} else if ok {
				count["internal"]++
			}
		case keyspace.Series:
			count["series"]++
		case keyspace.Graphs:
			count["graph"]++
		case keyspace.Records, keyspace.KVExpiry, keyspace.KVGraves: // Records below; the others are entries of indexes
		default:
			count["internal"]++
		}
	}
	if a.o.Records != nil {
		seen := map[string]bool{}
		all := a.o.Records.Touched(ch, func(collection, id string) {
			if at := collection + "/" + id; !seen[at] {
				seen[at] = true
				add(changedPart{Kind: "record", Name: shorten(at, maxChangeName), Link: Prefix + recordPath(collection, id), collection: collection, id: id})
			}
		})
		if all {
			add(changedPart{Kind: "schema", Name: a.text("a collection’s schema"), Link: Prefix + "/schema"})
		}
	}
	for kind, text := range map[string]string{"series": "time series", "graph": "a graph", "internal": "internal"} {
		if n := count[kind]; n > 0 {
			add(changedPart{Kind: kind, Name: a.text(text), Count: n})
		}
	}
	return out
}

// maxChangeName bounds the bytes of a key or an id that are shown.
const maxChangeName = 120

// keyPart describes the change of a key.
func keyPart(e kv.Event) changedPart {
	text, _ := keyText(e.Key)
	return changedPart{Kind: "key", Name: shorten(text, maxChangeName), Link: Prefix + "/keys/one?" + string(keyAddress(e.Space, "key", e.Key)), Deleted: e.Deleted, space: e.Space, key: string(e.Key)}
}

// recent returns the newest changes before a position that a filter wants, newest first. next is the position before which
// there may be more, 0 if there are none; truncated: the engine has no older ones any more.
func (a *Admin) recent(ctx context.Context, f *changeFilter, before engine.Position) (all []changed, next engine.Position, truncated bool, err error) {
	end, err := a.o.Feed.Committed()
	if err != nil {
		return nil, 0, false, err
	}
	if before > 0 && before-1 < end {
		end = before - 1
	}
	if end == 0 {
		return nil, 0, false, nil
	}
	after := end - min(end, maxChangeWindow)
	ctx, cancel := context.WithTimeout(ctx, changesWait)
	defer cancel()
	if after, truncated, err = a.oldestKept(ctx, after, end); err != nil || after == end {
		return nil, 0, truncated, err
	}
	looks := maxChangeLooks
	for ch, err := range a.o.Engine.Changes(ctx, after) {
		if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, engine.ErrTruncated) {
			break // what has been read is shown
		}
		if err != nil {
			return nil, 0, truncated, err
		}
		if ch.Pos > end {
			break
		}
		one := a.describe(ch, f)
		if f.Actor != "" {
			a.keepActor(ctx, f.actor, &one, &looks)
		}
		if len(one.Parts) > 0 {
			if all = append(all, one); len(all) > 2*changesPage {
				all = append(all[:0], all[len(all)-changesPage:]...)
				next = all[0].Pos
			}
		}
		if ch.Pos >= end {
			break
		}
	}
	if len(all) > changesPage {
		all = all[len(all)-changesPage:]
		next = all[0].Pos
	}
	if next == 0 && after > 0 && !truncated {
		next = after + 1
	}
	slices.Reverse(all)
	if f.Actor == "" {
		a.nameActors(ctx, all)
	}
	return all, next, truncated, nil
}

// oldestKept returns the least position from after on whose later changes the engine still has, and whether that is not after
// itself.
func (a *Admin) oldestKept(ctx context.Context, after, end engine.Position) (engine.Position, bool, error) {
	kept := func(pos engine.Position) (bool, error) {
		for _, err := range a.o.Engine.Changes(ctx, pos) {
			if errors.Is(err, engine.ErrTruncated) {
				return false, nil
			}
			return err == nil, err
		}
		return true, nil
	}
	if ok, err := kept(after); ok || err != nil {
		return after, false, err
	}
	lo, hi := after, end // lo is not kept
	for lo+1 < hi {
		mid := lo + (hi-lo)/2
		ok, err := kept(mid)
		if err != nil {
			return 0, true, err
		}
		if ok {
			hi = mid
		} else {
			lo = mid
		}
	}
	return hi, true, nil
}

// keepActor drops the parts of a change that somebody else has changed.
func (a *Admin) keepActor(ctx context.Context, actor string, one *changed, looks *int) {
	if len(one.Parts) == 0 {
		return
	}
	a.nameActor(ctx, one, looks)
	one.Parts = slices.DeleteFunc(one.Parts, func(p changedPart) bool { return p.By != actor })
}

// ByUser reports whether By is a user of the application: administrators are named by their address.
func (p changedPart) ByUser() bool { return !strings.Contains(p.By, "@") }

// nameActors says of changes of records who made them, as far as their histories are kept.
func (a *Admin) nameActors(ctx context.Context, all []changed) {
	looks := maxChangeLooks
	for i := range all {
		a.nameActor(ctx, &all[i], &looks)
	}
}

// nameActor does it for one change. A record without a history stays without a name.
func (a *Admin) nameActor(ctx context.Context, one *changed, looks *int) {
	if a.o.Records == nil || *looks == 0 || !slices.ContainsFunc(one.Parts, func(p changedPart) bool { return p.Kind == "record" }) {
		return
	}
	at := one.Time.Truncate(time.Microsecond)
	_, err := a.o.Records.View(ctx, engine.Read{Level: engine.Local}, record.Program(), func(tx *record.Tx) error {
		for i := range one.Parts {
			p := &one.Parts[i]
			if p.Kind != "record" || *looks == 0 {
				continue
			}
			*looks--
			past, err := tx.History(p.collection, p.id, 0, maxActorHistory)
			if err != nil {
				continue // purged, or kept without a history
			}
			for _, h := range past {
				if h.At.Equal(at) {
					p.By, p.Op, p.Deleted = h.By, h.Op, h.Op == "delete" || h.Op == "purge"
					break
				}
			}
		}
		return nil
	})
	if err != nil {
		a.o.Logger.Debug("who changed records", "position", one.Pos, "err", err)
	}
}

func (a *Admin) changesPage(c *web.Context) error {
	f, err := a.changeFilter(c)
	status, problem := http.StatusOK, ""
	var before uint64
	if text := c.Query("before").String(); err == nil && text != "" {
		if before, err = strconv.ParseUint(text, 10, 64); err != nil {
			err = engine.Errorf(engine.CodeInvalid, "before must be a position, not %q", shorten(text, 50))
		}
	}
	var all []changed
	var next engine.Position
	var truncated bool
	began := a.o.Feed.Position() // before the read: the stream repeats rather than misses something
	if err != nil {
		status, problem = http.StatusUnprocessableEntity, c.Detail(err)
	} else if all, next, truncated, err = a.recent(c, &f, engine.Position(before)); err != nil {
		return err
	}
	older := ""
	if next > 0 {
		q := f.query()
		q.Set("before", strconv.FormatUint(uint64(next), 10))
		older = "?" + q.Encode()
	}
	live := ""
	if before == 0 && problem == "" {
		q := f.query()
		q.Set("from", position(began))
		live = Prefix + "/changes/live?" + q.Encode()
	}
	var names []string
	if a.o.Records != nil {
		list, err := a.o.Records.Collections(c, engine.Read{Level: engine.Local})
		if err != nil {
			a.o.Logger.Debug("collections", "err", err) // the field still takes any name
		}
		for _, one := range list {
			names = append(names, one.Name)
		}
	}
	return a.show(c, status, "changes", web.Locals{
		"title": a.text("Changes"), "changes": all, "older": older, "truncated": truncated && next == 0, "filter": f, "problem": problem, "collections": names,
		"live": live != "", "url": live, "window": maxChangeWindow, "filtered": !f.plain(),
	})
}

// changesLive streams changes. A burst is sent as its newest changes and how many were left out.
func (a *Admin) changesLive(c *web.Context) error {
	f, err := a.changeFilter(c)
	if err != nil {
		return err
	}
	from := cmp.Or(c.Query("after").String(), c.Query("from").String()) // events.mjs appends after when it connects again
	after, _ := strconv.ParseUint(from, 10, 64)                         // malformed: from now on
	return c.SSE(web.EventOptions{Retry: 2 * time.Second}, func(s *web.Events) error {
		pos := engine.Position(after)
		if id, err := strconv.ParseUint(s.LastID(), 10, 64); err == nil {
			pos = engine.Position(id)
		}
		if pos == 0 {
			pos = a.o.Feed.Position()
		}
		for {
			sub, err := a.o.Feed.Subscribe(feed.Filter{Prefixes: [][]byte{{}}}, pos)
			if err == nil {
				err = a.sendChanges(c, s, sub, &f)
				sub.Close()
			}
			if !errors.Is(err, engine.ErrTruncated) {
				return err
			}
			pos = a.o.Feed.Position()
			if err := s.SendJSON(web.Event{ID: position(pos), Name: "truncated"}, true); err != nil {
				return err
			}
		}
	})
}

func position(pos engine.Position) string { return strconv.FormatUint(uint64(pos), 10) }

// burst is what the stream sends at once.
type burst struct {
	Changes []changed `json:"changes"` // oldest first
	Skipped int       `json:"skipped"`
}

// sendChanges sends what a subscription delivers until one of them ends.
func (a *Admin) sendChanges(c *web.Context, s *web.Events, sub *feed.Sub, f *changeFilter) error {
	var pos engine.Position // of the newest change that was looked at
	looks := maxChangeLooks
	var b burst
	take := func(ch engine.Change) {
		pos = ch.Pos
		one := a.describe(ch, f)
		if f.Actor != "" {
			a.keepActor(s.Context(), f.actor, &one, &looks)
		}
		if len(one.Parts) > 0 {
			if b.Changes = append(b.Changes, one); len(b.Changes) > changesPage {
				b.Changes, b.Skipped = b.Changes[1:], b.Skipped+1
			}
		}
	}
	tick := time.NewTicker(changesEvery)
	defer tick.Stop()
	for checked := a.o.Now(); ; {
		select {
		case <-s.Context().Done():
			return nil
		case ch, ok := <-sub.C:
			if !ok {
				return sub.Err()
			}
			take(ch)
			continue
		case <-tick.C:
		}
		looks = maxChangeLooks
		if now := a.o.Now(); now.Sub(checked) > sampleEvery {
			if checked = now; !a.lookAgain(c) {
				return nil
			}
		}
		if len(b.Changes) > 0 {
			a.nameActors(s.Context(), b.Changes)
			if err := s.SendJSON(web.Event{ID: position(pos), Name: "changes"}, b); err != nil {
				return err
			}
			b = burst{}
		}
	}
}

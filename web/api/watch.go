package api

import (
	"context"
	"errors"
	"net/http"
	"strconv"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/kv"
	"github.com/skerrydb/skerry/web"
)

const watchPath = "/watch"

// MaxWatchedValue is the longest value, in bytes, that an event of /watch has with values=1. The event of a
// longer one has only its revision.
const MaxWatchedValue = 128 << 10

// watch serves GET /watch to operators: a stream of events, one for each key that was set or deleted. This node
// serves it from its own feed.
func (a *app) watch(c *web.Context) error {
	x, r := &operation{app: a, c: c, fromNode: c.FromNode()}, c.Request
	if err := a.store.Promises().Meets("watching keys", engine.Promises{Feed: true}); err != nil {
		return err
	}
	q, err := x.keyQuery(r, "prefix", "values", "after")
	if err != nil {
		return err
	}
	values := q.Get("values") == "1"
	if v := q.Get("values"); q.Has("values") && v != "0" && v != "1" {
		return badParameter("values", engine.CodeInvalid, "must be 0 or 1")
	}
	after, given, err := positionOf(r, q.Get("after"), q.Has("after"))
	if err != nil {
		return err
	}
	if !given {
		if after, err = a.store.View(r.Context(), engine.Read{}, x.space, func(*kv.Tx) error { return nil }); err != nil {
			return err
		}
	}
	return c.SSE(web.EventOptions{}, func(s *web.Events) error {
		if !given {
			if err := s.Send(web.Event{ID: position(after), Name: "begin", Data: "{}"}); err != nil {
				return err
			}
		}
		return a.sendEvents(s.Context(), s, x.space, []byte(q.Get("prefix")), after, values)
	})
}

// sendEvents sends the events after a position until the stream ends.
func (a *app) sendEvents(ctx context.Context, s *web.Events, space uint8, prefix []byte, after engine.Position, values bool) error {
	for e, err := range a.store.Watch(ctx, space, prefix, after) {
		if errors.Is(err, engine.ErrTruncated) {
			return s.Send(web.Event{Name: "resync", Data: "{}"})
		}
		if err != nil {
			return err
		}
		event := web.Event{Name: "set", Data: string(watched(nil, e, values))}
		if e.Deleted {
			event.Name = "delete"
		}
		if !e.More { // resume only after whole transactions
			event.ID = position(e.Pos)
		}
		if err := s.Send(event); err != nil {
			return err
		}
	}
	return nil
}

// watched appends an event as JSON, as in a listing.
func watched(b []byte, e kv.Event, values bool) []byte {
	b = appendField(append(b, '{'), "key", e.Key)
	if !e.Deleted {
		if values && len(e.Val) <= MaxWatchedValue {
			b = appendField(append(b, ','), "value", e.Val)
		}
		b = append(b, `,"revision":`...)
		b = strconv.AppendUint(b, uint64(e.Rev), 10)
		if !e.Expires.IsZero() {
			b = append(appendTime(append(b, `,"expires":"`...), e.Expires), '"')
		}
	}
	b = append(b, `,"position":`...)
	return append(strconv.AppendUint(b, uint64(e.Pos), 10), '}')
}

func position(pos engine.Position) string { return strconv.FormatUint(uint64(pos), 10) }

// positionOf returns the position after which a watch begins: that of the last event that a client who
// reconnects has received, or that of the parameter after.
func positionOf(r *http.Request, after string, given bool) (engine.Position, bool, error) {
	if ids := r.Header["Last-Event-Id"]; len(ids) == 1 {
		n, err := strconv.ParseUint(ids[0], 10, 64)
		if err != nil {
			return 0, false, badHeader("Last-Event-ID", engine.CodeInvalid, "must be the id of an event of this stream")
		}
		return engine.Position(n), true, nil
	}
	if !given {
		return 0, false, nil
	}
	n, err := strconv.ParseUint(after, 10, 64)
	if err != nil {
		return 0, false, badParameter("after", engine.CodeInvalid, "must be a whole number, such as the X-Skerry-Position of a listing")
	}
	return engine.Position(n), true, nil
}

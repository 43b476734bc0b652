package timeseries

import (
	"context"
	"encoding/json"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/series"
	"github.com/skerrydb/skerry/web"
)

// checkEvery is how often an event stream checks whether its client may still read.
const checkEvery = 5 * time.Second

// live sends the samples of a selector as they are stored. An event "series" introduces a series with a number and its
// labels; an event "samples" has a list of [number, time in milliseconds, value]; a long list comes in several. If the client does not keep up, or
// the node has to read its series again, the stream ends, and the browser connects again.
func (f *Face) live(c *web.Context) error {
	name := c.Path("collection").String()
	store, err := f.store(c, name, false)
	if err != nil {
		return err
	}
	match, err := selector(c)
	if err != nil {
		return err
	}
	leave, err := c.ReserveStream()
	if err != nil {
		return err
	}
	defer leave()
	w, err := store.Watch(c, match)
	if err != nil {
		return err
	}
	defer w.Close()
	return c.SSE(web.EventOptions{}, func(out *web.Events) error {
		introduced := map[series.ID]bool{}
		for f.allow(c, name, false) == nil { // otherwise the client connects again, and learns why
			if err := sendFor(out, w, introduced); err != nil {
				return ended(err)
			}
			c.LookAgain()
		}
		return nil
	})
}

// ended returns the error with which a stream ends. When samples were missed, the client connects again.
func ended(err error) error {
	if code := engine.CodeOf(err); code == engine.CodeTruncated || code == engine.CodeClosed {
		return nil
	}
	return err
}

// sendFor sends what comes within checkEvery.
func sendFor(out *web.Events, w *series.Watch, introduced map[series.ID]bool) error {
	ctx, cancel := context.WithTimeout(out.Context(), checkEvery)
	defer cancel()
	err := sendLive(ctx, out, w, introduced)
	if ctx.Err() != nil {
		return out.Context().Err()
	}
	return err
}

// sendLive sends what comes until ctx ends.
func sendLive(ctx context.Context, out *web.Events, w *series.Watch, introduced map[series.ID]bool) error {
	for batch, err := range w.All(ctx) {
		if err != nil {
			return err
		}
		b := []byte{'['}
		for _, s := range batch {
			if !introduced[s.ID] {
				introduced[s.ID] = true
				about := append([]byte(`{"number":`), number(s.ID)...)
				about = append(appendLabels(append(about, `,"labels":`...), s.Labels), '}')
				if err := out.Send(web.Event{Name: "series", Data: string(about)}); err != nil {
					return err
				}
			}
			b = append(append(comma(b, len(b)-1), '['), number(s.ID)...)
			b = appendMillis(append(b, ','), s.Time)
			b = append(appendValue(append(b, ','), s.Value), ']')
			if len(b) > web.MaxEventBytes/2 {
				if err := out.Send(web.Event{Name: "samples", Data: string(append(b, ']'))}); err != nil {
					return err
				}
				b = append(b[:0], '[')
			}
		}
		if len(b) == 1 {
			continue
		}
		if err := out.Send(web.Event{Name: "samples", Data: string(append(b, ']'))}); err != nil {
			return err
		}
	}
	return nil
}

func number(id series.ID) []byte { b, _ := json.Marshal(id); return b }

// appendLabels appends labels as an object.
func appendLabels(b []byte, labels series.Labels) []byte {
	b = append(b, '{')
	for i, l := range labels {
		name, _ := json.Marshal(l.Name) // of strings: cannot fail
		value, _ := json.Marshal(l.Value)
		b = append(append(append(comma(b, i), name...), ':'), value...)
	}
	return append(b, '}')
}

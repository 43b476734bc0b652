package records

import (
	"context"
	"errors"
	"net/url"
	"reflect"
	"strconv"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/record"
	"github.com/skerrydb/skerry/web"
)

// DefaultCheckEvery is the default of Options.CheckEvery.
const DefaultCheckEvery = 5 * time.Second

// events responds with an event stream (text/event-stream). The first events are "state", with the records that the
// client sees at one position; the others are "change". Clients that reconnect get what they missed, or the state.
func (f *Face) events(c *web.Context) error {
	sub, err := subscription(c)
	if err != nil {
		return err
	}
	for _, t := range sub.Topics {
		if err := within(c, t.Collection, record.Subscribe); err != nil {
			return err
		}
	}
	a, err := f.actor(c)
	if err != nil {
		return err
	}
	leave, err := c.ReserveStream() // before the work of finding the state
	if err != nil {
		return err
	}
	defer leave()
	s, err := f.db.Subscribe(c, a, sub)
	if err != nil {
		return err
	}
	defer s.Close()
	return c.SSE(web.EventOptions{}, func(out *web.Events) error {
		checked := time.Now()
		for {
			m, err := next(out.Context(), s, checked.Add(f.o.CheckEvery))
			switch code := engine.CodeOf(err); {
			case err == nil:
				err = send(out, m)
			case errors.Is(err, context.DeadlineExceeded) && out.Context().Err() == nil:
				err = nil
			case code == engine.CodeTruncated || code == engine.CodeClosed || code == record.CodeUnknownCollection:
				return nil // the client connects again, and learns then what it can have
			}
			if err != nil {
				return err
			}
			if time.Since(checked) < f.o.CheckEvery {
				continue
			}
			if same, err := f.isActor(c, a); !same || err != nil {
				return err
			}
			checked = time.Now()
		}
	})
}

// next returns the next message, if one arrives before until.
func next(ctx context.Context, s *record.Stream, until time.Time) (record.Message, error) {
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	return s.Next(ctx)
}

// isActor reports whether the client is still the same actor.
func (f *Face) isActor(c *web.Context, a record.Actor) (bool, error) {
	c.LookAgain()
	now, err := f.o.Actor(c)
	now.Request, a.Limit = a.Request, nil // streams check keys themselves
	return reflect.DeepEqual(now, a), err
}

// subscription parses the parameters of an event stream.
func subscription(c *web.Context) (sub record.Subscription, err error) {
	params, err := url.ParseQuery(c.Request.URL.RawQuery)
	if err != nil {
		return sub, web.WrongParameter("", "the query string is malformed: %v", err)
	}
	for name, values := range params {
		switch {
		case name == "topic":
			continue
		case name != "filter" && name != "sort" && name != "limit":
			return sub, web.WrongParameter(name, "there is no such parameter; a stream of events takes topic, filter, sort and limit")
		case len(values) > 1:
			return sub, web.WrongParameter(name, "%s appears twice", name)
		}
	}
	for _, text := range params["topic"] {
		topic, err := record.ParseTopic(text)
		if err != nil {
			return sub, err
		}
		sub.Topics = append(sub.Topics, topic)
	}
	sub.Filter, sub.Sort = params.Get("filter"), params.Get("sort")
	if params.Has("limit") {
		if sub.Limit, err = strconv.Atoi(params.Get("limit")); err != nil || sub.Limit <= 0 {
			return sub, web.WrongParameter("limit", "must be a number above 0")
		}
	}
	if id := c.Request.Header.Get("Last-Event-ID"); len(id) <= web.MaxEventID {
		sub.Resume = id
	}
	return sub, nil
}

// send sends a message. Only its last event has an id, so that clients never resume in the middle of a message.
func send(out *web.Events, m record.Message) error {
	if m.State != nil {
		return sendState(out, m)
	}
	for i := range m.Events {
		event := web.Event{Name: "change", Data: change(m.Position, m.Events[i])}
		if i == len(m.Events)-1 {
			event.ID = m.ID
		}
		if err := out.Send(event); err != nil {
			return err
		}
	}
	return nil
}

// change returns an event as JSON: {"position":…,"op":…,"collection":…,"id":…,"record":{…}}. Of a record that is too long
// for an event there is "large":true instead.
func change(at engine.Position, e record.Event) string {
	text := appendPosition(nil, at)
	text = append(append(text, ','), e.AppendJSON(nil)[1:]...)
	if len(text) <= web.MaxEventBytes {
		return string(text)
	}
	e.Record = nil
	text = append(append(appendPosition(nil, at), ','), e.AppendJSON(nil)[1:]...)
	return string(append(text[:len(text)-1], `,"large":true}`...))
}

// appendPosition begins the object of an event.
func appendPosition(dst []byte, at engine.Position) []byte {
	return strconv.AppendUint(append(dst, `{"position":`...), uint64(at), 10)
}

// maxPart is how many bytes of records one event of the state has, unless it has only one.
const maxPart = web.MaxEventBytes / 2

// sendState sends the state in one event or, if that is too long, in several:
//
//	{"position":…,"first":true,"records":[{"collection":…,"record":{…}},…],"more":["orders"],"last":true}
//
// The client forgets what it had at the one that is the first, and has the state after the one that is the last. more has
// the collections of which there are more records than the limit.
func sendState(out *web.Events, m record.Message) error {
	part := append(appendPosition(nil, m.Position), `,"first":true,"records":[`...)
	var more []string
	n := 0
	for _, s := range m.State {
		if s.More {
			more = append(more, s.Collection)
		}
		for _, r := range s.Records {
			text := item(s.Collection, r)
			if n > 0 && len(part)+len(text) > maxPart {
				if err := out.Send(web.Event{Name: "state", Data: string(append(part, `]}`...))}); err != nil {
					return err
				}
				part, n = append(appendPosition(part[:0], m.Position), `,"records":[`...), 0
			}
			if n++; n > 1 {
				part = append(part, ',')
			}
			part = append(part, text...)
		}
	}
	part = append(part, ']')
	for i, name := range more {
		part = append(part, [...]string{`,"more":[`, `,`}[min(i, 1)]...)
		part = strconv.AppendQuote(part, name)
	}
	if more != nil {
		part = append(part, ']')
	}
	return out.Send(web.Event{ID: m.ID, Name: "state", Data: string(append(part, `,"last":true}`...))})
}

// item returns a record of the state as JSON.
func item(collection string, r *record.Record) []byte {
	b := append(strconv.AppendQuote([]byte(`{"collection":`), collection), `,"record":`...)
	from := len(b)
	if b = r.AppendJSON(b); len(b) > web.MaxEventBytes-16<<10 { // what is around it fits, too
		b = strconv.AppendQuote(append(b[:from], `{"id":`...), r.ID)
		b = append(b, `,"large":true}`...)
	}
	return append(b, '}')
}

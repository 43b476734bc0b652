package record_test

import (
	"context"
	"strings"
	"testing"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/testengine/recordengine"
	"github.com/skerrydb/skerry/feed"
	"github.com/skerrydb/skerry/record"
)

// FuzzParseTopic: what is read of a topic prints as it was written.
func FuzzParseTopic(f *testing.F) {
	for _, text := range []string{"orders/*", "orders/a", "orders/", "/a", "orders", "orders/a/b", "orders/\x00", "*/*", "orders/**"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		topic, err := record.ParseTopic(text)
		if err == nil && topic.String() != text {
			t.Fatalf("%q is read as %+v, which is %q", text, topic, topic)
		}
	})
}

// FuzzSubscribe: whatever a subscriber asks for, it gets the state as its first message, or an error that is its own.
func FuzzSubscribe(f *testing.F) {
	h := openHouse(f, recordengine.Open(f, recordengine.Options{Memory: true}), feed.Options{})
	h.create("orders", "a", `{"title":"x","n":1}`)
	s := h.subscribe(record.Actor{}, record.Subscription{}, "orders/*")
	s.want("state orders/a")
	f.Add("orders/*", `title = "x"`, "-n", s.last, 5)
	f.Add("orders/a plain/* plans/x", `n > 1 && title ~ "x"`, "", "0-0", 0)
	f.Add("recent/* plans/*", `updated > @now - 1d`, "title,,", "-", -1)
	f.Fuzz(func(t *testing.T, topics, filter, sort, resume string, limit int) {
		sub := record.Subscription{Filter: filter, Sort: sort, Resume: resume, Limit: limit}
		for text := range strings.FieldsSeq(topics) {
			topic, err := record.ParseTopic(text)
			if err != nil {
				return
			}
			sub.Topics = append(sub.Topics, topic)
		}
		s, err := h.Subscribe(t.Context(), record.Actor{ID: "ann"}, sub)
		if err != nil {
			if code := engine.CodeOf(err); code == engine.CodeInternal || code == engine.CodeCorrupt || code == engine.CodeClosed {
				t.Fatal(err)
			}
			return
		}
		defer s.Close()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		if resume != "" {
			cancel() // it may have nothing to say
		}
		if m, err := s.Next(ctx); err == nil && m.State == nil || err != nil && ctx.Err() == nil {
			t.Fatalf("the first message is %+v, %v", m, err)
		}
	})
}

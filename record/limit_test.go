package record_test

import (
	"errors"
	"testing"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/testengine/recordengine"
	"github.com/skerrydb/skerry/feed"
	"github.com/skerrydb/skerry/record"
)

// TestLimit: the limit of an actor refuses what rules allow, wherever a request comes from.
func TestLimit(t *testing.T) {
	h := openHouse(t, recordengine.Open(t, recordengine.Options{}), feed.Options{})
	must(t, update(t, h.DB, record.Program(), func(tx *record.Tx) error {
		for _, c := range []string{"orders", "plain"} {
			if _, err := tx.Create(c, "a", []byte(`{"title":"x"}`)); err != nil {
				return err
			}
		}
		return nil
	}))
	for _, system := range []bool{false, true} {
		ann := record.Actor{ID: "ann", System: system, Limit: func(collection string, op record.Operation) bool {
			return collection == "orders" && op != record.Create && op != record.History || collection == "plans"
		}}
		_, err := h.View(t.Context(), engine.Read{}, ann, func(tx *record.Tx) error {
			if _, err := tx.Get("orders", "a"); err != nil {
				return err
			}
			if _, err := tx.Get("plain", "a"); !errors.Is(err, record.ErrNotFound) {
				t.Errorf("another collection: %v", err)
			}
			if _, err := tx.History("orders", "a", 0, 1); !errors.Is(err, record.ErrRefused) {
				t.Errorf("the history: %v", err)
			}
			return nil
		})
		must(t, err)
		err = update(t, h.DB, ann, func(tx *record.Tx) error {
			_, err := tx.Create("orders", "b", []byte(`{}`))
			return err
		})
		if !errors.Is(err, record.ErrRefused) {
			t.Errorf("a creation: %v", err)
		}
		for topic, want := range map[record.Topic]engine.Code{{Collection: "orders"}: "", {Collection: "plain"}: record.CodeUnknownCollection} {
			s, err := h.Subscribe(t.Context(), ann, record.Subscription{Topics: []record.Topic{topic}})
			if engine.CodeOf(err) != want && (want != "" || err != nil) {
				t.Errorf("a subscription of %s: %v", topic.Collection, err)
			}
			if s != nil {
				s.Close()
			}
		}
		_, err = h.Subscribe(t.Context(), ann, record.Subscription{Topics: []record.Topic{{Collection: "plans"}}, Filter: `team.name = "x"`})
		if engine.CodeOf(err) != engine.CodeUnsupported {
			t.Errorf("a subscription that follows references: %v", err)
		}
	}
}

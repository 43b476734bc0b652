package engine_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/skerrydb/skerry/engine"
)

func TestMeets(t *testing.T) {
	all := engine.Promises{
		Atomic: engine.AllKeys, Serializable: true, Ordered: true, Feed: true, Durable: true,
		Snapshot: true, Clock: true, Positions: true, ExactPositions: true, DistinctTimes: true, Fence: true,
		MaxKeyBytes: 1000, MaxValBytes: 1 << 20, MaxTxBytes: 1 << 24,
	}
	for _, c := range []struct {
		have, need engine.Promises
		lacks      string // "" if nothing
	}{
		{engine.Promises{}, engine.Promises{}, ""},
		{all, all, ""},
		{all, engine.Promises{}, ""},
		{engine.Promises{Atomic: engine.OneKey}, engine.Promises{Atomic: engine.OnePartition}, "one partition"},
		{engine.Promises{Atomic: engine.OnePartition}, engine.Promises{Atomic: engine.AllKeys}, "all keys"},
		{engine.Promises{Atomic: engine.AllKeys}, engine.Promises{Atomic: engine.OnePartition}, ""},
		{engine.Promises{}, engine.Promises{Serializable: true}, "serialisable"},
		{engine.Promises{}, engine.Promises{Ordered: true}, "ordered"},
		{engine.Promises{}, engine.Promises{Feed: true}, "feed"},
		{engine.Promises{}, engine.Promises{Durable: true}, "durable"},
		{engine.Promises{}, engine.Promises{Snapshot: true}, "one state"},
		{engine.Promises{}, engine.Promises{Clock: true}, "a clock"},
		{engine.Promises{}, engine.Promises{Positions: true}, "positions"},
		{engine.Promises{Positions: true}, engine.Promises{ExactPositions: true}, "exact positions"},
		{engine.Promises{}, engine.Promises{DistinctTimes: true}, "a distinct time"},
		{engine.Promises{}, engine.Promises{Fence: true}, "a fence"},
		{engine.Promises{}, engine.Promises{MaxKeyBytes: 512}, ""},
		{engine.Promises{}, engine.Promises{MaxKeyBytes: 513}, "keys of 513 bytes"},
		{engine.Promises{}, engine.Promises{MaxValBytes: 65536}, ""},
		{engine.Promises{}, engine.Promises{MaxValBytes: 65537}, "values of 65537 bytes"},
		{engine.Promises{}, engine.Promises{MaxTxBytes: 1 << 20}, ""},
		{engine.Promises{}, engine.Promises{MaxTxBytes: 1<<20 + 1}, "transactions of 1048577 bytes"},
		{engine.Promises{MaxKeyBytes: 100}, engine.Promises{MaxKeyBytes: 101}, "keys of 101 bytes"},
		{all, engine.Promises{MaxTxBytes: 1<<24 + 1}, "transactions"},
	} {
		err := c.have.Meets("the tested part", c.need)
		if c.lacks == "" {
			if err != nil {
				t.Errorf("%+v meets %+v: %v", c.have, c.need, err)
			}
			continue
		}
		if !errors.Is(err, engine.ErrUnsupported) ||
			!strings.Contains(err.Error(), c.lacks) || !strings.Contains(err.Error(), "the tested part") {
			t.Errorf("%+v meets %+v: %v, want one that names %q", c.have, c.need, err, c.lacks)
		}
	}
}

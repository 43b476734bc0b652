package proc_test

import (
	"reflect"
	"slices"
	"testing"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/kv"
	"github.com/skerrydb/skerry/proc"
)

// TestTxMethods checks that Tx has no methods for the engine's keys, which users could
// confuse with their own.
func TestTxMethods(t *testing.T) {
	tx := reflect.TypeFor[*proc.Tx]()
	var have []string
	for m := range tx.Methods() {
		have = append(have, m.Name)
	}
	if want := []string{"Engine", "KV", "Now", "Procedure", "Rand", "Value"}; !slices.Equal(have, want) {
		t.Errorf("a Tx has the methods %q, want %q", have, want)
	}
}

// TestEngineKeys checks that a capability works in a procedure through Tx.Engine, on the
// same data as Tx.KV.
func TestEngineKeys(t *testing.T) {
	for name, eng := range map[string]engine.Engine{"ranks": openEngine(t), "none": plainEngine{openEngine(t)}} {
		s := setOn(t, eng, proc.Options{}, reader, proc.Define("both", func(tx *proc.Tx, _ struct{}) ([]int, error) {
			k := kv.In(tx.Engine(), 0)
			if _, err := k.Set([]byte("a"), []byte("1"), kv.SetOptions{}); err != nil {
				return nil, err
			}
			if err := set(tx, "b", "2"); err != nil {
				return nil, err
			}
			own, err := k.Count()
			if err != nil {
				return nil, err
			}
			all, err := tx.KV(0).Count()
			first, ok, rankErr := tx.Engine().(engine.Ranker).At(nil, nil, 0)
			if rankErr != nil || !ok || len(first.Key) == 0 || tx.Engine().Now() != tx.Now() {
				t.Errorf("%s: the engine's first key is %q at %v", name, first.Key, tx.Engine().Now())
			}
			return []int{own, all}, err
		}))
		want(t, "[2,2]")(call(t, s, "both"))
		want(t, `"1"`)(call(t, s, "reader", "a"))
	}
}

// TestEngineAllocations checks that Tx.Engine does not allocate.
func TestEngineAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector empties pools")
	}
	key := []byte("a")
	s := newSet(t, proc.Options{}, proc.Define("raw", func(tx *proc.Tx, _ struct{}) (int, error) {
		_, _, err := tx.Engine().Get(key)
		return 1, err
	}))
	if n := allocations(t, s, "raw"); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

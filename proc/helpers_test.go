package proc_test

import (
	"encoding/json"
	"runtime"
	"strings"
	"testing"

	"github.com/skerrydb/skerry/kv"
	"github.com/skerrydb/skerry/proc"
)

func set(tx *proc.Tx, key, val string) error {
	_, err := tx.KV(0).Set([]byte(key), []byte(val), kv.SetOptions{SkipOld: true})
	return err
}

// asJSON is what encoding/json makes of v, but null for structs without fields,
// which are named none.
func asJSON(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(string(b), `"none":{}`, `"none":null`)
}

func goexit() { runtime.Goexit() }

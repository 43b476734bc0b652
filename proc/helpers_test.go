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

// asJSON returns v as encoding/json encodes it, except that structs without fields, which
// are named none, are null.
func asJSON(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(string(b), `"none":{}`, `"none":null`)
}

func goexit() { runtime.Goexit() }

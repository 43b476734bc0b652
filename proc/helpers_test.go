package proc_test

import (
	"runtime"

	"github.com/skerrydb/skerry/kv"
	"github.com/skerrydb/skerry/proc"
)

func set(tx *proc.Tx, key, val string) error {
	_, err := tx.KV(0).Set([]byte(key), []byte(val), kv.SetOptions{SkipOld: true})
	return err
}

func goexit() { runtime.Goexit() }

// Command before is the program of a cluster before an upgrade.
package main

import (
	"github.com/skerrydb/skerry/cli"
	"github.com/skerrydb/skerry/proc"
)

type greetIn struct {
	Name string `json:"name"`
}

func greet(tx *proc.Tx, in greetIn) (string, error) {
	_, err := tx.KV(0).Add([]byte("greeted"), 1)
	return "hello, " + in.Name, err
}

func main() {
	cli.Main(cli.App{Name: "before", Version: "v1", Procedures: []proc.Procedure{proc.Define("greet", greet)}})
}

// Command after is the same program in its next version: greet has other
// arguments and another effect, and part is new.
package main

import (
	"github.com/skerrydb/skerry/cli"
	"github.com/skerrydb/skerry/proc"
)

type greetIn struct {
	First string `json:"first"`
	Last  string `json:"last"`
}

func greet(tx *proc.Tx, in greetIn) (string, error) {
	_, err := tx.KV(0).Add([]byte("greeted"), 100)
	return "good day, " + in.First + " " + in.Last, err
}

type partIn struct {
	Name string `json:"name"`
}

func part(tx *proc.Tx, in partIn) (string, error) {
	_, err := tx.KV(0).Add([]byte("parted"), 1)
	return "farewell, " + in.Name, err
}

func main() {
	cli.Main(cli.App{Name: "after", Version: "v2", Procedures: []proc.Procedure{proc.Define("greet", greet), proc.Define("part", part)}})
}

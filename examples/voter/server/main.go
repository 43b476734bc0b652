// Command server is a Skerry server with the procedures of the phone vote: `server serve`, `server dev`, and
// all other verbs of skerry.
package main

import (
	"github.com/skerrydb/skerry/cli"
	"github.com/skerrydb/skerry/examples/voter"
)

func main() {
	cli.Main(cli.App{Name: "voter", Procedures: voter.Procedures()})
}

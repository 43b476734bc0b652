// Command server is a Skerry server with the procedures of the bank: `server serve`, `server dev`, and all
// other verbs of skerry.
package main

import (
	"github.com/skerrydb/skerry/cli"
	"github.com/skerrydb/skerry/examples/bank"
)

func main() {
	cli.Main(cli.App{Name: "bank", Procedures: bank.Procedures()})
}

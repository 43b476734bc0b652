// Command server is the fraud finder as a program, with every verb that skerry has.
package main

import (
	"github.com/skerrydb/skerry/cli"
	"github.com/skerrydb/skerry/examples/fraud"
)

func main() {
	cli.Main(cli.App{Name: "fraud", Web: fraud.Application, Procedures: fraud.Procedures()})
}

// Command server is GotRo's tutorial as a Skerry server: `server serve`, `server
// dev`, and every other verb that skerry has.
package main

import (
	"github.com/skerrydb/skerry/cli"
	"github.com/skerrydb/skerry/examples/gotro"
)

func main() {
	cli.Main(cli.App{Name: "gotro", Web: gotro.Application})
}

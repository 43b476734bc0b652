// Command server is the factory as a program: `server serve`, `server simulate`, and every other verb that skerry has.
package main

import (
	"os"

	"github.com/skerrydb/skerry/cli"
	"github.com/skerrydb/skerry/cli/verb"
	"github.com/skerrydb/skerry/examples/iot"
)

func main() { cli.Main(program(os.Getenv(tokenVariable))) }

// program returns the program of a server with a token.
func program(token string) cli.App {
	return cli.App{Name: "iot", Web: iot.Application(token), Verbs: []verb.Verb{simulator}}
}

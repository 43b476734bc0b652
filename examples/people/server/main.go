// Command server is the lesson as a program: `server serve`, `server lesson`, and every other verb that skerry has.
package main

import (
	"context"
	"fmt"
	"net/url"

	"github.com/skerrydb/skerry"
	"github.com/skerrydb/skerry/cli"
	"github.com/skerrydb/skerry/cli/verb"
	"github.com/skerrydb/skerry/examples/people"
)

func main() { cli.Main(program()) }

func program() cli.App {
	return cli.App{Name: "people", Web: people.Application, Verbs: []verb.Verb{lesson}}
}

var lesson = verb.Verb{
	Name:  "lesson",
	Short: "send the lesson's texts to a server",
	Long: `Each text of the lesson is sent to a server that was started with --gremlin, and
printed with its results, as in Gremlin's console. The graph must be empty.`,
	Start: func(verb.App) verb.Action {
		at := "http://" + skerry.DefaultGremlin + "/gremlin"
		return verb.Action{
			Settings: []verb.Setting{{Name: "url", Arg: "URL", Default: at, Help: "the server's address for Gremlin", Set: address(&at)}},
			Check:    verb.NoArguments,
			Do: func(ctx context.Context, p verb.Process, _ []string) error {
				return people.Transcript(ctx, p.Stdout, at)
			},
		}
	},
}

func address(to *string) func(string) error {
	return func(v string) error {
		u, err := url.Parse(v)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return fmt.Errorf("%q is not a URL like http://%s/gremlin", v, skerry.DefaultGremlin)
		}
		*to = v
		return nil
	}
}

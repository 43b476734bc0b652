package cli

import (
	"context"
	"fmt"

	"github.com/skerrydb/skerry/cli/verb"
)

var versionVerb = verb.Verb{
	Name: "version", Short: "print the version",
	Start: func(verb.App) verb.Action {
		var asJSON bool
		return verb.Action{Settings: []verb.Setting{verb.JSON(&asJSON)}, Check: verb.NoArguments, Do: func(_ context.Context, p verb.Process, _ []string) error {
			b := p.App.Build()
			if asJSON {
				return verb.PrintJSON(p.Stdout, b)
			}
			with := ""
			if b.Skerry != "" {
				with = "Skerry " + b.Skerry + ", "
			}
			_, err := fmt.Fprintf(p.Stdout, "%s %s (%s%s, %s)\n", p.App.Name, b.Version, with, b.Go, b.Platform)
			return err
		}, Abrupt: true}
	},
}

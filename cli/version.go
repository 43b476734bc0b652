package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
)

// library is the module that this package is part of.
const library = "github.com/skerrydb/skerry"

// build says which program this is.
type build struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"` // of the repository
	Modified bool   `json:"modified,omitempty"` // built from changed files
	Go       string `json:"go"`
	Platform string `json:"platform"`
	Skerry   string `json:"skerry,omitempty"` // version of the library, in other programs
}

func (app App) build() build {
	b := build{Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if info, ok := debug.ReadBuildInfo(); ok {
		b.Version = info.Main.Version
		for _, dep := range info.Deps {
			if dep.Path == library {
				b.Skerry = dep.Version
				if dep.Replace != nil {
					b.Skerry = cmp.Or(dep.Replace.Version, "(devel)")
				}
			}
		}
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				b.Revision = s.Value
			case "vcs.modified":
				b.Modified = s.Value == "true"
			}
		}
	}
	b.Version = cmp.Or(app.Version, b.Version, "unknown")
	return b
}

var versionVerb = verb{
	name: "version", short: "print the version",
	start: func(App) action {
		var asJSON bool
		return action{[]setting{jsonSetting(&asJSON)}, noArguments, func(_ context.Context, p process, _ []string) error {
			b := p.app.build()
			if asJSON {
				return printJSON(p.Stdout, b)
			}
			with := ""
			if b.Skerry != "" {
				with = "Skerry " + b.Skerry + ", "
			}
			_, err := fmt.Fprintf(p.Stdout, "%s %s (%s%s, %s)\n", p.app.Name, b.Version, with, b.Go, b.Platform)
			return err
		}, true}
	},
}

func jsonSetting(p *bool) setting {
	return setting{name: "json", help: "print JSON", set: toggle(p)}
}

// printJSON writes v as one line.
func printJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

func noArguments(rest []string) error {
	if len(rest) > 0 {
		return usagef("%q is one argument too many: only flags are taken", rest[0])
	}
	return nil
}

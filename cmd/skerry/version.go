package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
)

// version is set when linking: -ldflags "-X main.version=v1.2.3".
var version string

// build says which program this is.
type build struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"` // of the repository
	Modified bool   `json:"modified,omitempty"` // built from changed files
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func thisBuild() build {
	b := build{Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if info, ok := debug.ReadBuildInfo(); ok {
		b.Version = info.Main.Version
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				b.Revision = s.Value
			case "vcs.modified":
				b.Modified = s.Value == "true"
			}
		}
	}
	b.Version = cmp.Or(version, b.Version, "unknown")
	return b
}

var versionVerb = verb{
	name: "version", short: "print the version",
	start: func() action {
		var asJSON bool
		return action{[]setting{jsonSetting(&asJSON)}, noArguments, func(_ context.Context, p process, _ []string) error {
			b := thisBuild()
			if asJSON {
				return printJSON(p.stdout, b)
			}
			_, err := fmt.Fprintf(p.stdout, "skerry %s (%s, %s)\n", b.Version, b.Go, b.Platform)
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

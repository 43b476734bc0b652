package verb

import (
	"cmp"
	"runtime"
	"runtime/debug"

	"github.com/skerrydb/skerry"
	"github.com/skerrydb/skerry/proc"
	"github.com/skerrydb/skerry/series"
	"github.com/skerrydb/skerry/web/api"
)

// DefaultName is App.Name if that is empty.
const DefaultName = "skerry"

// Library is the module that this package is part of.
const Library = "github.com/skerrydb/skerry"

// App is one program. Its zero value is skerry itself.
type App struct {
	// Name is the command that starts the program, for help and messages. "" is DefaultName. The names of
	// variables (SKERRY_DATA) do not depend on it.
	Name string

	// Version is the program's version, which it reports to its nodes and clients. "" is the version of the
	// main module, as recorded by the Go command.
	Version string

	// Procedures are the procedures that clients of its servers can call; see package proc. `NAME serve` and
	// the nodes of `NAME dev` have the same ones.
	Procedures []proc.Procedure

	// Series are the collections of time series that its servers have, besides those of the application and of the
	// setting series; see package series.
	Series []series.Collection

	// Web makes the web application that HTTP serves instead of keys and procedures. Nil: there is none. See
	// skerry.Services.
	Web skerry.Application

	// OperatorRoutes returns more routes for operators; see skerry.Options.OperatorRoutes.
	OperatorRoutes func(s *skerry.Services) []api.Route

	// Verbs are additional verbs besides those that every program has.
	Verbs []Verb
}

// Build identifies a program.
type Build struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"` // of the repository
	Modified bool   `json:"modified,omitempty"` // built from changed files
	Go       string `json:"go"`
	Platform string `json:"platform"`
	Skerry   string `json:"skerry,omitempty"` // version of the library, in other programs
}

// Build returns the build of the running program.
func (app App) Build() Build {
	b := Build{Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if info, ok := debug.ReadBuildInfo(); ok {
		b.Version = info.Main.Version
		for _, dep := range info.Deps {
			if dep.Path == Library {
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

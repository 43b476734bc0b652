// Command skerry is Skerry without procedures: a server of keys, all verbs to look after
// it, and those that verify engines and procedures; `skerry help` lists them.
package main

import (
	"github.com/skerrydb/skerry"
	"github.com/skerrydb/skerry/cli"
	"github.com/skerrydb/skerry/cli/verify"
	"github.com/skerrydb/skerry/web/api"
	"github.com/skerrydb/skerry/web/prometheus"
)

// version is set when linking: -ldflags "-X main.version=v1.2.3".
var version string

func main() { cli.Main(cli.App{Version: version, Verbs: verify.Verbs(), OperatorRoutes: promQL}) }

// promQL returns the routes of Prometheus's API, and lets the admin page evaluate PromQL.
func promQL(s *skerry.Services) []api.Route {
	face := prometheus.New(s.Series, s.Web.Logger)
	s.PromQL = face
	return []api.Route{{Path: prometheus.Path, Handle: face.Serve, MaxBody: prometheus.MaxBody, Text: "Prometheus's query API and remote write, below /prometheus/COLLECTION"}}
}

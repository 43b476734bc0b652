// Command skerry is Skerry without procedures: a server of keys, all verbs to look after
// it, and those that verify engines and procedures; `skerry help` lists them.
package main

import (
	"github.com/skerrydb/skerry/cli"
	"github.com/skerrydb/skerry/cli/verify"
)

// version is set when linking: -ldflags "-X main.version=v1.2.3".
var version string

func main() { cli.Main(cli.App{Version: version, Verbs: verify.Verbs()}) }

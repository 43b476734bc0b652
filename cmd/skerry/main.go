// Command skerry is Skerry without procedures: a server of keys, and all verbs to
// look after it; `skerry help` lists them. It knows nothing; package cli does all.
package main

import "github.com/skerrydb/skerry/cli"

// version is set when linking: -ldflags "-X main.version=v1.2.3".
var version string

func main() { cli.Main(cli.App{Version: version}) }

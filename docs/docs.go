// Package docs is the documentation, for the admin page, which shows the pages that belong to the running program.
//
// It knows its files; it must not know who shows them.
package docs

import "embed"

// Pages has the pages, *.md, without the records of decisions.
//
//go:embed *.md
var Pages embed.FS

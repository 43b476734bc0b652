package cli

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"github.com/skerrydb/skerry/cli/serve"
	"github.com/skerrydb/skerry/cli/verb"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/embedded"
)

// engines are all that there are, by the scheme of their URL.
func engines(o embedded.Options) map[string]engine.Opener {
	return map[string]engine.Opener{
		"embedded": func(_ context.Context, u *url.URL) (engine.Engine, error) {
			dir, err := folder(u)
			if err != nil {
				return nil, err
			}
			return openEmbedded(dir, o)
		},
	}
}

// openEngine opens the engine that a URL names. Memory 0 means the machine's half.
func openEngine(ctx context.Context, rawURL string, memory int64, log *slog.Logger) (engine.Engine, error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		return nil, verb.Usagef("%w", err)
	}
	all := engines(embedded.Options{MemoryBytes: serve.MemoryLimit(memory), Logger: log})
	open, ok := all[u.Scheme]
	if !ok {
		return nil, verb.Usagef("%s: there is no engine %q, only %s; a URL is like embedded:///folder", u.Redacted(), u.Scheme,
			strings.Join(slices.Sorted(maps.Keys(all)), ", "))
	}
	return open(ctx, u)
}

// openEmbedded refuses a node of a cluster, which would begin to take part, and
// avoids an interface that holds a nil pointer.
func openEmbedded(dir string, o embedded.Options) (engine.Engine, error) {
	if _, err := embedded.OpenAdmin(dir, ""); err == nil {
		return nil, engine.Errorf(engine.CodeInvalid, "%s is a node of a cluster: only `skerry serve` runs it", dir)
	}
	db, err := embedded.Open(dir, o)
	if err != nil {
		return nil, err
	}
	return db, nil
}

// folder returns the folder that embedded:///absolute or embedded:relative names.
func folder(u *url.URL) (string, error) {
	dir := cmp.Or(u.Opaque, u.Path)
	if u.Host != "" || dir == "" || u.RawQuery != "" {
		return "", verb.Usagef("%s: the URL of an embedded engine is embedded:///folder, without host and query", u.Redacted())
	}
	return dir, nil
}

// embeddedURL is the URL of the embedded engine in a folder.
func embeddedURL(dir string) (string, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("data folder: %w", err)
	}
	return (&url.URL{Scheme: "embedded", Path: abs}).String(), nil
}

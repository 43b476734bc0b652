package verb

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"net/url"
	"slices"
	"strings"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/embedded"
)

// Embedded is the scheme of the embedded engine's URL.
const Embedded = "embedded"

// NoLimit is the memory limit of verbs that only read: existing data is read whatever the limit was.
const NoLimit = math.MaxInt64

// EngineOptions are options of an engine that are not part of its URL.
type EngineOptions struct {
	Logger *slog.Logger

	// Only for the embedded engine: the most bytes that data may take, where 0 is half of the machine's memory;
	// and how a node takes part in its cluster. If Cluster is nil, Open refuses the folder of a node.
	MemoryBytes int64
	SpillBytes  int64 // values longer than this are in files; 0: all are in memory
	Cluster     *embedded.ClusterOptions
}

// Engines has a function to open each engine, by the scheme of its URL.
type Engines map[string]func(ctx context.Context, u *url.URL, o EngineOptions) (engine.Engine, error)

// Open opens the engine that u names.
func (e Engines) Open(ctx context.Context, u *url.URL, o EngineOptions) (engine.Engine, error) {
	open, ok := e[u.Scheme]
	if !ok {
		return nil, Usagef("%s: unknown engine %q (available: %s); a URL is like embedded:///folder", Redacted(u), u.Scheme,
			strings.Join(slices.Sorted(maps.Keys(e)), ", "))
	}
	if u.Scheme != Embedded && o.MemoryBytes != 0 {
		return nil, Usagef("--memory: only the embedded engine has a memory limit, not %s", u.Scheme)
	}
	return open(ctx, u, o)
}

// errPassword is about a URL of which a part of the password may have become the host, the port, the path or the query.
var errPassword = errors.New("not a URL like embedded:///folder: in a user or password, write / as %2F, ? as %3F, # as %23, @ as %40 and % as %25")

// ParseEngine parses the URL of an engine. Errors never contain a password.
func ParseEngine(raw string) (*url.URL, error) {
	u, err := url.Parse(raw)
	_, rest, _ := strings.Cut(raw, "://")
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	unescaped := !strings.Contains(rest[:end], "@") && strings.Contains(strings.SplitAfterN(rest[end:], "=", 2)[0], "@")
	wrong, ok := errors.AsType[*url.Error](err)
	switch {
	case ok && (unescaped || errors.As(err, new(url.EscapeError))), !ok && unescaped && u.Scheme != Embedded:
		return nil, errPassword
	case ok:
		return nil, fmt.Errorf("not a URL like embedded:///folder: %w", wrong.Err)
	case u.Scheme == "":
		return nil, fmt.Errorf("%q has no scheme; a URL is like embedded:///folder", Redacted(u))
	}
	return u, nil
}

// Redacted returns the text of an engine's URL without passwords.
func Redacted(u *url.URL) string {
	bare := *u
	if u.Scheme != Embedded {
		for _, part := range []*string{&bare.Opaque, &bare.Path} { // user:password@host without a scheme or slashes
			if i := strings.LastIndex(*part, "@"); i >= 0 && u.Host == "" {
				*part = "xxxxx" + (*part)[i:]
				bare.RawPath = ""
			}
		}
		query := strings.Split(u.RawQuery, "&")
		for i, pair := range query {
			if name, _, ok := strings.Cut(pair, "="); ok && strings.Contains(strings.ToLower(name), "password") {
				query[i] = name + "=xxxxx"
			}
		}
		bare.RawQuery = strings.Join(query, "&")
	}
	return bare.Redacted()
}

// Folder returns the folder that embedded:///absolute or embedded:relative names.
func Folder(u *url.URL) (string, error) {
	dir := cmp.Or(u.Opaque, u.Path)
	if u.Host != "" || dir == "" || u.RawQuery != "" {
		return "", fmt.Errorf("%s: the URL of an embedded engine is embedded:///folder, without a host or a query", Redacted(u))
	}
	return dir, nil
}

// FolderURL returns the URL of the embedded engine in a folder.
func FolderURL(dir string) *url.URL { return &url.URL{Scheme: Embedded, Opaque: dir} }

// Data returns the settings --data and --engine, which select the data that a verb works on. They set dir to
// the folder of the embedded engine, or *other to the URL of another engine. If other is nil, the verb works
// only with the embedded engine. --engine, which may come from the environment or the file, is then not in the
// usage text and refuses other engines.
func Data(dir *string, other **url.URL, def string) []Setting {
	given := false
	setDir := func(v string) error {
		given = given || v != def
		return Text(dir)(v)
	}
	setEngine := func(v string) error {
		u, err := ParseEngine(v)
		switch {
		case err != nil:
			return err
		case u.Scheme != Embedded && other == nil:
			return fmt.Errorf("this verb works with the embedded engine only, not with %s", u.Scheme)
		case *u == (url.URL{Scheme: Embedded}): // --data selects the folder
			return nil
		case given:
			return fmt.Errorf("%s and data both select the data: set only one of them", Redacted(u))
		case u.Scheme != Embedded:
			*other = u
			return nil
		}
		*dir, err = Folder(u)
		return err
	}
	return []Setting{
		{Name: "data", Arg: "DIR", Default: def, Help: "data folder of the embedded engine", Server: true, Set: setDir},
		{Name: "engine", Arg: "URL", Help: "URL of the engine that stores the data (default the embedded engine in the folder --data)", Server: true, Hidden: other == nil, Set: setEngine},
	}
}

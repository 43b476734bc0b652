package sqldriver

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/skerrydb/skerry/client"
	"github.com/skerrydb/skerry/suggest"
)

// onceParameter is the only DSN parameter that is not the client's.
const onceParameter = "once"

// parameters are all parameters of a DSN, to suggest the one that was meant.
var parameters = [...]string{
	onceParameter, "ca", "cache_bytes", "cert", "conns", "dead_after", "dial_timeout", "full", "key", "max_backoff",
	"max_in_flight", "max_reply_bytes", "name", "read_from", "read_level", "server_name", "timeout", "tls",
}

// ParseDSN parses a data source name: a URL of client.ParseURL, for example
// skerry://user:password@host1:6380,host2/?tls=true, that may also have once=auto
// (Options.Once; the default is once=off). Errors name what is wrong, but never contain the
// password.
func ParseDSN(dsn string) (client.Options, Options, error) {
	var o Options
	rest, query, _ := strings.Cut(dsn, "?")
	if err := delimited(rest, query); err != nil {
		return client.Options{}, o, err
	}
	var kept []string
	seen := false
	for pair := range strings.SplitSeq(query, "&") {
		name, value, _ := strings.Cut(pair, "=")
		switch {
		case pair == "":
		case name == onceParameter:
			if seen {
				return client.Options{}, o, fmt.Errorf("skerry: the DSN has the parameter %s twice", onceParameter)
			}
			if err := o.once(value); err != nil {
				return client.Options{}, o, err
			}
			seen = true
		default:
			if err := known(name); err != nil {
				return client.Options{}, o, err
			}
			kept = append(kept, pair)
		}
	}
	if len(kept) > 0 {
		rest += "?" + strings.Join(kept, "&")
	}
	co, err := client.ParseURL(rest)
	if err != nil {
		return client.Options{}, o, fmt.Errorf("skerry: the DSN: %w", err)
	}
	return co, o, nil
}

// delimited rejects a user or password with a character that ends it. The rest of it would
// be parsed as hosts and paths and could appear in other errors.
func delimited(rest, query string) error {
	_, rest, _ = strings.Cut(rest, "://")
	authority, path, _ := strings.Cut(rest, "/")
	if !strings.Contains(authority, "@") && strings.Contains(path+query, "@") {
		return errors.New("skerry: the DSN has an @ after its hosts: in a user or password, / is written %2F and ? is written %3F")
	}
	return nil
}

// once sets Options.Once from a parameter.
func (o *Options) once(value string) error {
	text, err := url.QueryUnescape(value)
	if err != nil {
		return fmt.Errorf("skerry: the DSN's parameter %s has a %% without two hexadecimal digits", onceParameter)
	}
	switch text {
	case "auto":
		o.Once = true
	case "off":
	default:
		return fmt.Errorf("skerry: the DSN's parameter %s is %q, must be auto or off", onceParameter, clip(text))
	}
	return nil
}

// known rejects an unknown parameter and names the one that was probably meant.
func known(name string) error {
	if slices.Contains(parameters[:], name) {
		return nil
	}
	if like := suggest.Nearest(name, parameters[:]); like != "" {
		return fmt.Errorf("skerry: the DSN has no parameter %q; did you mean %s?", clip(name), like)
	}
	return fmt.Errorf("skerry: the DSN has no parameter %q; there are %s", clip(name), strings.Join(parameters[:], ", "))
}

package sqldriver

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/skerrydb/skerry/client"
)

// onceParameter is the only parameter of a DSN that is not the client's.
const onceParameter = "once"

// ParseDSN reads a data source name: a URL of client.ParseURL, for example
// skerry://user:password@host1:6380,host2/?tls=true, that may also have once=auto
// (Options.Once; once=off is the default). Errors name what is wrong, and never
// the password.
func ParseDSN(dsn string) (client.Options, Options, error) {
	var o Options
	rest, query, found := strings.Cut(dsn, "?")
	if found {
		var kept []string
		seen := false
		for _, pair := range strings.Split(query, "&") {
			name, value, _ := strings.Cut(pair, "=")
			switch {
			case name == onceParameter:
				if err := o.once(value, seen); err != nil {
					return client.Options{}, o, err
				}
				seen = true
			case near(name, onceParameter):
				return client.Options{}, o, fmt.Errorf("skerry: the DSN has an unknown parameter %q: is %s meant?", clip(name), onceParameter)
			case pair != "":
				kept = append(kept, pair)
			}
		}
		if len(kept) > 0 {
			rest += "?" + strings.Join(kept, "&")
		}
	}
	co, err := client.ParseURL(rest)
	if err != nil {
		return client.Options{}, o, fmt.Errorf("skerry: the DSN: %w", err)
	}
	return co, o, nil
}

// once sets Options.Once from a parameter.
func (o *Options) once(value string, seen bool) error {
	if seen {
		return fmt.Errorf("skerry: the DSN has the parameter %s twice", onceParameter)
	}
	text, err := url.QueryUnescape(value)
	if err != nil {
		return fmt.Errorf("skerry: the DSN's parameter %s has a wrong escape", onceParameter)
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

// near reports whether name is a slip of the pen away from want, but not want.
func near(name, want string) bool {
	if strings.EqualFold(name, want) {
		return name != want
	}
	for i := range len(want) {
		dropped := want[:i] + want[i+1:]
		swapped := i > 0 && name == want[:i-1]+want[i:i+1]+want[i-1:i]+want[i+1:]
		if name == dropped || swapped {
			return true
		}
	}
	for i := range len(name) {
		if name[:i]+name[i+1:] == want {
			return true
		}
	}
	return false
}

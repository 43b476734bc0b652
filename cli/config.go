package cli

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"

	"github.com/skerrydb/skerry/suggest"
)

// setting is one thing that can be told to a verb: by the flag --name and, if
// server is set, also by the variable SKERRY_NAME and the key name in the file.
type setting struct {
	name   string
	arg    string // what the value is called in a usage text; "" for a switch
	def    string // the value if nothing is said; "" sets nothing
	help   string
	server bool
	set    func(value string) error
}

// env is the name of the setting's variable.
func (s setting) env() string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(s.name, "-", "_"))
}

const envPrefix = "SKERRY_"

// foreignEnv are the variables with our prefix that are somebody else's: the
// tests', and those that Kubernetes sets for a service called skerry.
var foreignEnv = []string{"SKERRY_REQUIRE_SERVERS", "SKERRY_SEED", "SKERRY_TEST_", "SKERRY_SERVICE_", "SKERRY_PORT"}

// configError holds every mistake of one configuration.
type configError []error

func (e configError) Error() string { return errors.Join(e...).Error() }

// mistakes puts errors, nil or not, into one configError, or returns nil.
func mistakes(errs ...error) error {
	var all configError
	for _, err := range errs {
		if some, ok := errors.AsType[configError](err); ok {
			all = append(all, some...)
		} else if err != nil {
			all = append(all, err)
		}
	}
	if all == nil {
		return nil
	}
	return all
}

// needs is the mistake of leaving out a flag that has no default.
func needs(name, value string) error {
	if value == "" {
		return fmt.Errorf("needs --%s", name)
	}
	return nil
}

// source is where values come from.
type source struct {
	label  func(s setting) string // how a mistake in it is told
	values map[string]string      // by name of the setting
}

// configure gives the settings their values and returns the arguments that are
// not flags. The command line comes before the environment, the environment
// before the file, the file before the default. Settings of the server that this
// verb does not have may stand in the environment and in the file; a name that
// nobody has is a mistake. All mistakes are returned at once, as a configError; the
// settings that are right have their values then too.
func configure(settings []setting, args, environ []string) (rest []string, err error) {
	var wrong []error
	var file string
	all := slices.Clone(settings)
	if config := (setting{name: "config", arg: "FILE", server: true, set: text(&file)}); slices.ContainsFunc(settings, func(s setting) bool { return s.server }) {
		all = append(all, config)
	}
	known := slices.DeleteFunc(append((&serveOptions{}).settings(), all...), func(s setting) bool { return !s.server })

	flags, rest, errs := readFlags(all, args)
	wrong = append(wrong, errs...)
	env, errs := readEnv(known, settings, environ)
	wrong = append(wrong, errs...)
	var doc source
	if file = cmp.Or(flags.values["config"], env.values["config"]); file != "" {
		doc, errs = readFile(known, file)
		wrong = append(wrong, errs...)
	}
	for _, s := range all {
		if s.def != "" {
			if err := s.set(s.def); err != nil {
				panic("BUG: default of " + s.name + ": " + err.Error())
			}
		}
		sources := []source{flags}
		if s.server {
			sources = []source{doc, env, flags}
		}
		for _, from := range sources {
			if v, ok := from.values[s.name]; ok {
				if err := s.set(v); err != nil {
					wrong = append(wrong, fmt.Errorf("%s: %w", from.label(s), err))
				}
			}
		}
	}
	return rest, mistakes(wrong...)
}

// readFlags understands --name value, --name=value, the same with one dash, and
// for switches --name; flags and other arguments may be mixed up to "--".
func readFlags(settings []setting, args []string) (flags source, rest []string, wrong []error) {
	flags = source{label: func(s setting) string { return "--" + s.name }, values: map[string]string{}}
	for len(args) > 0 {
		arg := args[0]
		args = args[1:]
		if arg == "--" {
			return flags, append(rest, args...), wrong
		}
		if len(arg) < 2 || arg[0] != '-' || '0' <= arg[1] && arg[1] <= '9' { // -5 is a number
			rest = append(rest, arg)
			continue
		}
		name, value, given := strings.Cut(strings.TrimPrefix(arg[1:], "-"), "=")
		i := slices.IndexFunc(settings, func(s setting) bool { return s.name == name })
		switch {
		case i < 0:
			wrong = append(wrong, fmt.Errorf("--%s: there is no such flag%s", name, meantFlag(name, settings)))
			if len(args) > 0 && !given && !strings.HasPrefix(args[0], "-") {
				args = args[1:] // its value, most likely: not a mistake of its own
			}
			continue
		case given:
		case settings[i].arg == "":
			value = "true"
		case len(args) == 0:
			wrong = append(wrong, fmt.Errorf("--%s: needs a value: %s", name, settings[i].arg))
			continue
		default:
			value, args = args[0], args[1:]
		}
		if _, twice := flags.values[name]; twice {
			wrong = append(wrong, fmt.Errorf("--%s: given twice", name))
		}
		flags.values[name] = value
	}
	return flags, rest, wrong
}

// meantFlag asks whether one of the flags was meant by name.
func meantFlag(name string, settings []setting) string {
	var names []string
	for _, s := range settings {
		names = append(names, s.name)
	}
	if like := suggest.Nearest(name, names); like != "" {
		return "; did you mean --" + like + "?"
	}
	return ""
}

// readEnv takes those of known; settings are the verb's, some of which are only flags.
func readEnv(known, settings []setting, environ []string) (env source, wrong []error) {
	env = source{label: setting.env, values: map[string]string{}}
	for _, line := range environ {
		name, value, _ := strings.Cut(line, "=")
		if !strings.HasPrefix(name, envPrefix) {
			continue
		}
		i := slices.IndexFunc(known, func(s setting) bool { return s.env() == name })
		foreign := func(prefix string) bool { return strings.HasPrefix(name, prefix) }
		switch {
		case i >= 0 && value != "":
			env.values[known[i].name] = value
		case i < 0 && slices.ContainsFunc(settings, func(s setting) bool { return s.env() == name }):
			flag := strings.ToLower(strings.ReplaceAll(name[len(envPrefix):], "_", "-"))
			wrong = append(wrong, fmt.Errorf("%s: --%s is a flag only, no variable sets it", name, flag))
		case i < 0 && !slices.ContainsFunc(foreignEnv, foreign):
			wrong = append(wrong, fmt.Errorf("%s: there is no such setting", name))
		}
	}
	return env, wrong
}

func readFile(known []setting, name string) (file source, wrong []error) {
	file = source{label: func(s setting) string { return name + ": " + s.name }, values: map[string]string{}}
	text, err := os.ReadFile(name)
	if err != nil {
		return file, []error{fmt.Errorf("configuration: %w", err)}
	}
	doc := map[string]any{}
	if _, err := toml.Decode(string(text), &doc); err != nil {
		return file, []error{fmt.Errorf("%s: %w", name, err)}
	}
	for _, key := range slices.Sorted(maps.Keys(doc)) {
		if !slices.ContainsFunc(known, func(s setting) bool { return s.name == key && key != "config" }) {
			wrong = append(wrong, fmt.Errorf("%s: %s: there is no such setting", name, key))
			continue
		}
		switch v := doc[key].(type) {
		case string, int64, bool:
			file.values[key] = fmt.Sprint(v)
		default:
			wrong = append(wrong, fmt.Errorf("%s: %s: must be a string, a whole number or a boolean", name, key))
		}
	}
	return file, wrong
}

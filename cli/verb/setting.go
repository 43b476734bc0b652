package verb

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

// Setting is one setting of a verb. It is set by the flag --name and, if Server is set, also by the variable
// SKERRY_NAME and the key name in the file.
type Setting struct {
	Name    string
	Arg     string // name of the value in a usage text; "" for a switch
	Default string // the default value; "" sets nothing
	Help    string
	Server  bool
	Hidden  bool // accepted, but not in the usage text
	Set     func(value string) error
	Note    func(value, from string) // if not nil, is told each value that was set and what set it; the last one counts
}

// set sets a value that came from a place.
func (s Setting) set(value, from string) error {
	err := s.Set(value)
	if err == nil && s.Note != nil {
		s.Note(value, from)
	}
	return err
}

// env returns the name of the setting's variable.
func (s Setting) env() string {
	return EnvPrefix + strings.ToUpper(strings.ReplaceAll(s.Name, "-", "_"))
}

const EnvPrefix = "SKERRY_"

// FromDefault is where a value that nobody has set comes from.
const FromDefault = "default"

// foreignEnv are variables with Skerry's prefix that are not settings: those of tests, and those that
// Kubernetes sets for a service called skerry.
var foreignEnv = []string{"SKERRY_REQUIRE_SERVERS", "SKERRY_SEED", "SKERRY_TEST_", "SKERRY_SERVICE_", "SKERRY_PORT"}

// ConfigError has all mistakes of one configuration.
type ConfigError []error

func (e ConfigError) Error() string { return errors.Join(e...).Error() }

// Mistakes joins errors, which may be nil, into one ConfigError, or returns nil.
func Mistakes(errs ...error) error {
	var all ConfigError
	for _, err := range errs {
		if some, ok := errors.AsType[ConfigError](err); ok {
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

// Needs is the error for a missing flag that has no default.
func Needs(name, value string) error {
	if value == "" {
		return fmt.Errorf("needs --%s", name)
	}
	return nil
}

// source is one source of values.
type source struct {
	label  func(s Setting) string // how an error names the setting
	values map[string]string      // by name of the setting
}

// Configure sets the settings and returns the arguments that are not flags. The command line takes precedence
// over the environment, the environment over the file, the file over the default. The environment and the file
// may have settings of the server that this verb does not have; an unknown name is an error. All errors are
// returned together, as a ConfigError; the valid settings are set nevertheless.
func Configure(settings, server []Setting, args, environ []string) (rest []string, err error) {
	var wrong []error
	var file string
	all := slices.Clone(settings)
	if config := (Setting{Name: "config", Arg: "FILE", Server: true, Set: Text(&file)}); slices.ContainsFunc(settings, func(s Setting) bool { return s.Server }) {
		all = append(all, config)
	}
	known := slices.DeleteFunc(slices.Concat(server, all), func(s Setting) bool { return !s.Server })

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
		if s.Default != "" {
			if err := s.set(s.Default, FromDefault); err != nil {
				panic("BUG: default of " + s.Name + ": " + err.Error())
			}
		}
		sources := []source{flags}
		if s.Server {
			sources = []source{doc, env, flags}
		}
		for _, from := range sources {
			if v, ok := from.values[s.Name]; ok {
				if err := s.set(v, from.label(s)); err != nil {
					wrong = append(wrong, fmt.Errorf("%s: %w", from.label(s), err))
				}
			}
		}
	}
	return rest, Mistakes(wrong...)
}

// readFlags accepts --name value, --name=value, the same with one dash, and --name for switches. Flags and
// other arguments may be mixed up to "--".
func readFlags(settings []Setting, args []string) (flags source, rest []string, wrong []error) {
	flags = source{label: func(s Setting) string { return "--" + s.Name }, values: map[string]string{}}
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
		i := slices.IndexFunc(settings, func(s Setting) bool { return s.Name == name })
		switch {
		case i < 0:
			wrong = append(wrong, fmt.Errorf("--%s: unknown flag%s", name, meantFlag(name, settings)))
			if len(args) > 0 && !given && !strings.HasPrefix(args[0], "-") {
				args = args[1:] // most likely its value: not another mistake
			}
			continue
		case given:
		case settings[i].Arg == "":
			value = "true"
		case len(args) == 0:
			wrong = append(wrong, fmt.Errorf("--%s: needs a value: %s", name, settings[i].Arg))
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

// meantFlag suggests one of the flags for a mistyped name.
func meantFlag(name string, settings []Setting) string {
	var names []string
	for _, s := range settings {
		names = append(names, s.Name)
	}
	if like := suggest.Nearest(name, names); like != "" {
		return "; did you mean --" + like + "?"
	}
	return ""
}

// readEnv reads the variables of known; settings are the verb's, some of which are only flags.
func readEnv(known, settings []Setting, environ []string) (env source, wrong []error) {
	env = source{label: Setting.env, values: map[string]string{}}
	for _, line := range environ {
		name, value, _ := strings.Cut(line, "=")
		if !strings.HasPrefix(name, EnvPrefix) {
			continue
		}
		i := slices.IndexFunc(known, func(s Setting) bool { return s.env() == name })
		foreign := func(prefix string) bool { return strings.HasPrefix(name, prefix) }
		switch {
		case i >= 0 && value != "":
			env.values[known[i].Name] = value
		case i < 0 && slices.ContainsFunc(settings, func(s Setting) bool { return s.env() == name }):
			flag := strings.ToLower(strings.ReplaceAll(name[len(EnvPrefix):], "_", "-"))
			wrong = append(wrong, fmt.Errorf("%s: only the flag --%s can set this", name, flag))
		case i < 0 && !slices.ContainsFunc(foreignEnv, foreign):
			wrong = append(wrong, fmt.Errorf("%s: unknown setting", name))
		}
	}
	return env, wrong
}

func readFile(known []Setting, name string) (file source, wrong []error) {
	file = source{label: func(s Setting) string { return name + ": " + s.Name }, values: map[string]string{}}
	text, err := os.ReadFile(name)
	if err != nil {
		return file, []error{fmt.Errorf("configuration: %w", err)}
	}
	doc := map[string]any{}
	if _, err := toml.Decode(string(text), &doc); err != nil {
		return file, []error{fmt.Errorf("%s: %w", name, err)}
	}
	for _, key := range slices.Sorted(maps.Keys(doc)) {
		if !slices.ContainsFunc(known, func(s Setting) bool { return s.Name == key && key != "config" }) {
			wrong = append(wrong, fmt.Errorf("%s: %s: unknown setting", name, key))
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

// JSON is --json.
func JSON(p *bool) Setting {
	return Setting{Name: "json", Help: "print JSON", Set: Toggle(p)}
}

// NoArguments is the Check of a verb that accepts only flags.
func NoArguments(rest []string) error {
	if len(rest) > 0 {
		return Usagef("unexpected argument %q: only flags are allowed", rest[0])
	}
	return nil
}

// OneArgument is the error for a number of arguments other than one.
func OneArgument(rest []string, what string) error {
	switch {
	case len(rest) == 0 || rest[0] == "":
		return errors.New("needs " + what)
	case len(rest) > 1:
		return fmt.Errorf("unexpected argument %q", rest[1])
	}
	return nil
}

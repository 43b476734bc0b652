package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"unicode/utf8"

	"github.com/skerrydb/skerry/cli/verb"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/proc"
)

// callOptions are the options of `skerry call`.
type callOptions struct {
	remote
	args string // all arguments as JSON
	key  string
}

var callVerb = verb.Verb{
	Name: "call", Args: "NAME [ARG…]", Short: "call a procedure of a running server and print its result as JSON",
	Long: `Give the arguments in the order that skerry procedures shows; optional ones at the end
may be omitted. Strings, times and bytes are written as they are, everything else as
JSON: 5, true, '["a","b"]', '{"a":1}'. An empty argument ('') is null where null is
allowed. Arguments that begin with a dash, except numbers, go after --. While the nodes
of a cluster run different programs, --json-args can also call procedures that only the
leader has.

If the outcome is unknown because the server or the connection was lost, the call may
have been carried out. A call with --key can be repeated: the server carries it out once
and returns the same result to every call with that key for a day.

The exit code is 1 if the procedure failed, 2 if there is no such procedure or the
arguments do not match.`,
	Start: func(app verb.App) verb.Action {
		o := &callOptions{}
		settings := append([]verb.Setting{
			urlSetting(&o.url, defaultURL(app)),
			{Name: "json-args", Arg: "JSON", Help: "all arguments as one object, instead of ARG…; - reads standard input", Set: verb.Text(&o.args)},
			{Name: "key", Arg: "KEY", Help: "carry out the call only once, however often it is sent with this key", Set: verb.Text(&o.key)},
		}, o.accessSettings()...)
		return verb.Action{Settings: settings, Check: o.check, Do: func(ctx context.Context, p verb.Process, rest []string) error {
			return o.call(ctx, p, rest[0], rest[1:])
		}}
	},
}

func (o *callOptions) check(rest []string) error {
	var what error
	switch {
	case len(rest) == 0:
		what = errors.New("needs the name of a procedure; `skerry procedures` lists them")
	case rest[0] == "":
		what = errors.New("the name of the procedure is empty")
	case len(rest) > 1 && o.args != "":
		what = errors.New("takes --json-args or arguments, not both")
	}
	return verb.Mistakes(what, o.remote.check("url"))
}

func (o *callOptions) call(ctx context.Context, p verb.Process, name string, args []string) error {
	body := []byte(o.args)
	var err error
	switch {
	case o.args == "-":
		if body, err = io.ReadAll(io.LimitReader(p.Stdin, proc.MaxArgBytes+1)); err != nil {
			return fmt.Errorf("read the arguments: %w", err)
		}
	case len(args) > 0:
		if body, err = o.object(ctx, name, args); err != nil {
			return err
		}
	}
	switch {
	case len(body) > proc.MaxArgBytes:
		return verb.Usagef("the arguments are larger than %s", verb.FormatSize(proc.MaxArgBytes))
	case o.args != "" && (!json.Valid(body) || bytes.TrimSpace(body)[0] != '{'):
		return verb.Usagef("--json-args: must be one JSON object")
	}
	header := http.Header{}
	if len(body) > 0 {
		header.Set("Content-Type", "application/json")
	}
	if o.key != "" {
		header.Set("Idempotency-Key", o.key)
	}
	resp, err := o.ask(ctx, http.MethodPost, "/api/call/"+url.PathEscape(name), header, body)
	if no, ok := errors.AsType[*refusal](err); ok && no.arguments() {
		return verb.Usagef("%w", no)
	}
	if err != nil && sent(err) {
		return fmt.Errorf("%w; the call may have been carried out", err)
	}
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.Header.Get("Idempotent-Replayed") == "true" {
		fmt.Fprintln(p.Stderr, "this call was carried out before, with this result:")
	}
	if _, err := io.Copy(p.Stdout, resp.Body); err != nil {
		return fmt.Errorf("the call was carried out, but reading its result failed: %w", err)
	}
	return nil
}

// object returns the body of a call, with arguments in the order of the schema.
func (o *callOptions) object(ctx context.Context, name string, args []string) ([]byte, error) {
	list, err := o.procedures(ctx)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(list.Procedures, func(s proc.Schema) bool { return s.Name == name })
	if i < 0 {
		var names []string
		for _, s := range list.Procedures {
			names = append(names, s.Name)
		}
		return nil, verb.Usagef("there is no procedure %s%s [%s]", name, cmp.Or(verb.DidYouMean(name, names), "; `skerry procedures` lists them"), engine.CodeUnknownProcedure)
	}
	s := list.Procedures[i]
	if len(args) > len(s.Args) {
		return nil, verb.Usagef("unexpected argument %q: %s takes (%s)", args[len(s.Args)], name, fieldWords(s.Args))
	}
	b := []byte{'{'}
	for i, arg := range args {
		if i > 0 {
			b = append(b, ',')
		}
		key, err := json.Marshal(s.Args[i].Name)
		if err != nil {
			return nil, err
		}
		val, err := argument(s.Args[i].Type, arg)
		if err != nil {
			return nil, verb.Usagef("argument %s %w", s.Args[i].Name, err)
		}
		b = append(append(append(b, key...), ':'), val...)
	}
	return append(b, '}'), nil
}

// argument returns one argument as JSON.
func argument(t proc.Type, arg string) ([]byte, error) {
	switch {
	case arg == "" && t.Nullable:
		return []byte("null"), nil
	case t.Kind == proc.KindBytes:
		return json.Marshal(base64.StdEncoding.EncodeToString([]byte(arg)))
	case t.Kind == proc.KindString || t.Kind == proc.KindTime:
		if !utf8.ValidString(arg) {
			return nil, fmt.Errorf("must be UTF-8, not %q", arg)
		}
		return json.Marshal(arg)
	case !json.Valid([]byte(arg)):
		return nil, fmt.Errorf("must be %s, written as JSON, not %q", typeWords(notNull(t)), arg)
	}
	return []byte(arg), nil
}

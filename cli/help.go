package cli

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"github.com/skerrydb/skerry/cli/verb"
)

func wantsHelp(arg string) bool { return arg == "-h" || arg == "-help" || arg == "--help" }

// help runs `skerry help [VERB]`.
func help(p verb.Process, args []string) int {
	if len(args) == 0 || len(args) == 1 && (args[0] == "help" || wantsHelp(args[0])) {
		printHelp(p.Stdout, p)
		return verb.ExitOK
	}
	v, rest, err := find(verbs(p.App), append(slices.Clone(args), "--help"))
	switch {
	case err != nil:
		p.Complain("", p.OwnError(err))
		return verb.ExitUsage
	case v.Subs != nil:
		printVerbs(p, v)
		return verb.ExitOK
	case len(rest) > 1:
		p.Complain("", "help explains one verb at a time")
		return verb.ExitUsage
	}
	printUsage(p, v, v.Start(p.App).Settings)
	return verb.ExitOK
}

// printVerbs prints the subcommands of a verb.
func printVerbs(p verb.Process, v verb.Verb) {
	w := p.Stdout
	fmt.Fprintf(w, "%s: %s\n\n%s\n\n", p.Paint(w, verb.Bold, p.App.Name+" "+v.Name), v.Short, p.Own(v.Long))
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	for _, s := range v.Subs {
		fmt.Fprintf(t, "  %s\t%s\n", p.Paint(w, verb.Bold, s.Name), s.Short)
	}
	t.Flush()
	fmt.Fprintf(w, "\nRun `%s help %s VERB` for the usage of one.\n", p.App.Name, v.Name)
}

func printHelp(w io.Writer, p verb.Process) {
	with := ""
	if n := len(p.App.Procedures); n > 0 {
		with = "\nThis program has " + verb.Plural(n, "procedure") + "."
	}
	fmt.Fprintf(w, "Skerry is an application server with its database inside.%s\n\n\t%s VERB [FLAGS]\n\n", with, p.App.Name)
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	for _, v := range verbs(p.App) {
		fmt.Fprintf(t, "  %s\t%s\n", p.Paint(w, verb.Bold, v.Name), v.Short)
	}
	fmt.Fprintf(t, "  %s\tshow the usage of a verb\n", p.Paint(w, verb.Bold, "help VERB"))
	t.Flush()
	fmt.Fprint(w, `
The value of a setting comes from the first of these that sets it: a flag (--http ADDR),
an environment variable (SKERRY_HTTP), the file that --config or SKERRY_CONFIG names
(TOML: http = "ADDR"), the default.

Exit codes: 0 done; 1 failed; 2 wrong usage or configuration; 3 damaged data or a
broken promise; 4 the data folder is in use; 130 stopped by a signal.
`)
}

func printUsage(p verb.Process, v verb.Verb, settings []verb.Setting) {
	w, args := p.Stdout, v.Args
	if args != "" {
		args = " " + args
	}
	if settings != nil {
		args += " [FLAGS]"
	}
	fmt.Fprintf(w, "%s%s: %s\n", p.Paint(w, verb.Bold, p.App.Name+" "+v.Name), args, v.Short)
	if v.Long != "" {
		fmt.Fprintf(w, "\n%s\n", p.Own(v.Long))
	}
	if settings == nil {
		return
	}
	fmt.Fprintf(w, "\n%s\n", p.Paint(w, verb.Bold, "Flags:"))
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	server := false
	for _, s := range settings {
		if s.Hidden {
			continue
		}
		flag := "--" + s.Name
		if s.Arg != "" {
			flag += " " + s.Arg
		}
		about := s.Help
		if s.Default != "" {
			about += " (default " + s.Default + ")"
		}
		fmt.Fprintf(t, "  %s\t%s\n", p.Paint(w, verb.Bold, flag), about)
		server = server || s.Server
	}
	if server {
		fmt.Fprintf(t, "  %s\tTOML file with these settings\n", p.Paint(w, verb.Bold, "--config FILE"))
	}
	t.Flush()
}

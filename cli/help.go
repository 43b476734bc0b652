package cli

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
)

func wantsHelp(arg string) bool { return arg == "-h" || arg == "-help" || arg == "--help" }

// help answers `skerry help [VERB]`.
func help(p process, args []string) int {
	if len(args) == 0 || len(args) == 1 && (args[0] == "help" || wantsHelp(args[0])) {
		printHelp(p.Stdout, p)
		return exitOK
	}
	v, rest, err := find(verbs(), append(slices.Clone(args), "--help"))
	switch {
	case err != nil:
		p.complain("", p.ownError(err))
		return exitUsage
	case v.subs != nil:
		printVerbs(p, v)
		return exitOK
	case len(rest) > 1:
		p.complain("", "help explains one verb at a time")
		return exitUsage
	}
	printUsage(p, v, v.start(p.app).settings)
	return exitOK
}

// printVerbs says what a verb does by its next argument.
func printVerbs(p process, v verb) {
	w := p.Stdout
	fmt.Fprintf(w, "%s: %s\n\n%s\n\n", p.paint(w, bold, p.app.Name+" "+v.name), v.short, p.own(v.long))
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	for _, s := range v.subs {
		fmt.Fprintf(t, "  %s\t%s\n", p.paint(w, bold, s.name), s.short)
	}
	t.Flush()
	fmt.Fprintf(w, "\n`%s help %s …` says what each takes.\n", p.app.Name, v.name)
}

func printHelp(w io.Writer, p process) {
	with := ""
	if n := len(p.app.Procedures); n > 0 {
		with = "\nThis one has " + plural(n, "procedure") + " of its own."
	}
	fmt.Fprintf(w, "Skerry is an application server with its database inside.%s\n\n\t%s VERB [FLAGS]\n\n", with, p.app.Name)
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	for _, v := range verbs() {
		fmt.Fprintf(t, "  %s\t%s\n", p.paint(w, bold, v.name), v.short)
	}
	fmt.Fprintf(t, "  %s\tsay what a verb takes\n", p.paint(w, bold, "help VERB"))
	t.Flush()
	fmt.Fprint(w, `
A setting is taken from the first of these that has it: a flag (--http ADDR), an
environment variable (SKERRY_HTTP), the file that --config or SKERRY_CONFIG names
(TOML: http = "ADDR"), the default.

Exit codes: 0 done; 1 failed; 2 wrong usage or configuration; 3 damaged data or a
broken promise; 4 the data folder is in use; 130 ended by a signal.
`)
}

func printUsage(p process, v verb, settings []setting) {
	w, args := p.Stdout, v.args
	if args != "" {
		args = " " + args
	}
	if settings != nil {
		args += " [FLAGS]"
	}
	fmt.Fprintf(w, "%s%s: %s\n", p.paint(w, bold, p.app.Name+" "+v.name), args, v.short)
	if v.long != "" {
		fmt.Fprintf(w, "\n%s\n", p.own(v.long))
	}
	if settings == nil {
		return
	}
	fmt.Fprintf(w, "\n%s\n", p.paint(w, bold, "Flags:"))
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	server := false
	for _, s := range settings {
		flag := "--" + s.name
		if s.arg != "" {
			flag += " " + s.arg
		}
		about := s.help
		if s.def != "" {
			about += " (default " + s.def + ")"
		}
		fmt.Fprintf(t, "  %s\t%s\n", p.paint(w, bold, flag), about)
		server = server || s.server
	}
	if server {
		fmt.Fprintf(t, "  %s\tTOML file with these settings\n", p.paint(w, bold, "--config FILE"))
	}
	t.Flush()
}

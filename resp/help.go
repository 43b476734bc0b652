package resp

import (
	_ "embed" // the texts below
	"strings"
)

// helpTexts contains the lines of Redis's HELP subcommands for the subcommands that exist
// here. For each container it has the name and the lines, with an empty line at the end.
//
//go:embed help.txt
var helpTexts string

// helpCmd implements the subcommand HELP of every container. It returns Redis's lines,
// followed by those of the subcommands that Redis does not have.
func helpCmd(x *call) error {
	short, _, _ := strings.Cut(x.cmd.name, "|")
	name := strings.ToUpper(short)
	lines := []string{name + " <subcommand> [<arg> [value] [opt] ...]. Subcommands are:"}
	if _, text, ok := strings.Cut("\n\n"+helpTexts, "\n\n"+name+"\n"); ok {
		text, _, _ = strings.Cut(text, "\n\n")
		lines = append(lines, strings.Split(strings.TrimSuffix(text, "\n"), "\n")...)
	}
	for _, sub := range x.srv.table[short].subs {
		if d := sub.doc; d != nil && sub.name != x.cmd.name {
			_, word, _ := strings.Cut(strings.ToUpper(sub.name), "|")
			lines = append(lines, word+d.usage(), "    "+d.Summary+".")
		}
	}
	lines = append(lines, "HELP", "    Prints this help.")
	x.out.Array(len(lines))
	for _, l := range lines {
		x.out.Simple(l)
	}
	return nil
}

// wrongSub returns the error of a subcommand with a wrong number of arguments.
func (x *call) wrongSub() error {
	container, _, _ := strings.Cut(strings.ToUpper(x.cmd.name), "|")
	return replyError("ERR unknown subcommand or wrong number of arguments for '" + cText(x.args[1], 128) + "'. Try " + container + " HELP.")
}

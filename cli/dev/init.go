package dev

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/skerrydb/skerry/cli/cluster"
	"github.com/skerrydb/skerry/cli/dev/starter"
	"github.com/skerrydb/skerry/cli/verb"
)

// initOptions are the options of `skerry init`.
type initOptions struct {
	template string
	skerry   string
}

var Init = verb.Verb{
	Name: "init", Args: "FOLDER", Short: "create a new program with pages, procedures and tests",
	Long: initLong(),
	Start: func(verb.App) verb.Action {
		o := &initOptions{}
		var names []string
		for _, t := range starter.Templates() {
			names = append(names, t.Name)
		}
		settings := []verb.Setting{
			{Name: "template", Arg: "NAME", Default: names[0], Help: "template of the program", Set: verb.Choice(&o.template, names...)},
			{Name: "skerry", Arg: "DIR", Help: "folder of Skerry's source, needed until Skerry is published (default where this program was built from)", Set: verb.Text(&o.skerry)},
		}
		check := func(rest []string) error {
			switch {
			case len(rest) == 0:
				return verb.Usagef("needs the folder of the new program; its name is also the program's name")
			case len(rest) > 1:
				return verb.Usagef("unexpected argument %q: only one program is created at a time", rest[1])
			}
			if err := starter.CheckName(programName(rest[0])); err != nil {
				return verb.Usagef("%w", err)
			}
			return nil
		}
		return verb.Action{Settings: settings, Check: check, Do: func(ctx context.Context, p verb.Process, rest []string) error {
			return makeProgram(ctx, p, o, rest[0])
		}}
	},
}

func initLong() string {
	var b strings.Builder
	b.WriteString("Creates a folder with a Go module of the same name: ../diary gets the module diary. All\nof it is yours to change. The templates are:\n")
	for _, t := range starter.Templates() {
		fmt.Fprintf(&b, "\n\t%-6s %s", t.Name, t.Short)
	}
	return b.String()
}

// programName returns the name of the program in a folder.
func programName(folder string) string {
	if folder == "" {
		return ""
	}
	return filepath.Base(folder)
}

func makeProgram(ctx context.Context, p verb.Process, o *initOptions, folder string) error {
	from, err := findSkerry(o.skerry)
	if err != nil {
		return err
	}
	dir, made, err := starter.Make(filepath.Dir(filepath.Clean(folder)), starter.Options{Name: programName(folder), Template: o.template, Skerry: from})
	if err != nil {
		return err
	}
	fmt.Fprintf(p.Stdout, "%s: created %s from the template %s, with Skerry from %s\n", dir, verb.Plural(len(made), "file"), o.template, from)
	// All requirements are already there, and more; this removes the unused ones.
	tidy := exec.CommandContext(ctx, "go", "mod", "tidy")
	tidy.Dir, tidy.Env = dir, ownSettings(p.Environ)
	tidy.WaitDelay = cluster.AskWait
	var out bytes.Buffer
	tidy.Stdout, tidy.Stderr = &out, &out
	if err := tidy.Run(); ctx.Err() != nil {
		return ctx.Err()
	} else if errors.Is(err, exec.ErrNotFound) {
		fmt.Fprintf(p.Stderr, "%s init: the go command was not found; you need it to build the program\n", p.App.Name)
	} else if err != nil {
		fmt.Fprintf(p.Stderr, "%s init: `go mod tidy` failed, which is harmless for now: %s\n", p.App.Name, bytes.TrimSpace(out.Bytes()))
	}
	_, err = fmt.Fprintf(p.Stdout, "\n\tcd %s\n\t%s dev\n\ngo test ./... runs its tests; README.md describes its files\n", dir, inNewFolder(p))
	return err
}

// inNewFolder returns the command that starts this program in the new folder: its name if the PATH finds it,
// otherwise `go run .`.
func inNewFolder(p verb.Process) string {
	named, err := exec.LookPath(p.App.Name)
	if err != nil || !filepath.IsAbs(named) {
		return "go run ."
	}
	self, err := os.Executable()
	if err != nil {
		return "go run ."
	}
	a, err := os.Stat(named)
	b, err2 := os.Stat(self)
	if err != nil || err2 != nil || !os.SameFile(a, b) {
		return "go run ."
	}
	return p.App.Name
}

// findSkerry returns the folder of Skerry's source: the user's choice, or the source of this program.
func findSkerry(given string) (string, error) {
	if given != "" {
		if err := starter.CheckSkerry(given); err != nil {
			return "", fmt.Errorf("--skerry: %s is not Skerry's source: %w", given, err)
		}
		return filepath.Abs(given)
	}
	for _, dir := range candidates() {
		if dir != "" && starter.CheckSkerry(dir) == nil {
			return filepath.Abs(dir)
		}
	}
	return "", errors.New("cannot find Skerry's source, which the new program needs until Skerry is published; set it with --skerry DIR")
}

// candidates returns folders that may contain Skerry's source: above the program's file, where the program's
// own module gets Skerry from, where the compiler found this file, and above the current folder.
func candidates() (dirs []string) {
	if self, err := os.Executable(); err == nil {
		if real, err := filepath.EvalSymlinks(self); err == nil {
			dirs = append(dirs, moduleAbove(filepath.Dir(real)))
		}
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, dep := range info.Deps {
			if dep.Path == verb.Library && dep.Replace != nil && filepath.IsAbs(dep.Replace.Path) {
				dirs = append(dirs, dep.Replace.Path)
			}
		}
	}
	if _, file, _, ok := runtime.Caller(0); ok && filepath.IsAbs(file) {
		dirs = append(dirs, moduleAbove(filepath.Dir(file)))
	}
	if here, err := os.Getwd(); err == nil {
		dirs = append(dirs, moduleAbove(here))
	}
	return dirs
}

// moduleAbove returns the folder of the Go module that contains dir, or "".
func moduleAbove(dir string) string {
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		if filepath.Dir(dir) == dir {
			return ""
		}
		dir = filepath.Dir(dir)
	}
}

// Package starter creates new programs from templates, each as a Go module that its user owns from the start.
//
// It knows templates, names and files; it must not know servers, or what else the command line does.
package starter

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"go/format"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/template"
)

// MaxName is the length of the longest name of a program, in bytes.
const MaxName = 63

// Template is the template of a program.
type Template struct {
	Name  string
	Short string // one line
}

// Templates returns all templates, the simplest first.
func Templates() []Template {
	return []Template{
		{"hello", "one page, one procedure that counts visits, one test"},
		{"todo", "to-do lists, with logins and live pages that also work without scripts"},
		{"bank", "accounts and transfers that never lose money"},
	}
}

// Options configures Make.
type Options struct {
	Name     string // of the program, its folder and its module: see CheckName
	Template string // of Templates
	Skerry   string // the folder of Skerry's own source, which the module uses
}

// The templates. Their files have .txt at the end of their names, so that neither the
// Go command nor an editor takes them for a program; "dot-" stands for a dot. Those of
// all come with every template; most of todo's are copies of examples/todo.
//
//go:embed all:templates
var files embed.FS

// library is Skerry's module.
const library = "github.com/skerrydb/skerry"

// reserved are names that mean something else to the Go command.
var reserved = []string{"all", "cmd", "go", "internal", "main", "std", "test", "testdata", "tool", "vendor", "work"}

// CheckName returns what is wrong with the name of a program. The name is a folder, a Go module, part of
// cookie names and typed in a shell.
func CheckName(name string) error {
	switch {
	case name == "":
		return errors.New("the name of the program is empty")
	case len(name) > MaxName:
		return fmt.Errorf("the name of the program has %d bytes, at most %d", len(name), MaxName)
	case strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" || name[0] < 'a' || name[0] > 'z' || strings.HasSuffix(name, "-"):
		return fmt.Errorf("%q cannot be the name of a program: use lower-case letters, digits and dashes, begin with a letter, and do not end with a dash", name)
	case slices.Contains(reserved, name):
		return fmt.Errorf("%q cannot be the name of a program: the Go command reserves it", name)
	}
	return nil
}

// CheckSkerry returns why a folder does not have Skerry's source.
func CheckSkerry(dir string) error {
	text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		return err
	}
	if !strings.HasPrefix(string(text), "module "+library+"\n") {
		return fmt.Errorf("%s is not the module %s", dir, library)
	}
	return nil
}

// Make creates the program in a new folder of parent with the program's name, and returns that folder and the
// files in it. It never touches existing files.
func Make(parent string, o Options) (dir string, made []string, err error) {
	if err := CheckName(o.Name); err != nil {
		return "", nil, err
	}
	if !slices.ContainsFunc(Templates(), func(t Template) bool { return t.Name == o.Template }) {
		return "", nil, fmt.Errorf("there is no template %q", o.Template)
	}
	if err := CheckSkerry(o.Skerry); err != nil {
		return "", nil, err
	}
	v, err := newValues(o)
	if err != nil {
		return "", nil, err
	}
	all := map[string][]byte{}
	for _, from := range []string{"all", o.Template} { // a template's own files come last
		if err := v.fill(all, path.Join("templates", from)); err != nil {
			return "", nil, err
		}
	}
	if all["go.sum"], err = os.ReadFile(filepath.Join(o.Skerry, "go.sum")); err != nil {
		return "", nil, err
	}
	dir = filepath.Join(parent, o.Name)
	if err := os.Mkdir(dir, 0o755); err != nil {
		if errors.Is(err, fs.ErrExist) {
			err = fmt.Errorf("%s already exists", dir)
		}
		return "", nil, err
	}
	if made, err = write(dir, all); err != nil {
		return "", nil, errors.Join(err, os.RemoveAll(dir))
	}
	return dir, made, nil
}

func write(dir string, all map[string][]byte) (made []string, err error) {
	for name, text := range all {
		full := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			return nil, err
		}
		if err := os.WriteFile(full, text, 0o644); err != nil {
			return nil, err
		}
		made = append(made, name)
	}
	slices.Sort(made)
	return made, nil
}

// values are the values for [[ and ]] in the templates.
type values struct {
	Name, Short string
	Skerry      string // path of the replace line, quoted if necessary
	Go          string // the version that Skerry needs
	Requires    []string
}

func newValues(o Options) (*values, error) {
	v := &values{Name: o.Name}
	for _, t := range Templates() {
		if t.Name == o.Template {
			v.Short = t.Short
		}
	}
	dir, err := filepath.Abs(o.Skerry)
	if err != nil {
		return nil, err
	}
	if v.Skerry = dir; strings.ContainsAny(dir, " \t\"'`()") {
		v.Skerry = strconv.Quote(dir)
	}
	text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		return nil, err
	}
	// All requirements of Skerry are required here, in the Go command's format.
	inside := false
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		switch word, rest, _ := strings.Cut(line, " "); {
		case word == "go":
			v.Go = rest
		case line == "require (":
			inside = true
		case line == ")":
			inside = false
		case inside && line != "":
			v.Requires = append(v.Requires, strings.TrimSuffix(line, " // indirect"))
		case word == "require":
			v.Requires = append(v.Requires, strings.TrimSuffix(rest, " // indirect"))
		}
	}
	slices.Sort(v.Requires)
	return v, nil
}

// fill adds the files of one folder of templates.
func (v *values) fill(all map[string][]byte, from string) error {
	return fs.WalkDir(files, from, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := files.ReadFile(p)
		if err != nil {
			return err
		}
		t, err := template.New(p).Delims("[[", "]]").Option("missingkey=error").Parse(string(text))
		if err != nil {
			return err
		}
		var out bytes.Buffer
		if err := t.Execute(&out, v); err != nil {
			return err
		}
		name := strings.TrimSuffix(strings.TrimPrefix(p, from+"/"), ".txt")
		name = path.Join(path.Dir(name), strings.Replace(path.Base(name), "dot-", ".", 1))
		if all[name] = out.Bytes(); path.Ext(name) == ".go" {
			if all[name], err = format.Source(out.Bytes()); err != nil {
				return fmt.Errorf("%s: %w", p, err)
			}
		}
		return nil
	})
}

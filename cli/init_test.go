package cli

import (
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/skerrydb/skerry/cli/dev/starter"
)

// sourceFlag returns init's flag for Skerry's source if -trimpath has removed it from the program under test.
func sourceFlag(t *testing.T) string {
	t.Helper()
	if _, file, _, _ := runtime.Caller(0); filepath.IsAbs(file) {
		return ""
	}
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	return " --skerry " + root
}

// newProgram has init make a program in a shell's folder, without the network, and
// goes there.
func newProgram(t *testing.T, s *shell, name, template string) {
	t.Helper()
	s.offline()
	s.env = append(s.env, "GOFLAGS=-mod=mod", "CGO_ENABLED=0")
	out := s.run("skerry init " + name + " --template " + template + sourceFlag(t))
	if !strings.Contains(out, "cd "+name) || strings.Contains(out, "! ") {
		t.Fatalf("init %s:\n%s", template, out)
	}
	s.dir = filepath.Join(s.dir, name)
}

// TestTemplates: what init makes is vetted, tested and built as it is, serves its
// page, and says the version that was linked.
func TestTemplates(t *testing.T) { // not beside tests of time: it builds
	if testing.Short() {
		t.Skip("builds programs")
	}
	need(t, "go")
	for _, tmpl := range starter.Templates() {
		t.Run(tmpl.Name, func(t *testing.T) {
			s := newShell(t)
			newProgram(t, s, "my-"+tmpl.Name, tmpl.Name)
			if out := s.run("gofmt -l . && go vet ./... && go test ./... && go build -ldflags '-X main.version=v1.2.3'"); strings.Contains(out, "! ") || !strings.Contains(out, "ok ") {
				t.Fatalf("it is not well:\n%s", out)
			}
			if out := s.run("./my-" + tmpl.Name + " version"); !strings.HasPrefix(out, "my-"+tmpl.Name+" v1.2.3 (Skerry (devel), ") {
				t.Errorf("version: %s", out)
			}
			s.program = filepath.Join(s.dir, "my-"+tmpl.Name)
			p := s.serve("--admin", "127.0.0.1:0")
			p.waitReady()
			path, want := "", "<h1>my-"+tmpl.Name+"</h1>"
			if tmpl.Name == "todo" { // the list is its user's
				path, want = "/register", "<title>Create an account · my-todo</title>"
			}
			code, page := get(t, p.HTTP+path)
			if code != http.StatusOK || !strings.Contains(page, want) || strings.Contains(page, "/_dev/") {
				t.Errorf("the page: %d\n%s", code, page)
			}
			if tmpl.Name != "hello" {
				return
			}
			resp, err := http.PostForm(p.HTTP, url.Values{"name": {"anna"}})
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if out := s.run("./my-hello call visit anna --url " + p.Admin); out != `{"text":"hello, anna","times":2}`+"\n" {
				t.Errorf("the procedure behind the page: %s", out)
			}
		})
	}
}

// TestReadmeInit: the README's first commands of a web application make one, where
// they say, and what init then says to do can be done there.
func TestReadmeInit(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a program")
	}
	need(t, "go")
	text := section(t, "A web application")
	_, block, _ := strings.Cut(text, "```sh\n")
	block, _, _ = strings.Cut(block, "```")
	lines := strings.Split(strings.TrimSpace(block), "\n")
	if len(lines) != 3 || !strings.HasPrefix(lines[0], "bin/skerry init ../diary ") || lines[1] != "cd ../diary" || !strings.HasPrefix(lines[2], "../skerry/bin/skerry dev ") {
		t.Fatalf("README.md has other commands:\n%s", block)
	}
	s := newShell(t)
	s.offline()
	s.env = append(s.env, "GOFLAGS=-mod=mod", "CGO_ENABLED=0", "PATH="+os.Getenv("PATH"))
	up := s.dir
	s.dir = filepath.Join(up, "skerry") // the README's commands are given in there
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(s.bin, filepath.Join(s.dir, "bin")); err != nil {
		t.Fatal(err)
	}
	out := s.run(strings.Replace(lines[0], "init ", "init"+sourceFlag(t)+" ", 1))
	want := "\n\tcd ../diary\n\tgo run . dev\n"
	if !strings.Contains(out, want) || strings.Contains(out, "! ") {
		t.Fatalf("init says\n%s", out)
	}
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	module, err := os.ReadFile(filepath.Join(up, "diary", "go.mod"))
	if err != nil || !strings.HasPrefix(string(module), "module diary\n") || !strings.Contains(string(module), "replace github.com/skerrydb/skerry => "+root+"\n") {
		t.Errorf("go.mod: %v\n%s", err, module)
	}
	if out := s.run(lines[1] + " && go run . version && ../skerry/bin/skerry version"); !strings.HasPrefix(out, "diary ") || !strings.Contains(out, "\nskerry ") {
		t.Errorf("there: %s", out)
	}
}

// TestInitRefuses: nothing is made, or overwritten, where something is wrong.
func TestInitRefuses(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	if err := os.Mkdir(filepath.Join(s.dir, "there"), 0o700); err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]string{
		"":                      "needs the folder of the new program; its name is also the program's name\n! Run `skerry help init` for its usage.\n[2]",
		"a b":                   `unexpected argument "b"`,
		"there":                 "skerry init: there already exists\n[1]",
		"./there/":              "skerry init: there already exists\n[1]",
		"..":                    `".." cannot be the name of a program`,
		".":                     `"." cannot be the name of a program`,
		"/":                     `"/" cannot be the name of a program`,
		"../Up":                 `"Up" cannot be the name of a program`,
		"none/x":                "skerry init: mkdir none/x: no such file or directory\n[1]",
		"Upper":                 "cannot be the name of a program",
		"1st":                   "cannot be the name of a program",
		"end-":                  "cannot be the name of a program",
		"main":                  "the Go command reserves it",
		strings.Repeat("x", 64): "has 64 bytes, at most 63",
		"''":                    "the name of the program is empty",
		"x --template frob":     `"frob" is not one of hello, todo, bank`,
		"x --skerry .":          "--skerry: . is not Skerry's source",
		"x --skerry " + s.bin:   "is not Skerry's source",
	} {
		if !strings.Contains(args, "--skerry") {
			args += sourceFlag(t)
		}
		if out := s.run("skerry init " + args); !strings.Contains(out, want) {
			t.Errorf("init %s: want %q, got\n%s", args, want, out)
		}
	}
	entries, err := os.ReadDir(s.dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("something was made: %v, %v", entries, err)
	}
	if entries, err = os.ReadDir(filepath.Join(s.dir, "there")); err != nil || len(entries) != 0 {
		t.Errorf("something was put there: %v, %v", entries, err)
	}
}

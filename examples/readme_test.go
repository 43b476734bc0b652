package examples_test

import (
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

var consoleBlock = regexp.MustCompile("(?s)```console\n(.*?)```")

// step is a command of a README and its expected output, in which … matches anything.
type step struct{ command, want string }

func steps(t *testing.T, readme string) (list []step) {
	t.Helper()
	text, err := os.ReadFile(readme)
	if err != nil {
		t.Fatal(err)
	}
	for _, block := range consoleBlock.FindAllStringSubmatch(string(text), -1) {
		for line := range strings.Lines(block[1]) {
			if command, ok := strings.CutPrefix(line, "$ "); ok {
				list = append(list, step{command: strings.TrimSpace(command)})
			} else {
				list[len(list)-1].want += line
			}
		}
	}
	return list
}

// matches compares output with the README's.
func matches(t *testing.T, got, want string) bool {
	t.Helper()
	pattern := strings.ReplaceAll(regexp.QuoteMeta(strings.TrimRight(want, "\n")), "…", ".*")
	return regexp.MustCompile("(?s)^" + pattern + "$").MatchString(strings.TrimRight(got, "\n"))
}

// TestReadmes runs the commands of each README, with other ports: the first command starts
// the server on free ones.
func TestReadmes(t *testing.T) {
	t.Parallel()
	need(t, "bash", "curl", "redis-cli")
	for _, example := range []string{"voter", "bank", "todo", "blog", "fraud"} {
		t.Run(example, func(t *testing.T) {
			t.Parallel()
			list := steps(t, example+"/README.md")
			if len(list) < 5 || list[0].command != "go run ./examples/"+example+"/server serve" {
				t.Fatalf("the README does not start with the server: %+v", list)
			}
			var at struct{ HTTP, RESP, Admin string }
			dir := t.TempDir()
			server := program(t, example+"/server")
			launch(t, &at, server, "serve", "--json", "--data", dir+"/data",
				"--http", "127.0.0.1:0", "--resp", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--log-level", "warn")
			http, err1 := url.Parse(at.HTTP)
			redis, err2 := url.Parse(at.RESP)
			if err1 != nil || err2 != nil {
				t.Fatal(err1, err2)
			}
			load := "" // web applications have none
			if _, err := os.Stat(example + "/load"); err == nil {
				load = program(t, example+"/load")
			}
			for _, s := range list[1:] {
				line := strings.NewReplacer(
					"localhost:7001", http.Host,
					"cookies.txt", dir+"/cookies.txt", "token.txt", dir+"/token.txt",
					"go run ./examples/"+example+"/server users create", server+" users create --url "+at.Admin,
					"redis-cli -p 6380", "redis-cli -p "+redis.Port(),
					"go run ./examples/"+example+"/load", load+" -addr "+redis.Host,
				).Replace(s.command)
				cmd := exec.CommandContext(t.Context(), "bash", "-c", line)
				cmd.Env = append(os.Environ(), "FAKETTY=1") // redis-cli prints as on a terminal
				got, err := cmd.CombinedOutput()
				if err != nil || !matches(t, string(got), s.want) {
					t.Fatalf("$ %s\nthe README says:\n%sit printed (%v):\n%s", s.command, s.want, err, got)
				}
			}
		})
	}
}

// TestVet checks the examples' procedures with skerry vet.
func TestVet(t *testing.T) {
	t.Parallel()
	if out, err := exec.Command("go", "run", "../cmd/skerry", "vet", "./...").CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("%v\n%s", err, out)
	}
}

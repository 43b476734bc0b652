package examples_test

import (
	"net/url"
	"os/exec"
	"strings"
	"testing"
)

// TestReadmeOfGotro runs the commands of its README, with another port.
func TestReadmeOfGotro(t *testing.T) {
	t.Parallel()
	need(t, "bash", "curl")
	list := steps(t, "gotro/README.md")
	if len(list) < 5 || list[0].command != "go run ./examples/gotro/server serve --debug --source examples/gotro" {
		t.Fatalf("the README does not start with the server: %+v", list)
	}
	var at struct{ HTTP string }
	launch(t, &at, program(t, "gotro/server"), "serve", "--json", "--debug", "--source", "gotro", "--data", t.TempDir()+"/data",
		"--http", "127.0.0.1:0", "--resp", "off", "--admin", "127.0.0.1:0", "--log-level", "warn")
	here, err := url.Parse(at.HTTP)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range list[1:] {
		cmd := exec.CommandContext(t.Context(), "bash", "-c", strings.ReplaceAll(s.command, "localhost:7001", here.Host))
		if got, err := cmd.CombinedOutput(); err != nil || !matches(t, string(got), s.want) {
			t.Fatalf("$ %s\nthe README says:\n%sit printed (%v):\n%s", s.command, s.want, err, got)
		}
	}
}

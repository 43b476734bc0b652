package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var shBlock = regexp.MustCompile("(?s)```sh\n(.*?)```")

// TestRecordsDocs makes the program of docs/records.md as that says, adds the collection that the README shows, and
// sends the requests of both.
func TestRecordsDocs(t *testing.T) { // not beside tests of time: it builds
	if testing.Short() {
		t.Skip("builds a program")
	}
	need(t, "go", "curl")
	text, err := os.ReadFile("../docs/records.md")
	if err != nil {
		t.Fatal(err)
	}
	_, guide, _ := strings.Cut(string(text), "\n## In five minutes\n")
	guide, _, _ = strings.Cut(guide, "\n## ")
	readme := section(t, "Records")
	program, requests := goBlock.FindStringSubmatch(guide), shBlock.FindStringSubmatch(guide)
	orders, listing := goBlock.FindStringSubmatch(readme), shBlock.FindStringSubmatch(readme)
	if program == nil || requests == nil || orders == nil || listing == nil {
		t.Fatal("docs/records.md and README.md show no program, no collection or no requests")
	}
	s := newShell(t)
	newProgram(t, s, "notes", "hello")
	if out := s.run("rm *.go"); out != "" {
		t.Fatal(out)
	}
	s.env = append(s.env, "GOFLAGS=-mod=mod -trimpath")
	main := strings.Replace(program[1], "Use(Notes)", "Use(Notes, Orders)", 1)
	for name, code := range map[string]string{
		"main.go":   main,
		"orders.go": "package main\n\nimport (\n\"github.com/skerrydb/skerry/record\"\n\"github.com/skerrydb/skerry/record/schema\"\n)\n\n" + orders[1],
	} {
		if err := os.WriteFile(filepath.Join(s.dir, name), []byte(code), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if out := s.run("go build -o notes . 2>&1"); out != "" {
		t.Fatalf("go build: %s", out)
	}
	s.program = filepath.Join(s.dir, "notes")
	p := s.serve("--admin", "127.0.0.1:0")
	p.waitReady()
	expect := func(block, addr string, want ...string) {
		t.Helper()
		lines := strings.Split(strings.TrimSpace(block), "\n")
		if len(lines) != len(want) {
			t.Fatalf("%d requests, want %d: %q", len(lines), len(want), lines)
		}
		for i, line := range lines {
			line = strings.Replace(line, "localhost:7001", strings.TrimPrefix(addr, "http://"), 1)
			if got := s.run(line + " -sw '%{http_code}'"); !regexp.MustCompile("(?s)" + want[i] + "$").MatchString(got) {
				t.Errorf("%s: %s, want %s", line, got, want[i])
			}
		}
	}
	expect(requests[1], p.HTTP, `"id":"milk".*201`, `"Call Bo".*201`, `^{"items":\[{[^{]*{"title":"Call Bo".*200`, `"done":true.*200`, `record_refused.*403`)
	expect(listing[1], p.HTTP, `record_refused.*403|"items":\[\].*200`)
	expect(listing[1], p.Admin, `"items":\[\].*200`)
}

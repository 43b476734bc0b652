package cli

import (
	"debug/elf"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
)

var (
	buildLine  = regexp.MustCompile(`(?m)^RUN (CGO_ENABLED=0) go (build .*) -o (\S+) (\./\S+) &&`)
	copyLine   = regexp.MustCompile(`(?m)^COPY (?:--\S+ )*(\S+) (\S+)$`)
	entryPoint = regexp.MustCompile(`(?m)^(ENTRYPOINT|CMD) (\[.*\])$`)
)

// TestImage: the Dockerfile cannot be run here, but what it runs can: the program is
// built as it says, needs no library, knows its version and takes the arguments.
func TestImage(t *testing.T) { // not beside tests of time: it builds
	if testing.Short() {
		t.Skip("builds a program")
	}
	need(t, "go")
	text, err := os.ReadFile("../Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	s := newShell(t)
	file := filepath.Join(t.TempDir(), "skerry")
	line := buildLine.FindStringSubmatch(string(text))
	if line == nil {
		t.Fatal("the Dockerfile builds nothing")
	}
	version := "v1.2.3-test"
	// Without -trimpath most is there already, from other builds.
	build := exec.Command("bash", "-c", "go "+strings.Replace(line[2], " -trimpath", "", 1)+" -buildvcs=false -o "+file+" "+line[4])
	build.Dir, build.Env = "..", append(os.Environ(), line[1], "VERSION="+version)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", build, err, out)
	}
	var command []string
	for _, m := range entryPoint.FindAllStringSubmatch(string(text), -1) {
		var words []string
		if err := json.Unmarshal([]byte(m[2]), &words); err != nil {
			t.Fatalf("%s: %v", m[0], err)
		}
		command = append(command, words...)
	}
	inImage := map[string]bool{}
	for _, m := range copyLine.FindAllStringSubmatch(string(text), -1) {
		inImage[m[2]] = true
		if m[1] != "." && !strings.HasPrefix(m[1], "/") { // of this folder
			if _, err := os.Stat(filepath.Join("..", m[1])); err != nil {
				t.Errorf("%s: %v", m[0], err)
			}
		}
		if strings.HasPrefix(m[1], "/out/") && m[1] != line[3] && !strings.Contains(string(text), "mkdir "+m[1]) {
			t.Errorf("%s: nothing makes that", m[0])
		}
	}
	if len(command) < 2 || !inImage[command[0]] || !inImage["/data"] {
		t.Fatalf("the image runs %q and has %v", command, inImage)
	}
	if !strings.Contains(string(text), "\nUSER 65532:65532\n") {
		t.Error("it runs as root")
	}
	if out := s.run(file + " version"); !strings.HasPrefix(out, "skerry "+version+" (") {
		t.Errorf("version: %s", out)
	}
	// In the image's place: its folder and its password are others here.
	password := filepath.Join(s.dir, "password")
	if err := os.WriteFile(password, []byte("x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	args := strings.NewReplacer("/data", s.dir+"/data", "/run/secrets/password", password, ":7001", ":0", ":6380", ":0").Replace(strings.Join(command[1:], " "))
	if out := s.run(file + " " + args + " --while-stdin < /dev/null"); !strings.HasPrefix(out, "skerry "+version+"\n  HTTP ") || strings.Contains(out, "[") && strings.HasSuffix(out, "]\n") {
		t.Errorf("%s: %s", args, out)
	}
	if runtime.GOOS == "linux" {
		expectStatic(t, file)
	}
}

// expectStatic looks for what a program needs besides itself.
func expectStatic(t *testing.T, file string) {
	t.Helper()
	f, err := elf.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	libs, err := f.ImportedLibraries()
	if err != nil || len(libs) > 0 {
		t.Errorf("the program needs %q: %v", libs, err)
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			t.Error("the program needs a loader")
		}
	}
}

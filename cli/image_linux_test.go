package cli

import (
	"debug/elf"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// image is what a Dockerfile makes, but in a folder. What its steps fetch from the
// network is this machine's instead.
type image struct {
	t       *testing.T
	context string
	stages  map[string]string // name → the folder with what its steps made
	root    string            // the file system of the last stage
	final   bool              // it is from scratch
	uid     int
	argv    []string // ENTRYPOINT and CMD
	version string
}

// newImage carries out the steps of a Dockerfile in the folder context.
func newImage(t *testing.T, context string) *image {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(context, "Dockerfile"))
	if err != nil {
		t.Fatal(err)
	}
	m := &image{t: t, context: context, stages: map[string]string{}, version: "v1.2.3-test"}
	if built := regexp.MustCompile(`(?m)^#\s+(CGO_ENABLED=0 go build .*)$`).FindStringSubmatch(string(text)); built != nil {
		m.build(built[1]) // before docker build, as its comment says
	}
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		m.step(line)
	}
	if len(m.argv) < 2 || m.uid == 0 || !m.final {
		t.Fatalf("the image runs %q as user %d", m.argv, m.uid)
	}
	return m
}

func (m *image) step(line string) {
	m.t.Helper()
	what, rest, _ := strings.Cut(line, " ")
	f := strings.Fields(rest)
	switch what {
	case "FROM":
		m.root, m.final = m.t.TempDir(), rest == "scratch"
		if !m.final {
			m.stages[f[len(f)-1]] = m.root
		}
	case "RUN":
		for part := range strings.SplitSeq(rest, " && ") {
			m.run(part)
		}
	case "COPY":
		m.copy(f)
	case "USER":
		uid, err := strconv.Atoi(strings.Split(rest, ":")[0])
		if err != nil {
			m.t.Fatalf("%s: %v", line, err)
		}
		m.uid = uid
	case "ENTRYPOINT", "CMD":
		var words []string
		if err := json.Unmarshal([]byte(rest), &words); err != nil {
			m.t.Fatalf("%s: %v", line, err)
		}
		m.argv = append(m.argv, words...)
	case "WORKDIR", "ARG", "VOLUME", "EXPOSE":
	default:
		m.t.Fatalf("%s: what is that?", line)
	}
}

// run carries out one command of a RUN step.
func (m *image) run(command string) {
	m.t.Helper()
	dirs, mkdir := strings.CutPrefix(command, "mkdir -p ")
	switch {
	case strings.HasPrefix(command, "apt-get "), command == "go mod download":
	case mkdir:
		for _, dir := range strings.Fields(dirs) {
			if err := os.MkdirAll(m.root+dir, 0o755); err != nil { //nolint:gosec // as in an image
				m.t.Fatal(err)
			}
		}
	case strings.HasPrefix(command, "CGO_ENABLED=0 go build "):
		m.build(strings.ReplaceAll(command, " -o /", " -o "+m.root+"/"))
	default:
		m.t.Fatalf("RUN %s: what is that?", command)
	}
}

// build builds the program. Without -trimpath most is there already, from other builds.
func (m *image) build(command string) {
	m.t.Helper()
	cmd := exec.Command("bash", "-c", strings.Replace(command, " -trimpath", " -buildvcs=false", 1))
	cmd.Dir, cmd.Env = m.context, append(os.Environ(), "VERSION="+m.version, "GOPROXY=off", "GOSUMDB=off", "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		m.t.Fatalf("%s: %v\n%s", command, err, out)
	}
}

// copy executes a COPY step. Files that no other stage has made come from this machine.
func (m *image) copy(words []string) {
	m.t.Helper()
	from, owner := m.context, 0
	for strings.HasPrefix(words[0], "--") {
		if stage, ok := strings.CutPrefix(words[0], "--from="); ok {
			from = m.stages[stage]
		} else if _, err := fmt.Sscanf(words[0], "--chown=%d:", &owner); err != nil {
			m.t.Fatalf("COPY %q: %v", words, err)
		}
		words = words[1:]
	}
	to := words[len(words)-1]
	for _, src := range words[:len(words)-1] {
		path := filepath.Join(from, src)
		if _, err := os.Stat(path); err != nil && from != m.context {
			path = src
		}
		if !m.final { // it builds in the context itself
			if _, err := os.Stat(path); err != nil {
				m.t.Error(err)
			}
			continue
		}
		dst := filepath.Join(m.root, to)
		if strings.HasSuffix(to, "/") {
			dst = filepath.Join(dst, filepath.Base(src))
		}
		m.put(path, dst, owner)
	}
}

// put copies one file, or makes a folder: those that are copied are empty.
func (m *image) put(src, dst string, owner int) {
	m.t.Helper()
	err := os.MkdirAll(filepath.Dir(dst), 0o755) //nolint:gosec // as in an image
	info, statErr := os.Stat(src)
	switch {
	case err != nil || statErr != nil:
		m.t.Fatal(err, statErr)
	case info.IsDir():
		err = os.Mkdir(dst, 0o755) //nolint:gosec // as in an image
	default:
		var data []byte
		if data, err = os.ReadFile(src); err == nil {
			err = os.WriteFile(dst, data, info.Mode().Perm())
		}
	}
	if err == nil {
		err = m.give(dst, owner)
	}
	if err != nil {
		m.t.Fatal(err)
	}
}

// give makes a file one of the image's user, or of root. Where the test is not root
// it is the image's user itself: see enter.
func (m *image) give(path string, owner int) error {
	if os.Getuid() == 0 {
		return os.Chown(path, owner, owner)
	}
	if info, err := os.Stat(path); owner == 0 && err == nil {
		return os.Chmod(path, info.Mode().Perm()&^0o222)
	}
	return nil
}

// enter has cmd run in the image, as its user.
func (m *image) enter(cmd *exec.Cmd) {
	if os.Getuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: m.root, Credential: &syscall.Credential{Uid: uint32(m.uid), Gid: uint32(m.uid)}}
		return
	}
	user := []syscall.SysProcIDMap{{ContainerID: m.uid, HostID: os.Getuid(), Size: 1}}
	group := []syscall.SysProcIDMap{{ContainerID: m.uid, HostID: os.Getgid(), Size: 1}}
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: m.root, Cloneflags: syscall.CLONE_NEWUSER, UidMappings: user, GidMappings: group}
}

// owned reports an error unless the image's user may write to a folder of it.
func (m *image) owned(dir string) {
	m.t.Helper()
	info, err := os.Stat(filepath.Join(m.root, dir))
	if err != nil {
		m.t.Error(err)
		return
	}
	if uid := int(info.Sys().(*syscall.Stat_t).Uid); uid != m.uid && uid != os.Getuid() || uid == 0 || info.Mode()&0o200 == 0 {
		m.t.Errorf("%s belongs to user %d and has mode %v", dir, uid, info.Mode())
	}
}

// TestImage: the images of Skerry and of a program that init makes, by the steps of
// their own Dockerfiles, in a folder. As the user of the image the program writes to
// /data, and trusts the authorities that the image has.
func TestImage(t *testing.T) { // not beside tests of time: it builds
	if testing.Short() {
		t.Skip("builds programs")
	}
	need(t, "go")
	t.Run("skerry", func(t *testing.T) {
		m := newImage(t, "..")
		if out := m.try("version"); !strings.HasPrefix(out, "skerry "+m.version+" (") {
			t.Errorf("version: %s", out)
		}
		m.check()
	})
	t.Run("init", func(t *testing.T) {
		s := newShell(t)
		newProgram(t, s, "shop", "hello")
		newImage(t, s.dir).check()
	})
}

// check runs the image: nothing but the ports are others.
func (m *image) check() {
	m.t.Helper()
	expectStatic(m.t, filepath.Join(m.root, m.argv[0]))
	srv := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `"hello"`) }))
	defer srv.Close()
	authorities := filepath.Join(m.root, "/etc/ssl/certs/ca-certificates.crt")
	known, err := os.ReadFile(authorities)
	if err != nil || !strings.Contains(string(known), "BEGIN CERTIFICATE") {
		m.t.Errorf("the authorities: %v\n%.100s", err, known)
	}
	if out := m.try("call", "x", "--url", srv.URL); !strings.Contains(out, "certificate signed by unknown authority") {
		m.t.Errorf("a call to a server whose authority is unknown: %s", out)
	}
	own := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw})
	if err := os.WriteFile(authorities, append(known, own...), 0o644); err != nil { //nolint:gosec // as in an image
		m.t.Fatal(err)
	}
	if out := m.try("call", "x", "--url", srv.URL); out != `"hello"` {
		m.t.Errorf("a call to a server whose authority the image has: %s", out)
	}
	m.mount("/run/secrets/password", "x\n")
	args := strings.NewReplacer("0.0.0.0:7001", "127.0.0.1:0", "0.0.0.0:6380", "127.0.0.1:0").Replace(strings.Join(m.argv[1:], " "))
	args += " --while-stdin --admin off"
	if out := m.try(strings.Fields(args)...); !strings.Contains(out, "\n  HTTP ") || strings.Contains(out, "exit status") {
		m.t.Errorf("%s: %s", args, out)
	}
	if made, err := os.ReadDir(filepath.Join(m.root, "data")); err != nil || len(made) == 0 {
		m.t.Errorf("nothing is in /data: %v", err)
	}
	m.owned("/tmp")
}

// mount puts a file into the image.
func (m *image) mount(path, text string) {
	m.t.Helper()
	path = filepath.Join(m.root, path)
	err := os.MkdirAll(filepath.Dir(path), 0o755) //nolint:gosec // as in an image
	if err == nil {
		err = os.WriteFile(path, []byte(text), 0o444) //nolint:gosec // the image's user reads it
	}
	if err != nil {
		m.t.Fatal(err)
	}
}

// try runs the image's program with these arguments and returns what it prints.
func (m *image) try(args ...string) string {
	m.t.Helper()
	cmd := exec.Command(m.argv[0], args...)
	cmd.Dir, cmd.Env = "/", []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/", "SKERRY_TEST_RUN=" + os.Getenv("SKERRY_TEST_RUN")}
	m.enter(cmd)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Sprintf("%s%v\n", out, err)
	}
	return string(out)
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

package cli

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

// startLoop starts `skerry dev` in a shell's folder, with n nodes.
func startLoop(t *testing.T, s *shell, data, mark string, n int) *devRun {
	t.Helper()
	giveAddresses(t, filepath.Join(s.dir, data), n)
	return runDev(t, s, mark, n, "--data", data)
}

// page asks the first node as a browser does.
func (d *devRun) page(accept string) (int, string) {
	req, err := http.NewRequest("GET", "http://"+d.Nodes[0].HTTP, nil)
	if err != nil {
		d.t.Fatal(err)
	}
	req.Header.Set("Accept", accept)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		d.t.Fatalf("the address does not stay: %v\n%s", err, d.log())
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		d.t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

// shows waits until the page has a text.
func (d *devRun) shows(status int, text string) {
	d.t.Helper()
	d.await(fmt.Sprintf("a page %d with %q", status, text), func() bool {
		code, body := d.page("text/html")
		return code == status && strings.Contains(body, text)
	})
}

// visit sends the page's form, and returns the response: there must always be one, whatever is being
// restarted.
func (d *devRun) visit() string {
	d.t.Helper()
	status, body := d.tryVisit()
	if status != http.StatusOK {
		d.t.Fatalf("%d %s\n%s", status, body, d.log())
	}
	return body
}

// tryVisit is visit where a node may have to do without a leader for a moment.
func (d *devRun) tryVisit() (status int, body string) {
	d.t.Helper()
	resp, err := http.PostForm("http://"+d.Nodes[0].HTTP, url.Values{"name": {"anna"}})
	if err != nil {
		d.t.Fatalf("%v\n%s", err, d.log())
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		d.t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// edit replaces text in a file of the program.
func edit(t *testing.T, s *shell, name, from, to string) {
	t.Helper()
	name = filepath.Join(s.dir, name)
	text, err := os.ReadFile(name)
	if err != nil || !strings.Contains(string(text), from) {
		t.Fatalf("%s does not have %q: %v", name, from, err)
	}
	if err := os.WriteFile(name, []byte(strings.ReplaceAll(string(text), from, to)), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestDevelop is a developer's hour: a program is made, changed, broken, mended and
// killed, while its address stays and its data too; then it runs on three nodes.
func TestDevelop(t *testing.T) { // not beside tests of time: it builds
	if testing.Short() {
		t.Skip("builds a program")
	}
	if runtime.GOOS != "linux" {
		t.Skip("it finds processes in /proc")
	}
	need(t, "go")
	s := newShell(t)
	newProgram(t, s, "diary", "hello")
	mark := devMark()
	d := startLoop(t, s, "d", mark, 1)
	d.shows(http.StatusOK, "Your name")
	if want := "mail: http://" + d.Nodes[0].HTTP + "/_dev/outbox (not sent)\n"; !strings.Contains(d.log(), want) {
		t.Errorf("dev does not say %q:\n%s", want, d.log())
	}
	if out := d.visit(); !strings.Contains(out, "1 time.") {
		t.Errorf("a visit: %s", out)
	}
	first := marked(t, mark)["d/n1"]

	edit(t, s, "views/home.html", "Your name", "Who are you")
	d.shows(http.StatusOK, "Who are you")
	if now := marked(t, mark)["d/n1"]; now != first {
		t.Errorf("a view was changed, and process %d became %d", first, now)
	}

	edit(t, s, "procedures.go", `"hello, "`, `"welcome, `)
	d.shows(http.StatusServiceUnavailable, "procedures.go:")
	if code, body := d.page("text/html"); !strings.Contains(body, "The last successful build is still running") || code != http.StatusServiceUnavailable {
		t.Errorf("what is broken: %d %s", code, body)
	}
	if code, body := d.page("*/*"); code != http.StatusOK || marked(t, mark)["d/n1"] != first {
		t.Errorf("the old one is gone: %d %s", code, body)
	}
	if log := d.log(); !strings.Contains(log, "does not build") || !strings.Contains(log, "procedures.go:22:") {
		t.Errorf("the terminal shows\n%s", log)
	}
	edit(t, s, "procedures.go", `"welcome, `, `"welcome, "`)
	d.shows(http.StatusOK, "Who are you")
	d.await("the mended program", func() bool { return strings.Contains(d.visit(), "welcome, anna! You were here") })
	second := marked(t, mark)["d/n1"]
	if second == first || second == 0 {
		t.Errorf("process %d was not replaced: %d", first, second)
	}

	if err := syscall.Kill(second, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	d.await("another process", func() bool { now := marked(t, mark)["d/n1"]; return now != 0 && now != second })
	if out := d.visit(); !strings.Contains(out, "welcome, anna") {
		t.Errorf("after a kill: %s", out)
	}

	neverServes(t, s, d)
	third := marked(t, mark)["d/n1"]
	edit(t, s, "routes.go", "// routes registers", "// the function routes registers")
	d.await("a build without a difference", func() bool { return strings.Contains(d.log(), "the program is unchanged, nothing to restart") })
	if now := marked(t, mark)["d/n1"]; now != third {
		t.Errorf("a comment was changed, and process %d became %d", third, now)
	}
	d.end(mark)
	if strings.Contains(d.log(), "views/home.html changed: building") {
		t.Errorf("a view was built:\n%s", d.log())
	}
	developCluster(t, s)
}

// neverServes has the program end before it serves: twice, after which it waits for a
// change, be that one of what it reads as it is.
func neverServes(t *testing.T, s *shell, d *devRun) {
	edit(t, s, "routes.go", "	app.Get(", "	panic(\"not today\")\n	app.Get(")
	d.shows(http.StatusServiceUnavailable, "panic: not today")
	edit(t, s, "routes.go", "	panic(\"not today\")\n", "")
	d.shows(http.StatusOK, "Who are you")
	edit(t, s, "routes.go", "	app.Get(", "	if _, err := os.Stat(\".never\"); err != nil {\n		panic(\"never\")\n	}\n	app.Get(")
	edit(t, s, "routes.go", "import (", "import (\n	\"os\"\n")
	d.await("the second end", func() bool { return strings.Contains(d.log(), "; waiting for a change\n") })
	d.shows(http.StatusServiceUnavailable, "It starts again when a file changes.")
	if n := strings.Count(d.log(), "panic: never\n"); n != 2 {
		t.Errorf("it has ended %d times:\n%s", n, d.log())
	}
	edit(t, s, "README.md", "A program", "The program")
	d.await("another start", func() bool { return strings.Contains(d.log(), "the program is unchanged, starting again\n") })
	if err := os.WriteFile(filepath.Join(s.dir, ".never"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	edit(t, s, "views/home.html", "Who are you", "Who is it")
	d.shows(http.StatusOK, "Who is it")
	edit(t, s, "views/home.html", "Who is it", "Who are you")
}

// developCluster changes the program while three nodes run it.
func developCluster(t *testing.T, s *shell) {
	mark := devMark()
	d := startLoop(t, s, "d3", mark, 3)
	d.await("all three", func() bool {
		for _, n := range d.Nodes {
			if code, err := statusOf("http://" + n.HTTP + "/readyz"); err != nil || code != http.StatusOK {
				return false
			}
		}
		return true
	})
	d.await("a visit", func() bool {
		_, body := d.tryVisit()
		return strings.Contains(body, "welcome, anna! You were here")
	})
	edit(t, s, "procedures.go", `"welcome, "`, `"good day, "`)
	d.await("the changed program", func() bool {
		_, body := d.tryVisit()
		return strings.Contains(body, "good day, anna! You were here")
	})
	d.end(mark)
}

func statusOf(at string) (int, error) {
	resp, err := http.Get(at)
	if err != nil {
		return 0, err
	}
	resp.Body.Close()
	return resp.StatusCode, nil
}

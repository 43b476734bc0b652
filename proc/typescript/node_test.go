package typescript_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/skerrydb/skerry/ci/npm"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/embedded"
	"github.com/skerrydb/skerry/kv"
	"github.com/skerrydb/skerry/proc"
	"github.com/skerrydb/skerry/proc/typescript"
	"github.com/skerrydb/skerry/web"
	"github.com/skerrydb/skerry/web/api"
)

const password = "secret"

// strictest returns the options of tsc that a module must pass: --strict, and further ones
// that projects apply to their imports.
func strictest() []string {
	return []string{"--strict", "--skipLibCheck", "--target", "ES2022", "--module", "nodenext", "--isolatedDeclarations", "--declaration",
		"--noUncheckedIndexedAccess", "--exactOptionalPropertyTypes", "--noImplicitOverride", "--noImplicitReturns",
		"--noPropertyAccessFromIndexSignature", "--verbatimModuleSyntax", "--erasableSyntaxOnly"}
}

// TestTypes checks that every module of testdata passes tsc.
func TestTypes(t *testing.T) {
	files, err := filepath.Glob("testdata/*.json")
	if err != nil || len(files) == 0 {
		t.Fatal(err)
	}
	dir := scratch(t)
	args := append(strictest(), "--noEmit", "--noUnusedParameters")
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".json") + ".ts"
		write(t, filepath.Join(dir, name), generate(t, schemasOf(t, file), typescript.Options{}))
		args = append(args, name)
	}
	tsc(t, dir, args...)
}

// TestNode compiles testdata/node/run.ts with the module generated from the schemas of a
// real server, and runs it against that server. run.ts describes the test.
func TestNode(t *testing.T) {
	node := need(t, "node", "nodejs")
	url := startServer(t)
	dir := scratch(t)
	write(t, filepath.Join(dir, "api.ts"), generate(t, listed(t, url), typescript.Options{Source: "a test"}))
	program, err := os.ReadFile("testdata/node/run.ts")
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "run.ts"), string(program))
	tsc(t, dir, append(strictest(), "--declaration", "false", "--isolatedDeclarations", "false", "api.ts", "run.ts")...)
	cmd := exec.CommandContext(t.Context(), node, "--trace-warnings", "run.js", url, password)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil || string(out) != "ok\n" {
		t.Errorf("%v\n%s", err, out)
	}
}

// listed asks a server for its procedures.
func listed(t *testing.T, url string) []proc.Schema {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), "GET", url+"/api/procedures", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+password)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var list struct{ Procedures []proc.Schema }
	if err := json.NewDecoder(resp.Body).Decode(&list); err != nil || len(list.Procedures) == 0 {
		t.Fatalf("status %d, %d procedures: %v", resp.StatusCode, len(list.Procedures), err)
	}
	return list.Procedures
}

type innerValue struct {
	AB   int64       `json:"a-b"`
	Deep []deepValue `json:"deep"`
}

type deepValue struct {
	ID int `json:"id"`
}

type echoValue struct {
	Bool     bool              `json:"bool"`
	Int      int8              `json:"int"`
	Large    uint64            `json:"large"`
	Float    float64           `json:"float"`
	Text     string            `json:"text"`
	Bytes    []byte            `json:"bytes"`
	Time     time.Time         `json:"time"`
	Inner    innerValue        `json:"inner"`
	List     []string          `json:"list"`
	Map      map[string][]int8 `json:"map"`
	Optional *int64            `json:"optional,omitempty"`
}

type nilsOut struct {
	List    []string       `json:"list"`
	Map     map[string]int `json:"map"`
	Bytes   []byte         `json:"bytes"`
	Pointer *deepValue     `json:"pointer"`
	Lists   [][]int        `json:"lists"`
}

type voteIn struct {
	Phone uint64 `json:"phone"`
}

type nothing struct{}

// procedures are the procedures that run.ts calls. Those named slow wait for done.
func procedures(done <-chan struct{}) []proc.Procedure {
	return []proc.Procedure{
		proc.DefineRead("echo", func(_ *proc.Tx, in echoValue) (echoValue, error) { return in, nil }).
			Describe("gives back */ its arguments"),
		proc.DefineRead("nils", func(*proc.Tx, nothing) (nilsOut, error) { return nilsOut{Lists: [][]int{nil}}, nil }),
		proc.Define("nothing", func(*proc.Tx, nothing) (nothing, error) { return nothing{}, nil }),
		proc.DefineRead("large.integer", func(*proc.Tx, nothing) (map[string][]uint64, error) {
			return map[string][]uint64{"a": {1, 1<<53 + 1}}, nil
		}),
		proc.Define("delete", func(*proc.Tx, struct {
			Key string `json:"key,omitempty"`
		}) (string, error) {
			return "deleted", nil
		}),
		proc.Define("vote", func(tx *proc.Tx, in voteIn) (int64, error) {
			n, err := tx.KV(0).Add(fmt.Appendf(nil, "phone:%d", in.Phone), 1)
			if n > 2 {
				return 0, engine.Errorf("too_many_votes", "%d has voted twice", in.Phone)
			}
			return n, err
		}),
		proc.Define("broken", func(*proc.Tx, nothing) (int, error) { panic("secret") }),
		proc.DefineRead("slow", func(*proc.Tx, nothing) (int, error) {
			<-done
			return 0, nil
		}),
	}
}

// startServer serves procedures over HTTP until the test ends.
func startServer(t *testing.T) (url string) {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	db, err := embedded.Open(t.TempDir(), embedded.Options{Logger: log})
	if err != nil {
		t.Fatal(err)
	}
	store, err := kv.New(db, kv.Options{})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	set, err := proc.New(db, proc.Options{}, procedures(done)...)
	if err != nil {
		t.Fatal(err)
	}
	face := api.New(store, api.Options{Procedures: set, Password: password})
	srv := web.NewServer(face, log)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var served sync.WaitGroup
	served.Go(func() { srv.Serve(l) })
	t.Cleanup(func() {
		close(done)
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := srv.Shutdown(ctx); err != nil {
			t.Errorf("shut down: %v", err)
		}
		served.Wait()
		face.Close()
		if err := db.Close(); err != nil {
			t.Errorf("close engine: %v", err)
		}
	})
	return "http://" + l.Addr().String()
}

// scratch returns a directory for modules of this test.
func scratch(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "package.json"), `{"type": "module"}`)
	return dir
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// tsc runs the compiler in dir and fails the test if it prints anything.
func tsc(t *testing.T, dir string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), need(t, "node", "nodejs"), append([]string{install(t)}, args...)...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		t.Fatalf("tsc: %v\n%s", err, out)
	}
}

// install installs the compiler, and returns it.
func install(t *testing.T) string {
	t.Helper()
	dir, err := npm.Install("typescript", "testdata/node")
	if err != nil {
		missing(t, err.Error())
	}
	return filepath.Join(dir, "node_modules", "typescript", "bin", "tsc")
}

// need returns the path of a program, or skips the test.
func need(t *testing.T, program, debianPackage string) string {
	t.Helper()
	path, err := exec.LookPath(program)
	if err != nil {
		missing(t, fmt.Sprintf("%s is not installed (Debian package %s)", program, debianPackage))
	}
	return path
}

func missing(t *testing.T, what string) {
	t.Helper()
	if os.Getenv("SKERRY_REQUIRE_SERVERS") == "1" {
		t.Fatal(what + ", and SKERRY_REQUIRE_SERVERS=1")
	}
	t.Skip(what)
}

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestCounts(t *testing.T) {
	const stream = `{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"run","Package":"p","Test":"TestA/x"}
{"Action":"run","Package":"p","Test":"TestA/y"}
{"Action":"pass","Package":"p","Test":"TestA/x"}
{"Action":"output","Package":"p","Test":"TestA/y","Output":"    a_test.go:3: no redis-server\n"}
{"Action":"skip","Package":"p","Test":"TestA/y"}
{"Action":"pass","Package":"p","Test":"TestA"}
{"Action":"pass","Package":"p","Elapsed":1}
{"Action":"run","Package":"q","Test":"TestB"}
{"Action":"output","Package":"q","Test":"TestB","Output":"panic: boom\n"}
{"Action":"fail","Package":"q","Elapsed":1}
{"Action":"fail","Package":"r","Elapsed":1}
{"Action":"run","Package":"s","Test":"TestC"}
{"Action":"run","Package":"s","Test":"TestC/x"}
{"Action":"run","Package":"s","Test":"TestC/x/y"}
{"Action":"fail","Package":"s","Test":"TestC/x/y"}
{"Action":"fail","Package":"s","Test":"TestC/x"}
{"Action":"fail","Package":"s","Test":"TestC"}
{"Action":"run","Package":"s","Test":"TestD"}
{"Action":"run","Package":"s","Test":"TestD/z"}
{"Action":"pass","Package":"s","Test":"TestD/z"}
{"Action":"fail","Package":"s","Test":"TestD"}
{"Action":"fail","Package":"s","Elapsed":1}
`
	file := filepath.Join(t.TempDir(), "results")
	var out strings.Builder
	if err := follow(strings.NewReader(stream), &out, file, "tests"); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "panic: boom") {
		t.Errorf("the output of the failure is not shown:\n%s", &out)
	}
	out.Reset()
	ok, err := summarise(file, &out)
	if ok || err != nil {
		t.Errorf("ok %v, error %v", ok, err)
	}
	want := `skipped: p TestA/y a_test.go:3: no redis-server
failed:  q TestB
failed:  r (the package)
failed:  s TestC/x/y
failed:  s TestD
2 passed, 4 failed, 1 skipped
`
	if out.String() != want {
		t.Errorf("got\n%swant\n%s", &out, want)
	}
}

func TestSecondRun(t *testing.T) {
	file := filepath.Join(t.TempDir(), "results")
	text := "pass p TestA\nskip p TestA under the race detector\npass p TestA\npass check vet\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if ok, err := summarise(file, &out); !ok || err != nil || out.String() != "2 passed, 0 failed, 0 skipped\n" {
		t.Errorf("ok %v, error %v, %q", ok, err, out.String())
	}
}

func TestNothingRan(t *testing.T) {
	file := filepath.Join(t.TempDir(), "results")
	var out strings.Builder
	if err := follow(strings.NewReader("go: no packages\n"), &out, file, "tests"); err != nil {
		t.Fatal(err)
	}
	if ok, _ := summarise(file, &out); ok {
		t.Error("a run of nothing is a success")
	}
}

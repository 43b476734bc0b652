package main

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// recorded is a runner that plays these outputs of go test, one a run, and keeps
// what it was asked for.
type recorded struct {
	streams []string
	asked   []string
}

func (r *recorded) run(env string, args []string, read func(io.Reader) error) error {
	n := len(r.asked)
	r.asked = append(r.asked, strings.TrimSpace(env+" "+strings.Join(args, " ")))
	return read(strings.NewReader(r.streams[min(n, len(r.streams)-1)]))
}

// report runs test on the streams, and returns what it asked for, what it printed
// and what the summary says.
func report(t *testing.T, skips string, streams ...string) (asked []string, shown, sum string, ok bool) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "results")
	r := recorded{streams: streams}
	var out, summary strings.Builder
	if err := test(r.run, []string{"-short", "-timeout", "10m", "./a", "./..."}, &out, file, "tests"); err != nil {
		t.Fatal(err)
	}
	ok, err := summarise(file, skips, &summary)
	if err != nil {
		t.Fatal(err)
	}
	return r.asked, out.String(), summary.String(), ok
}

// failing is the output of a package whose tests failed.
func failing(pkg string, tests ...string) string {
	pkg = `"Package":"github.com/skerrydb/skerry/` + pkg + `"`
	var b strings.Builder
	for _, name := range tests {
		in := pkg + `,"Test":"` + name + `"`
		b.WriteString(`{"Action":"run",` + in + `}
{"Action":"output",` + in + `,"Output":"    a_test.go:3: SKERRY_SEED=7: lost\n"}
{"Action":"fail",` + in + `}
`)
	}
	return b.String() + `{"Action":"fail",` + pkg + `,"Elapsed":1}` + "\n"
}

func passing(pkg string, tests ...string) string {
	return strings.ReplaceAll(failing(pkg, tests...), `"fail"`, `"pass"`)
}

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
	_, shown, sum, ok := report(t, "", stream)
	if ok {
		t.Error("failures are a success")
	}
	if !strings.Contains(shown, "panic: boom") {
		t.Errorf("the output of the failure is not shown:\n%s", shown)
	}
	want := `skipped: p TestA/y a_test.go:3: no redis-server
FAILED:  q TestB printed:
      panic: boom
failed:  q TestB
failed:  r (the package)
failed:  s TestC/x/y
failed:  s TestD
2 passed, 4 failed, 1 skipped
`
	if sum != want {
		t.Errorf("got\n%swant\n%s", sum, want)
	}
}

// TestAgain: a test that fails once and then passes, alone and with its seed, is
// listed, and the run goes on.
func TestAgain(t *testing.T) {
	sub := `{"Action":"run","Package":"github.com/skerrydb/skerry/mail","Test":"TestA/x"}
{"Action":"fail","Package":"github.com/skerrydb/skerry/mail","Test":"TestA/x"}
`
	first := strings.Replace(failing("mail", "TestA"), "\n", "\n"+sub, 1)
	asked, shown, sum, ok := report(t, "", first, failing("mail", "TestA"), passing("mail", "TestA"))
	again := "SKERRY_SEED=7 -short -timeout 10m -count=1 -run ^TestA$ github.com/skerrydb/skerry/mail"
	if want := []string{"-short -timeout 10m ./a ./...", again, again}; !slices.Equal(asked, want) {
		t.Errorf("it ran %q, want %q", asked, want)
	}
	if strings.Count(shown, "SKERRY_SEED=7: lost") != 2 || !strings.Contains(shown, "FLAKY ./mail TestA ") {
		t.Errorf("it printed\n%s", shown)
	}
	want := `FLAKY:   github.com/skerrydb/skerry/mail TestA/x failed (SKERRY_SEED=7) and passed when run again. It first printed:
          a_test.go:3: SKERRY_SEED=7: lost
1 passed, 0 failed, 0 skipped
`
	if !ok || sum != want {
		t.Errorf("ok %v, got\n%swant\n%s", ok, sum, want)
	}
}

// TestNeverPasses: three failures are a failure.
func TestNeverPasses(t *testing.T) {
	for _, again := range []string{
		failing("mail", "TestA"),
		passing("mail"), // no test of that name ran
		strings.ReplaceAll(failing("mail", "TestA"), "    a_test.go:3", "WARNING: DATA RACE"),
		strings.ReplaceAll(passing("mail", "TestA"), `"pass"`, `"skip"`),
	} {
		asked, _, sum, ok := report(t, "", failing("mail", "TestA"), again)
		if want := "FAILED:  github.com/skerrydb/skerry/mail TestA printed:\n          a_test.go:3: SKERRY_SEED=7: lost\nfailed:  github.com/skerrydb/skerry/mail TestA\n0 passed, 1 failed, 0 skipped\n"; ok || sum != want || len(asked) != 3 {
			t.Errorf("ok %v after %d runs: %s", ok, len(asked), sum)
		}
	}
}

// TestNotAgain: tests whose single failure is proof are not repeated.
func TestNotAgain(t *testing.T) {
	for name, stream := range map[string]string{
		"journal":           failing("journal", "TestA"),
		"the engine":        failing("engine/embedded", "TestA"),
		"raft":              failing("raft", "TestA"),
		"the driver":        failing("client/sqldriver", "TestA"),
		"faults":            failing("cli", "TestKilledLeaders"),
		"a data race":       strings.ReplaceAll(failing("mail", "TestA"), "    a_test.go:3", "WARNING: DATA RACE"),
		"a panic":           strings.ReplaceAll(failing("mail", "TestA"), `"fail","Package":"github.com/skerrydb/skerry/mail","Test"`, `"cont","Package":"github.com/skerrydb/skerry/mail","Test"`),
		"the whole package": failing("mail"),
	} {
		if asked, _, sum, ok := report(t, "", stream); ok || len(asked) != 1 || !strings.Contains(sum, "0 passed, 1 failed,") {
			t.Errorf("%s: ok %v after %d runs: %s", name, ok, len(asked), sum)
		}
	}
	if asked, _, _, _ := report(t, "", failing("cli", "TestUnit")); len(asked) != 3 {
		t.Error("a test of the command line is not run again")
	}
}

// TestManyFlicker: three different tests that flicker fail the run; one that
// flickers in two ways does not.
func TestManyFlicker(t *testing.T) {
	file := filepath.Join(t.TempDir(), "results")
	for text, want := range map[string]string{
		"flaky p TestA/x \"\"\nflaky p TestA/y \"\"\nflaky p TestB \"\"\nflaky p TestB \"\"\n": "3 passed, 0 failed, 0 skipped\n",
		"flaky p TestA \"\"\nflaky p TestB \"\"\nflaky q TestB \"\"\npass p TestC\n":           "failed:  3 tests flickered, more than 2\n4 passed, 1 failed, 0 skipped\n",
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		ok, err := summarise(file, "", &out)
		if err != nil || ok != strings.Contains(want, " 0 failed") || !strings.HasSuffix(out.String(), want) || strings.Count(out.String(), "FLAKY") != 3 {
			t.Errorf("ok %v, error %v:\n%s", ok, err, &out)
		}
	}
}

// TestSkips: with a list, only what it names may be skipped.
func TestSkips(t *testing.T) {
	skips := filepath.Join(t.TempDir(), "skips")
	if err := os.WriteFile(skips, []byte("# a comment\n\n./mail TestA it takes hours\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	skipped := strings.ReplaceAll(passing("mail", "TestA", "TestB")+passing("kv", "TestC"), `"pass","Package":"github.com/skerrydb/skerry/mail","Test"`, `"skip","Package":"github.com/skerrydb/skerry/mail","Test"`)
	_, _, sum, ok := report(t, skips, skipped)
	want := `skipped: github.com/skerrydb/skerry/mail TestA a_test.go:3: SKERRY_SEED=7: lost
failed:  github.com/skerrydb/skerry/mail TestB was skipped, and SKIPS does not list it. a_test.go:3: SKERRY_SEED=7: lost
1 passed, 1 failed, 1 skipped
`
	if want = strings.Replace(want, "SKIPS", skips, 1); ok || sum != want {
		t.Errorf("ok %v, got\n%swant\n%s", ok, sum, want)
	}
	if err := os.WriteFile(skips, []byte("./mail TestA\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := summarise(skips, skips, io.Discard); err == nil {
		t.Error("a line without a reason is taken")
	}
}

// TestUnpromised: TEST/... allows the cases that need what an engine does not promise, and no others.
func TestUnpromised(t *testing.T) {
	skips := filepath.Join(t.TempDir(), "skips")
	if err := os.WriteFile(skips, []byte("./redis TestSlots/... one partition\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	const said = ": skipped: case a/b needs positions, which this engine does not promise [unsupported]"
	for test, fails := range map[string]bool{
		"TestSlots/a/b" + said:                 false,
		"TestSlots/a/b: skipped: no such hook": true,
		"TestOther/a/b" + said:                 true,
	} {
		test, said, _ := strings.Cut(test, ": ")
		id := "github.com/skerrydb/skerry/redis " + test
		verdicts := map[string]verdict{id: {"skip", said}}
		if err := refuseSkips(verdicts, skips); err != nil || (verdicts[id].outcome == "fail") != fails {
			t.Errorf("%s (%s): %v, %v", test, said, verdicts[id], err)
		}
	}
}

// TestSkippedByOneStep: a test that one step skips and another runs is not skipped, with or without subtests,
// which count in its place.
func TestSkippedByOneStep(t *testing.T) {
	skips := filepath.Join(t.TempDir(), "skips")
	if err := os.WriteFile(skips, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	whole := passing("mail", "TestA", "TestA/x", "TestB")
	short := strings.ReplaceAll(passing("mail", "TestA", "TestB"), `"pass","Package":"github.com/skerrydb/skerry/mail","Test"`, `"skip","Package":"github.com/skerrydb/skerry/mail","Test"`)
	_, _, sum, ok := report(t, skips, whole+short)
	if want := "2 passed, 0 failed, 0 skipped\n"; !ok || sum != want {
		t.Errorf("ok %v, got\n%swant\n%s", ok, sum, want)
	}
}

func TestSecondRun(t *testing.T) {
	file := filepath.Join(t.TempDir(), "results")
	text := "pass p TestA\nskip p TestA under the race detector\npass p TestA\npass check vet\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if ok, err := summarise(file, "", &out); !ok || err != nil || out.String() != "2 passed, 0 failed, 0 skipped\n" {
		t.Errorf("ok %v, error %v, %q", ok, err, out.String())
	}
}

func TestNothingRan(t *testing.T) {
	if _, _, _, ok := report(t, "", "go: no packages\n"); ok {
		t.Error("a run of nothing is a success")
	}
}

// TestSlowest: slow tests are named, the slowest first, without their subtests.
func TestSlowest(t *testing.T) {
	took := func(test, seconds string) string {
		return `{"Action":"pass","Package":"github.com/skerrydb/skerry/b","Test":"` + test + `","Elapsed":` + seconds + "}\n"
	}
	_, shown, _, _ := report(t, "", took("TestQuick", "19.9")+took("TestSlow", "20")+took("TestSlower/sub", "31")+took("TestSlower", "31")+passing("b", "TestB"))
	want := "slow  ./b                           31s  TestSlower\nslow  ./b                           20s  TestSlow\n"
	if !strings.HasSuffix(shown, want) {
		t.Errorf("%s, want at the end %s", shown, want)
	}
}

// TestSeedsStay: the seeds of a failure with a long output are printed, and the last one repeats it.
func TestSeedsStay(t *testing.T) {
	lines := []string{"    a_test.go:1: SKERRY_SEED=1\n", "    a_test.go:1: SKERRY_SEED=2\n", "    a_test.go:2: SKERRY_SEED=2: lost " + strings.Repeat("x", 1000) + "\n"}
	for range 500 {
		lines = append(lines, "more\n")
	}
	text := indent(lines)
	if f := (&failure{output: text}); f.seed() != "SKERRY_SEED=2" || !strings.Contains(text, "SKERRY_SEED=2: lost x") || len(text) > 5000 || strings.Count(text, "more") != 200 {
		t.Errorf("%s: %.1000s", f.seed(), text)
	}
}

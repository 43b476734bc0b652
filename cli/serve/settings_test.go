package serve

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/skerrydb/skerry/cli/verb"
)

// configured says what a server's configuration became, or all mistakes in it.
func configured(t *testing.T, args, environ string, file string) string {
	t.Helper()
	o := &Options{}
	argv, dir := strings.Fields(args), t.TempDir()
	if file != "" {
		name := filepath.Join(dir, "skerry.toml")
		if err := os.WriteFile(name, []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
		argv = append(argv, "--config", name)
	}
	rest, err := verb.Configure(o.Settings(), nil, argv, strings.Split(environ, " "))
	if err == nil && len(rest) > 0 {
		return "rest " + strings.Join(rest, " ")
	}
	if err != nil {
		return strings.ReplaceAll(err.Error(), dir+"/", "")
	}
	return strings.Join([]string{o.data, o.http, o.resp, verb.FormatSize(o.memory), o.logLevel}, " ")
}

func TestPrecedence(t *testing.T) {
	for _, c := range []struct{ name, args, env, file, want string }{
		{"defaults", "", "", "", "./data 127.0.0.1:7001 127.0.0.1:6380 0B info"},
		{"file", "", "", `data = "f"`, "f 127.0.0.1:7001 127.0.0.1:6380 0B info"},
		{"environment over file", "", "SKERRY_DATA=e", "data = \"f\"\nmemory = \"1GiB\"", "e 127.0.0.1:7001 127.0.0.1:6380 1GiB info"},
		{"flag over all", "--data d", "SKERRY_DATA=e", `data = "f"`, "d 127.0.0.1:7001 127.0.0.1:6380 0B info"},
		{"each on its own", "--http :1", "SKERRY_RESP=:2", `log-level = "warn"`, "./data :1 :2 0B warn"},
		{"a number in the file", "", "", "memory = 67108864", "./data 127.0.0.1:7001 127.0.0.1:6380 64MiB info"},
		{"an empty variable is none", "", "SKERRY_DATA=", `data = "f"`, "f 127.0.0.1:7001 127.0.0.1:6380 0B info"},
		{"all forms of a flag", "-data=a --http=:1 -resp :2", "", "", "a :1 :2 0B info"},
		{"a switch takes no word", "--insecure-public extra", "", "", "rest extra"},
		{"after two dashes", "-- --data", "", "", "rest --data"},
		{"others' variables", "", "SKERRY_SERVICE_HOST=10.0.0.1 SKERRY_PORT_7001_TCP=x SKERRY_SEED=7", "", "./data 127.0.0.1:7001 127.0.0.1:6380 0B info"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := configured(t, c.args, c.env, c.file); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

func TestMistakesAllAtOnce(t *testing.T) {
	got := configured(t, "--htp :1 --memory many --log-level loud --log-level info --http here",
		"SKERRY_DTA=x SKERRY_MEMORY=-1",
		"resp = \"nowhere\"\nport = 7\nlog-format = [1]\n[data]\nfolder = \"x\"\n")
	want := []string{
		`--htp: unknown flag; did you mean --http?`,
		`--log-level: given twice`,
		`SKERRY_DTA: unknown setting`,
		`skerry.toml: data: must be a string, a whole number or a boolean`,
		`skerry.toml: log-format: must be a string, a whole number or a boolean`,
		`skerry.toml: port: unknown setting`,
		`--http: "here" is not HOST:PORT or off`,
		`skerry.toml: resp: "nowhere" is not HOST:PORT or off`,
		`SKERRY_MEMORY: "-1" is not a size like 512MiB or 4GiB`,
		`--memory: "many" is not a size like 512MiB or 4GiB`,
	}
	if got != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
}

func TestMistakes(t *testing.T) {
	for _, c := range []struct{ name, args, env, file, want string }{
		{"no value", "--data", "", "", "--data: needs a value: DIR"},
		{"empty value", "--data=", "", "", "--data: must not be empty"},
		{"switch", "--insecure-public=perhaps", "", "", `--insecure-public: "perhaps" is neither true nor false`},
		{"port", "--http 127.0.0.1:99999", "", "", `--http: "127.0.0.1:99999": the port must be a number from 0 to 65535`},
		{"port name", "--http 127.0.0.1:http", "", "", `--http: "127.0.0.1:http": the port must be a number from 0 to 65535`},
		{"little memory", "--memory 1KiB", "", "", `--memory: "1KiB" is less than 16MiB`},
		{"too much memory", "--memory 9999999TiB", "", "", `--memory: "9999999TiB" is not a size like 512MiB or 4GiB`},
		{"choice", "--log-level trace", "", "", `--log-level: "trace" is not one of debug, info, warn, error`},
		{"file in a file", "", "", `config = "other.toml"`, `skerry.toml: config: unknown setting`},
		{"json is no setting of the server", "", "SKERRY_JSON=true", "", `SKERRY_JSON: only the flag --json can set this`},
		{"not TOML", "", "", "data = ", "skerry.toml: toml: line 1 (last key \"data\"): expected value but found '\\n' instead"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := configured(t, c.args, c.env, c.file)
			if c.name == "not TOML" { // the reader's own words may change
				got, c.want = got[:26], c.want[:26]
			}
			if got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

func TestMissingFile(t *testing.T) {
	_, err := verb.Configure((&Options{}).Settings(), nil, []string{"--config", filepath.Join(t.TempDir(), "none")}, nil)
	if err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("got %v", err)
	}
}

func TestMachineMemory(t *testing.T) {
	write := func(root, file, text string) {
		t.Helper()
		name := filepath.Join(root, file)
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	root := t.TempDir()
	expect := func(what string, want int64) {
		t.Helper()
		if got := machineMemory(root); got != want {
			t.Errorf("%s: %d, want %d", what, got, want)
		}
	}
	expect("nothing known", fallbackMemory)
	write(root, "proc/meminfo", "MemFree: 1 kB\nMemTotal:       1000 kB\n")
	expect("the machine", 1000<<10)
	write(root, "sys/fs/cgroup/memory.max", "max\n")
	expect("no limit", 1000<<10)
	write(root, "proc/self/cgroup", "0::/a.slice/b.service\n")
	write(root, "sys/fs/cgroup/a.slice/memory.max", "900000\n")
	expect("a group above", 900000)
	write(root, "sys/fs/cgroup/a.slice/b.service/memory.max", "800000\n")
	expect("version 2", 800000)
	write(root, "proc/self/cgroup", "5:cpu,memory:/c\n")
	write(root, "sys/fs/cgroup/memory/c/memory.limit_in_bytes", "700000\n")
	expect("version 1", 700000)
}

func TestProcessLimit(t *testing.T) {
	for _, c := range []struct{ machine, data, want int64 }{
		{1000, 100, 900}, {1000, 500, 900}, {1000, 501, 1002}, {1000, 4000, 8000},
		{1000, math.MaxInt64, math.MaxInt64},
	} {
		if got := processLimit(c.machine, c.data); got != c.want {
			t.Errorf("machine %d, data %d: %d, want %d", c.machine, c.data, got, c.want)
		}
	}
}

// TestOperatingExample: the file that docs/operating.md shows is one.
func TestOperatingExample(t *testing.T) {
	doc, err := os.ReadFile("../../docs/operating.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(doc), "```toml\n")
	example, _, closed := strings.Cut(rest, "```")
	if !found || !closed {
		t.Fatal("docs/operating.md shows no file")
	}
	want := "/var/lib/skerry 10.0.0.5:7001 10.0.0.5:6380 8GiB info"
	if got := configured(t, "", "", example); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

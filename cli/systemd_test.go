package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestUnit: a unit has the flags that were given, whole, and no more rights than
// they need.
func TestUnit(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for _, c := range []struct {
		args string
		has  string // lines, with | between them
		not  string
	}{
		{"", "ExecStart=/usr/local/bin/site serve --data=/var/lib/site|DynamicUser=yes|StateDirectory=site|CapabilityBoundingSet=|TimeoutStopSec=30|NoNewPrivileges=yes|ProtectSystem=strict|KillSignal=SIGTERM|Restart=on-failure", "AmbientCapabilities"},
		{"--http 0.0.0.0:80 --drain 20s", "ExecStart=/usr/local/bin/site serve --data=/var/lib/site --http=0.0.0.0:80 --drain=20s|TimeoutStopSec=50|AmbientCapabilities=CAP_NET_BIND_SERVICE|CapabilityBoundingSet=CAP_NET_BIND_SERVICE", ""},
		{"--binary '/opt/50%/$x'", "ExecStart=/opt/50%%/$$x serve --data=/var/lib/site", ""},
		{"--http :8443 --acme-domains a.example", "AmbientCapabilities=CAP_NET_BIND_SERVICE", ""},
		{"--user www --data /srv/d --archive /srv/a", "User=www|ReadWritePaths=/srv/d|ReadWritePaths=/srv/a", "DynamicUser"},
		{"--smtp-url-file '/etc/a b/smtp' --tls-cert /etc/c --tls-key /etc/50%", `LoadCredential=smtp-url-file:/etc/a b/smtp|LoadCredential=tls-key:/etc/50%%`, "=/etc/c "},
		{"--binary '/opt/my site' --superadmins a@b.example --debug", `ExecStart="/opt/my site" serve --data=/var/lib/site --debug=true --superadmins=a@b.example`, ""},
	} {
		out := s.run("site systemd " + c.args)
		for _, line := range strings.Split(c.has, "|") {
			if !strings.Contains("\n"+out, "\n"+line+"\n") {
				t.Errorf("%s: does not have %q:\n%s", c.args, line, out)
			}
		}
		if c.not != "" && strings.Contains(out, c.not) {
			t.Errorf("%s: has %q:\n%s", c.args, c.not, out)
		}
	}
	for args, want := range map[string]string{
		"--data d":                      "needs an absolute path",
		"--data /srv/d":                 "which is required without --user",
		"--data /var/lib/../x":          "which is required without --user",
		"--password-file p":             "password-file: p: a service needs an absolute path",
		"--user 'a b'":                  `"a b" is not the name of a user`,
		"--user ''":                     "is not the name of a user",
		"--binary x":                    `"x" is not an absolute path`,
		"--resp 0.0.0.0:6380":           "resp: 0.0.0.0:6380 is reachable from other machines",
		"--drain 1h":                    "is not a duration",
		"--name $'a\\nb'":               "unknown flag",
		"--superadmins $'a@b\\nUser=x'": "--superadmins: ",
		"--archive $'/a\\nUser=root'":   "must be one line",
		"--config x":                    "--config: unknown flag",
	} {
		if out := s.run("site systemd " + args); !strings.Contains(out, want) || !strings.HasSuffix(out, "[2]\n") {
			t.Errorf("%s: want %q, got\n%s", args, want, out)
		}
	}
}

// TestUnitIsUnderstood: systemd takes every line of the unit.
func TestUnitIsUnderstood(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skip("systemd-analyze is not here: nothing reads the unit")
	}
	s := newSite(t)
	unit := filepath.Join(s.dir, "site.service")
	for _, args := range []string{"", "--http 0.0.0.0:443 --tls-cert /etc/c --tls-key '/etc/k 50%' --smtp-url-file /etc/$x --user root --data '/srv/a b'"} {
		text := s.run("site systemd --binary /bin/true " + args)
		if err := os.WriteFile(unit, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if out := s.run("systemd-analyze verify --man=no --recursive-errors=no " + unit + " 2>&1"); strings.Contains(out, "site.service") || strings.Contains(out, "[1]") {
			t.Errorf("systemd-analyze says:\n%sof\n%s", out, text)
		}
	}
}

package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/skerrydb/skerry"
	"github.com/skerrydb/skerry/cli/verb"
)

// stateFolder is where systemd creates folders for StateDirectory.
const stateFolder = "/var/lib/"

// stopSlack is the time for a stop besides grace and drain: handing over leadership, sending email, and
// closing the data.
const stopSlack = 20 * time.Second

// firstFreePort is the first port that needs no capability.
const firstFreePort = 1024

// unitOptions are the options of `skerry systemd`.
type unitOptions struct {
	user   string
	binary string
	serve  Options
	given  []string // the flags of serve, as given
}

var Systemd = verb.Verb{
	Name: "systemd", Args: "[FLAGS OF SERVE]", Short: "print a systemd unit that runs the server with minimal privileges",
	Long: `The unit runs serve with the flags given here and gives it access to the files that they
name. Without --user, systemd creates a user while the server runs, and the data is in a
folder below /var/lib. To install the unit:

	skerry systemd --http :443 --acme-domains app.example.org > /etc/systemd/system/skerry.service
	systemctl daemon-reload && systemctl enable --now skerry`,
	Start: func(app verb.App) verb.Action {
		o := &unitOptions{}
		settings := []verb.Setting{
			{Name: "user", Arg: "NAME", Help: "existing user to run the server as (default a dynamic user)", Set: word(&o.user)},
			{Name: "binary", Arg: "PATH", Help: "path of the program on the target machine (default /usr/local/bin/NAME)", Set: absolute(&o.binary)},
		}
		settings = append(settings, o.flags(app)...)
		return verb.Action{Settings: settings, Check: func(rest []string) error { return o.check(app, rest) }, Do: func(_ context.Context, p verb.Process, _ []string) error {
			return o.print(p.Stdout, p.App)
		}, Abrupt: true}
	},
}

// flags returns the flags of serve, and keeps their values as given. None of them comes from the environment
// or a file here.
func (o *unitOptions) flags(app verb.App) []verb.Setting {
	all := slices.DeleteFunc(o.serve.Settings(), func(s verb.Setting) bool {
		return slices.Contains([]string{"json", "while-stdin", "source", "engine"}, s.Name)
	})
	for i, s := range all {
		all[i].Server = false
		if s.Name == "data" {
			s.Default, all[i].Default = "", ""
			all[i].Help = "folder of the data (default " + stateFolder + "NAME)"
		}
		all[i].Set = func(v string) error {
			if err := s.Set(v); err != nil || v == s.Default {
				return err
			}
			if strings.ContainsAny(v, "\n\r\x00") {
				return errors.New("must be one line")
			}
			o.given = append(o.given, "--"+s.Name+"="+v)
			return nil
		}
	}
	return all
}

// check returns an error if flags contradict each other. Files need not be on this machine.
func (o *unitOptions) check(app verb.App, rest []string) error {
	wrong := []error{verb.NoArguments(rest), o.serve.node.Check(), o.serve.fits(app)}
	if o.serve.data != "" && !filepath.IsAbs(o.serve.data) {
		wrong = append(wrong, fmt.Errorf("data: %s: a service needs an absolute path", o.serve.data))
	}
	for _, f := range append(o.secrets(), named{"invite", &o.serve.node.Invite}, named{"archive", &o.serve.archive.dir}, named{"backups", &o.serve.backups.dir}) {
		if *f.path != "" && !filepath.IsAbs(*f.path) {
			wrong = append(wrong, fmt.Errorf("%s: %s: a service needs an absolute path", f.name, *f.path))
		}
	}
	if o.user == "" && o.serve.data != "" && o.state() == "" {
		wrong = append(wrong, fmt.Errorf("data: %s is not below %s, which is required without --user", o.serve.data, stateFolder))
	}
	return verb.Mistakes(wrong...)
}

// named is a flag's name with the path that was given.
type named struct {
	name string
	path *string
}

// secrets returns the files that serve reads at every start.
func (o *unitOptions) secrets() []named {
	s := &o.serve
	return []named{{"password-file", &s.passwordFile}, {"tls-cert", &s.tlsCert}, {"tls-key", &s.tlsKey}, {"smtp-url-file", &s.web.smtpFile}}
}

// state returns the name of the data folder below stateFolder, "" if it is elsewhere.
func (o *unitOptions) state() string {
	below, ok := strings.CutPrefix(filepath.Clean(o.serve.data), stateFolder)
	if !ok || !filepath.IsLocal(below) {
		return ""
	}
	return below
}

// privileged reports whether the server listens on a port that needs a capability.
func (o *unitOptions) privileged() bool {
	for _, addr := range []string{o.serve.http, o.serve.resp, o.serve.admin, o.serve.node.Addr, o.serve.plainHTTP()} {
		if _, port, err := net.SplitHostPort(addr); err == nil {
			if n, err := strconv.Atoi(port); err == nil && n > 0 && n < firstFreePort {
				return true
			}
		}
	}
	return false
}

// plainHTTP returns the address for the CA's challenges, "" if there is none.
func (o *Options) plainHTTP() string {
	if o.acme.domains == nil {
		return ""
	}
	return cmp.Or(o.acme.http, skerry.DefaultPlainHTTP)
}

// print writes the unit. systemd.exec(5) explains its restrictions.
func (o *unitOptions) print(w io.Writer, app verb.App) error {
	if o.serve.data == "" {
		o.serve.data = stateFolder + app.Name
		o.given = append([]string{"--data=" + o.serve.data}, o.given...)
	}
	if o.binary == "" {
		o.binary = "/usr/local/bin/" + app.Name
	}
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("[Unit]\nDescription=%s\nAfter=network-online.target\nWants=network-online.target\n\n[Service]\nType=exec", app.Name)
	o.printCommand(line)
	o.printUser(line)
	line("Restart=on-failure\nRestartSec=2\n# Wrong configuration or damaged data: restarting does not help.\nRestartPreventExitStatus=%d %d", verb.ExitUsage, verb.ExitBroken)
	line("KillSignal=SIGTERM\nTimeoutStopSec=%d\nLimitNOFILE=1048576", int((skerry.DefaultGrace+o.serve.web.drain+stopSlack)/time.Second))
	line("\nNoNewPrivileges=yes\nProtectSystem=strict\nProtectHome=yes\nPrivateTmp=yes\nPrivateDevices=yes\nProtectHostname=yes\nProtectClock=yes")
	line("ProtectKernelTunables=yes\nProtectKernelModules=yes\nProtectKernelLogs=yes\nProtectControlGroups=yes\nProtectProc=invisible")
	line("RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX\nRestrictNamespaces=yes\nRestrictRealtime=yes\nRestrictSUIDSGID=yes\nRemoveIPC=yes")
	line("LockPersonality=yes\nMemoryDenyWriteExecute=yes\nSystemCallArchitectures=native\nSystemCallFilter=@system-service\nSystemCallFilter=~@privileged @resources\nSystemCallErrorNumber=EPERM\nUMask=0077")
	if o.privileged() {
		line("# For ports below %d, and nothing else.\nAmbientCapabilities=CAP_NET_BIND_SERVICE\nCapabilityBoundingSet=CAP_NET_BIND_SERVICE", firstFreePort)
	} else {
		line("CapabilityBoundingSet=")
	}
	line("\n[Install]\nWantedBy=multi-user.target")
	_, err := io.WriteString(w, b.String())
	return err
}

// printCommand writes the command. Files that systemd reads for a user that it creates are passed as
// credentials: they can stay readable by root alone.
func (o *unitOptions) printCommand(line func(string, ...any)) {
	args := []string{unitWord(o.binary), "serve"}
	var credentials []string
	for _, flag := range o.given {
		name, value, _ := strings.Cut(strings.TrimPrefix(flag, "--"), "=")
		if i := slices.IndexFunc(o.secrets(), func(f named) bool { return f.name == name }); i >= 0 {
			credentials = append(credentials, name+":"+strings.ReplaceAll(value, "%", "%%"))
			args = append(args, `"--`+name+`=${CREDENTIALS_DIRECTORY}/`+name+`"`)
			continue
		}
		args = append(args, unitWord(flag))
	}
	line("ExecStart=%s", strings.Join(args, " "))
	for _, c := range credentials {
		line("LoadCredential=%s", c)
	}
}

func (o *unitOptions) printUser(line func(string, ...any)) {
	if o.user != "" {
		line("User=%s", o.user)
	} else {
		line("DynamicUser=yes")
	}
	if name := o.state(); name != "" {
		line("StateDirectory=%s\nStateDirectoryMode=0700", unitWord(name))
	} else {
		line("ReadWritePaths=%s", unitWord(o.serve.data))
	}
	for _, dir := range []string{o.serve.archive.dir, o.serve.backups.dir} {
		if dir != "" {
			line("ReadWritePaths=%s", unitWord(dir))
		}
	}
}

// unitWord quotes a word for a unit file: systemd.service(5), systemd.syntax(7).
func unitWord(s string) string {
	s = strings.NewReplacer("%", "%%", "$", "$$").Replace(s)
	if !strings.ContainsAny(s, " \t\"'\\;") {
		return s
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}

// word parses the name of a user.
func word(p *string) func(string) error {
	return func(v string) error {
		if strings.Trim(strings.ToLower(v), "abcdefghijklmnopqrstuvwxyz0123456789_-") != "" || v == "" || v[0] == '-' {
			return fmt.Errorf("%q is not the name of a user", v)
		}
		*p = v
		return nil
	}
}

// absolute parses an absolute path.
func absolute(p *string) func(string) error {
	return func(v string) error {
		if !filepath.IsAbs(v) || strings.ContainsAny(v, "\n\r\x00") {
			return fmt.Errorf("%q is not an absolute path", v)
		}
		*p = filepath.Clean(v)
		return nil
	}
}

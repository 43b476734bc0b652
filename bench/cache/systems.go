package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/skerrydb/skerry/bench/rig"
	"github.com/skerrydb/skerry/examples/deptemp"
)

// system is one server under test.
type system struct {
	name, about string
	addr        string
	command     func() (*exec.Cmd, error)
	log         string
	process     *rig.Process
	database    bool // its requests use PostgreSQL, whose time counts too
	keeps       bool // it is a cache, which is filled before anything is measured
}

func (s *system) String() string { return s.name }

func (s *system) start() error {
	cmd, err := s.command()
	if err != nil {
		return err
	}
	if s.process, err = rig.Start(cmd, s.log); err != nil {
		return err
	}
	for from := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		res, err := http.Get("http://" + s.addr + "/dept/1")
		if err == nil {
			res.Body.Close()
			if res.StatusCode == http.StatusOK {
				return nil
			}
		}
		if time.Since(from) > rig.StartLimit {
			return fmt.Errorf("%s does not serve (its log is %s): %v", s.name, s.log, err)
		}
	}
}

func (s *system) stop() error {
	if s.process == nil {
		return nil
	}
	return s.process.Stop(syscall.SIGTERM)
}

// makers has the systems by name.
func (p *plan) makers() map[string]func() (*system, error) {
	rival := func(name, about string, args ...string) func() (*system, error) {
		return func() (*system, error) {
			path := filepath.Join(p.dir, "rival")
			if err := rig.BuildBench("./cache/rival", path); err != nil {
				return nil, err
			}
			return p.system(name, about, func(s *system) *exec.Cmd {
				return exec.Command(path, append([]string{"-addr", s.addr, "-postgres", p.url}, args...)...)
			})
		}
	}
	skerry := func(name, about string, env ...string) func() (*system, error) {
		return func() (*system, error) {
			path := filepath.Join(p.dir, "deptemp")
			if err := rig.BuildProgram("./examples/deptemp/server", path); err != nil {
				return nil, err
			}
			return p.system(name, about, func(s *system) *exec.Cmd {
				cmd := exec.Command(path, "serve", "--http", s.addr, "--resp", "off", "--admin", "127.0.0.1:0", "--data", filepath.Join(p.dir, name))
				cmd.Env = append(append(os.Environ(), "DEPTEMP_POSTGRES="+p.url), env...)
				return cmd
			})
		}
	}
	return map[string]func() (*system, error){
		"postgres": rival("postgres", "net/http, pgx, a prepared query for each request"),
		"otter":    rival("otter", "net/http, otter v2 with 1 GiB, nothing invalidates", "-otter", fmt.Sprint(1<<30)),
		"memory":   skerry("memory", "Skerry, memory tier of 1 GiB, coherent", "DEPTEMP_CACHE_MIB=1024"),
		"disk":     skerry("disk", "Skerry, disk tier, memory tier of 1 MiB, coherent", "DEPTEMP_CACHE_MIB=1", "DEPTEMP_CACHE_DIR="+filepath.Join(p.dir, "tier")),
		"nginx":    p.nginx,
	}
}

func (p *plan) system(name, about string, command func(s *system) *exec.Cmd) (*system, error) {
	addrs, err := rig.FreePorts(1)
	if err != nil {
		return nil, err
	}
	s := &system{name: name, about: about, addr: addrs[0], log: filepath.Join(p.dir, name+".log"), database: name != "nginx", keeps: name != "nginx" && name != "postgres"}
	s.command = func() (*exec.Cmd, error) { return command(s), nil }
	return s, nil
}

// nginx serves the departments as files.
func (p *plan) nginx() (*system, error) {
	path, err := exec.LookPath("nginx")
	if err != nil {
		if path = "/usr/sbin/nginx"; !exists(path) {
			return nil, fmt.Errorf("nginx is missing (Debian package nginx-light), or leave it out with -systems")
		}
	}
	root := filepath.Join(p.dir, "files")
	if err := p.files(filepath.Join(root, "dept")); err != nil {
		return nil, err
	}
	return p.system("nginx", "nginx, the same bytes as files, one worker", func(s *system) *exec.Cmd {
		conf := filepath.Join(p.dir, "nginx.conf")
		text := fmt.Sprintf(`daemon off; worker_processes 1; pid %[1]s/nginx.pid; error_log %[1]s/nginx-errors.log; user root;
events { worker_connections 1024; }
http { access_log off; default_type application/json; sendfile on; tcp_nopush on; keepalive_requests 1000000000;
	open_file_cache max=15000 inactive=1h; open_file_cache_valid 1h;
	client_body_temp_path %[1]s/t1; proxy_temp_path %[1]s/t2; fastcgi_temp_path %[1]s/t3; uwsgi_temp_path %[1]s/t4; scgi_temp_path %[1]s/t5;
	server { listen %[2]s; root %[3]s; } }
`, p.dir, s.addr, root)
		_ = os.WriteFile(conf, []byte(text), 0o644) // nginx says what is wrong with it
		return exec.Command(path, "-c", conf, "-e", filepath.Join(p.dir, "nginx-errors.log"))
	})
}

func exists(path string) bool { _, err := os.Stat(path); return err == nil }

// files writes every department into a file.
func (p *plan) files(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	addr := strings.TrimPrefix(strings.Split(p.url, "@")[1], "")
	addr, _, _ = strings.Cut(addr, "/")
	return rig.WithPostgres(addr, func(ctx context.Context, db *pgx.Conn) error {
		ctx = context.WithoutCancel(ctx)
		for from := 1; from <= p.departments; from += 1000 {
			var ids []string
			for id := from; id < from+1000 && id <= p.departments; id++ {
				ids = append(ids, fmt.Sprint(id))
			}
			rows, err := db.Query(ctx, deptemp.Query, ids)
			if err != nil {
				return err
			}
			var id string
			var body []byte
			if _, err := pgx.ForEachRow(rows, []any{&id, &body}, func() error { return os.WriteFile(filepath.Join(dir, id), body, 0o644) }); err != nil {
				return err
			}
		}
		return nil
	})
}

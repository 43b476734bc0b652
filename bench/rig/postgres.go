package rig

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// PostgresUser runs PostgreSQL when this program runs as root, as which PostgreSQL refuses to run, and owns its
// databases.
const PostgresUser = "postgres"

// PostgresPrograms returns the folder of initdb, postgres and pgbench.
func PostgresPrograms() (string, error) {
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb") // Debian's place
	if err != nil {
		return "", err
	}
	if len(found) > 0 {
		return filepath.Dir(found[len(found)-1]), nil
	}
	path, err := exec.LookPath("initdb")
	if err != nil {
		return "", errors.New("initdb is missing (Debian package postgresql-15), or leave postgres out with -systems")
	}
	return filepath.Dir(path), nil
}

// asOwner makes cmd run as a user who may run PostgreSQL.
func asOwner(cmd *exec.Cmd) (*exec.Cmd, error) {
	cmd.Dir = "/"
	if os.Getuid() != 0 {
		return cmd, nil
	}
	uid, gid, err := postgresOwner()
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
	return cmd, err
}

func postgresOwner() (uid, gid int, err error) {
	u, err := user.Lookup(PostgresUser)
	if err != nil {
		return 0, 0, err
	}
	if uid, err = strconv.Atoi(u.Uid); err != nil {
		return 0, 0, err
	}
	gid, err = strconv.Atoi(u.Gid)
	return uid, gid, err
}

// StartPostgres runs PostgreSQL with its programs in bin and its data below dir, which it creates the first time, and
// waits until it serves at addr. fsync, synchronous_commit and full_page_writes stay on. Other settings give it room:
// buffers for all of the data, and no checkpoint within a window. more are further settings, NAME=VALUE.
func StartPostgres(bin, dir, addr, log string, more ...string) (*Process, error) {
	data := filepath.Join(dir, "data")
	if _, err := os.Stat(data); err != nil {
		if err := initPostgres(bin, dir, data); err != nil {
			return nil, err
		}
	}
	host, port, _ := net.SplitHostPort(addr)
	args := []string{"-D", data, "-h", host, "-p", port, "-k", dir}
	for _, set := range append([]string{"fsync=on", "synchronous_commit=on", "full_page_writes=on", "max_connections=300",
		"shared_buffers=1GB", "max_wal_size=8GB", "checkpoint_timeout=30min", "log_min_messages=fatal", "log_min_error_statement=panic"}, more...) {
		args = append(args, "-c", set)
	}
	cmd, err := asOwner(exec.Command(filepath.Join(bin, "postgres"), args...))
	if err != nil {
		return nil, err
	}
	p, err := Start(cmd, log)
	if err != nil {
		return nil, err
	}
	for from := time.Now(); ; time.Sleep(20 * time.Millisecond) { // it listens before it serves
		err := WithPostgres(addr, func(ctx context.Context, c *pgx.Conn) error { return c.Ping(ctx) })
		if err == nil {
			return p, nil
		}
		select {
		case <-p.Done():
			return nil, fmt.Errorf("postgres ended before it served: %w (its log is %s)", err, log)
		default:
		}
		if time.Since(from) > StartLimit {
			return nil, errors.Join(err, p.Stop(syscall.SIGINT))
		}
	}
}

func initPostgres(bin, dir, data string) error {
	if os.Getuid() == 0 {
		uid, gid, err := postgresOwner()
		if err != nil {
			return err
		}
		if err := os.Chown(dir, uid, gid); err != nil {
			return err
		}
	}
	initdb, err := asOwner(exec.Command(filepath.Join(bin, "initdb"), "-D", data, "-A", "trust", "-U", PostgresUser, "-E", "UTF8", "--no-locale"))
	if err != nil {
		return err
	}
	if out, err := initdb.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w\n%s", err, out)
	}
	return nil
}

// PostgresURL returns the address of the database for clients.
func PostgresURL(addr string) string {
	return "postgres://" + PostgresUser + "@" + addr + "/postgres?sslmode=disable"
}

// WithPostgres calls do with a connection.
func WithPostgres(addr string, do func(context.Context, *pgx.Conn) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), StartLimit)
	defer cancel()
	c, err := pgx.Connect(ctx, PostgresURL(addr))
	if err != nil {
		return err
	}
	defer c.Close(ctx)
	return do(ctx, c)
}

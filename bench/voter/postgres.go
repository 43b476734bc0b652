package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/skerrydb/skerry/bench/rig"
	"github.com/skerrydb/skerry/examples/voter"
)

// pgUser runs PostgreSQL when this program runs as root, as which PostgreSQL refuses to run.
const pgUser = "postgres"

// newPostgres is Debian's PostgreSQL. fsync, synchronous_commit and full_page_writes stay on. Other settings
// give it room: buffers for all of the data, and no checkpoint within a window.
func newPostgres(dir string) (*system, error) {
	bin, err := pgPrograms()
	if err != nil {
		return nil, err
	}
	s := &system{
		name: "postgres", version: rig.OutputLine(filepath.Join(bin, "postgres"), "--version"), dir: filepath.Join(dir, "postgres"),
		lanes: []lane{
			{"pgx, pipelined 64×1", "pgx", 64, 64},
			{"pgx, pipelined 8×64", "pgx", 8, 8 * 64},
			{"pgx, pipelined 64×8", "pgx", 64, 8 * 64},
			{"pgbench -c 16 -j 2", "pgbench", 16, 16},
			{"pgbench -c 64 -j 2", "pgbench", 64, 64},
		},
		run: func(s *system) error { return runPostgres(s, bin) },
		prepare: func(s *system) error {
			return withPostgres(s.addr, func(ctx context.Context, c *pgx.Conn) error {
				_, err := c.Exec(ctx, pgSchema())
				return err
			})
		},
	}
	s.votes = func(s *system) (n int64, err error) {
		var phones int64
		err = withPostgres(s.addr, func(ctx context.Context, c *pgx.Conn) error {
			return c.QueryRow(ctx, "SELECT (SELECT count(*) FROM votes), (SELECT coalesce(sum(votes), 0)::bigint FROM phones)").Scan(&n, &phones)
		})
		if err == nil && n != phones {
			err = fmt.Errorf("the counts do not agree: %d and %d", n, phones)
		}
		return n, err
	}
	return s, nil
}

// pgPrograms returns the folder of initdb, postgres and pgbench.
func pgPrograms() (string, error) {
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb") // Debian's place
	if err != nil {
		return "", err
	}
	if len(found) > 0 {
		return filepath.Dir(found[len(found)-1]), nil
	}
	path, err := exec.LookPath("initdb")
	if err != nil {
		return "", fmt.Errorf("initdb is missing (Debian package postgresql-15), or leave postgres out with -systems")
	}
	return filepath.Dir(path), nil
}

// asOwner makes cmd run as a user who may run PostgreSQL.
func asOwner(cmd *exec.Cmd) (*exec.Cmd, error) {
	cmd.Dir = "/"
	if os.Getuid() != 0 {
		return cmd, nil
	}
	uid, gid, err := pgOwner()
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
	return cmd, err
}

func pgOwner() (uid, gid int, err error) {
	u, err := user.Lookup(pgUser)
	if err != nil {
		return 0, 0, err
	}
	if uid, err = strconv.Atoi(u.Uid); err != nil {
		return 0, 0, err
	}
	gid, err = strconv.Atoi(u.Gid)
	return uid, gid, err
}

func runPostgres(s *system, bin string) error {
	data := filepath.Join(s.dir, "data")
	if _, err := os.Stat(data); err != nil {
		if os.Getuid() == 0 {
			uid, gid, err := pgOwner()
			if err != nil {
				return err
			}
			if err := os.Chown(s.dir, uid, gid); err != nil {
				return err
			}
		}
		initdb, err := asOwner(exec.Command(filepath.Join(bin, "initdb"), "-D", data, "-A", "trust", "-U", pgUser, "-E", "UTF8", "--no-locale"))
		if err != nil {
			return err
		}
		if out, err := initdb.CombinedOutput(); err != nil {
			return fmt.Errorf("initdb: %w\n%s", err, out)
		}
	}
	host, port, _ := net.SplitHostPort(s.addr)
	args := []string{"-D", data, "-h", host, "-p", port, "-k", s.dir}
	for _, set := range []string{"fsync=on", "synchronous_commit=on", "full_page_writes=on", "max_connections=300",
		"shared_buffers=1GB", "max_wal_size=8GB", "checkpoint_timeout=30min", "log_min_messages=fatal", "log_min_error_statement=panic"} {
		args = append(args, "-c", set)
	}
	cmd, err := asOwner(exec.Command(filepath.Join(bin, "postgres"), args...))
	if err != nil {
		return err
	}
	if err := s.launch(cmd); err != nil {
		return err
	}
	for from := time.Now(); ; time.Sleep(50 * time.Millisecond) { // it listens before it serves
		err := withPostgres(s.addr, func(ctx context.Context, c *pgx.Conn) error { return c.Ping(ctx) })
		if err == nil || time.Since(from) > rig.StartLimit {
			return err
		}
	}
}

func pgURL(addr string) string {
	return "postgres://" + pgUser + "@" + addr + "/postgres?sslmode=disable"
}

func withPostgres(addr string, do func(context.Context, *pgx.Conn) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), rig.StartLimit)
	defer cancel()
	c, err := pgx.Connect(ctx, pgURL(addr))
	if err != nil {
		return err
	}
	defer c.Close(ctx)
	return do(ctx, c)
}

// pgSchema is an idiomatic vote for PostgreSQL: a counter per phone, and a row per vote, which is counted when
// results are requested. With counters per contestant, as the other systems have, every vote would wait for
// such a row until the previous vote is on disk.
func pgSchema() string {
	var codes []string
	for code := int64(200); code < 1000; code++ {
		if s := voter.StateOf(code * 10_000_000); s != voter.Nowhere {
			codes = append(codes, fmt.Sprintf("(%d, '%s')", code, s))
		}
	}
	return fmt.Sprintf(`
CREATE TABLE contestants (number int PRIMARY KEY, name text NOT NULL);
INSERT INTO contestants SELECT n, 'contestant ' || n FROM generate_series(1, %d) n;
CREATE TABLE area_codes (code int PRIMARY KEY, state text NOT NULL);
INSERT INTO area_codes VALUES %s;
CREATE TABLE phones (phone bigint PRIMARY KEY, votes bigint NOT NULL) WITH (fillfactor = 50);
CREATE TABLE votes (contestant int NOT NULL, state text NOT NULL);
ANALYZE;
CREATE FUNCTION vote(number bigint, candidate int, most bigint) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
  cast_now bigint;
BEGIN
  PERFORM FROM contestants c WHERE c.number = candidate;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'there is no such contestant';
  END IF;
  INSERT INTO phones AS p VALUES (number, 1)
    ON CONFLICT (phone) DO UPDATE SET votes = p.votes + 1 WHERE p.votes < most
    RETURNING p.votes INTO cast_now;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'too many votes';
  END IF;
  INSERT INTO votes VALUES (candidate, coalesce((SELECT a.state FROM area_codes a WHERE a.code = number / 10000000), 'XX'));
  RETURN cast_now;
END $$;`, voter.MaxContestants, strings.Join(codes, ", "))
}

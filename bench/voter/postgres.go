package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/skerrydb/skerry/bench/rig"
	"github.com/skerrydb/skerry/examples/voter"
)

// newPostgres is Debian's PostgreSQL with the settings of rig.StartPostgres.
func newPostgres(dir string) (*system, error) {
	bin, err := rig.PostgresPrograms()
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
		run: func(s *system) (err error) {
			s.proc, err = rig.StartPostgres(bin, s.dir, s.addr, s.dir+".log")
			return err
		},
		prepare: func(s *system) error {
			return rig.WithPostgres(s.addr, func(ctx context.Context, c *pgx.Conn) error {
				_, err := c.Exec(ctx, pgSchema())
				return err
			})
		},
	}
	s.votes = func(s *system) (n int64, err error) {
		var phones int64
		err = rig.WithPostgres(s.addr, func(ctx context.Context, c *pgx.Conn) error {
			return c.QueryRow(ctx, "SELECT (SELECT count(*) FROM votes), (SELECT coalesce(sum(votes), 0)::bigint FROM phones)").Scan(&n, &phones)
		})
		if err == nil && n != phones {
			err = fmt.Errorf("the counts do not agree: %d and %d", n, phones)
		}
		return n, err
	}
	return s, nil
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

package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/skerrydb/skerry/engine"
)

// prepare checks the server, and resolves and checks the tables. With Options.Create it makes the publication.
func (f *replication) prepare(ctx context.Context, db *pgx.Conn) ([]Table, error) {
	var level string
	var standby bool
	// What this connection commits must not wait for standbys: see nudge.
	if _, err := db.Exec(ctx, "set synchronous_commit = local"); err != nil {
		return nil, fmt.Errorf("set up the connection: %w", err)
	}
	if err := db.QueryRow(ctx, "select current_setting('wal_level'), pg_is_in_recovery()").Scan(&level, &standby); err != nil {
		return nil, fmt.Errorf("read the server's settings: %w", err)
	}
	switch {
	case level != "logical":
		return nil, engine.Errorf(engine.CodeUnsupported, "cache/postgres: the server's wal_level is %s: run ALTER SYSTEM SET wal_level = logical and restart it", level)
	case standby:
		return nil, engine.Errorf(engine.CodeUnsupported, "cache/postgres: the server is a standby: changes are followed on the primary")
	}
	var resolved []Table
	for _, t := range f.o.Tables {
		r, err := resolve(ctx, db, t)
		if err != nil {
			return nil, err
		}
		resolved = append(resolved, r)
	}
	return resolved, f.publish(ctx, db, resolved)
}

// resolve returns a table with its full name, after it has checked its columns.
func resolve(ctx context.Context, db *pgx.Conn, t Table) (Table, error) {
	var schema, name, identity string
	var columns []string
	err := db.QueryRow(ctx, `
		select n.nspname, c.relname, c.relreplident::text, array(
			select a.attname::text from pg_attribute a where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
				and (c.relreplident = 'f' or exists (select from pg_index i where i.indrelid = c.oid and a.attnum = any(i.indkey)
					and (c.relreplident = 'd' and i.indisprimary or c.relreplident = 'i' and i.indisreplident))))
		from pg_class c join pg_namespace n on n.oid = c.relnamespace where c.oid = to_regclass($1)`, quoted(t.Name)).Scan(&schema, &name, &identity, &columns)
	if errors.Is(err, pgx.ErrNoRows) {
		return t, engine.Errorf(engine.CodeInvalid, "cache/postgres: there is no table %s", t.Name)
	} else if err != nil {
		return t, fmt.Errorf("look at table %s: %w", t.Name, err)
	}
	t.Name = schema + "." + name
	for _, c := range t.Columns {
		if !slices.Contains(columns, c) {
			return t, identityError(t.Name, t.Columns)
		}
	}
	return t, nil
}

// publish checks that the publication has the tables with all their changes, or makes it.
func (f *replication) publish(ctx context.Context, db *pgx.Conn, tables []Table) error {
	create := fmt.Sprintf("CREATE PUBLICATION %s FOR TABLE %s WITH (publish_via_partition_root = true)", quoted(f.o.Publication), strings.Join(names(tables), ", "))
	var whole bool
	err := db.QueryRow(ctx, "select pubinsert and pubupdate and pubdelete and pubtruncate from pg_publication where pubname = $1", f.o.Publication).Scan(&whole)
	switch {
	case errors.Is(err, pgx.ErrNoRows) && f.o.Create:
		if _, err := db.Exec(ctx, create); err != nil {
			return rights(err, "make the publication", create)
		}
		return nil
	case errors.Is(err, pgx.ErrNoRows):
		return engine.Errorf(engine.CodeUnsupported, "cache/postgres: there is no publication %s: set Create, or run: %s", f.o.Publication, create)
	case err != nil:
		return fmt.Errorf("look at publication %s: %w", f.o.Publication, err)
	case !whole:
		return engine.Errorf(engine.CodeUnsupported, "cache/postgres: publication %s leaves out inserts, updates, deletes or truncates", f.o.Publication)
	}
	rows, err := db.Query(ctx, "select schemaname || '.' || tablename from pg_publication_tables p where pubname = $1 and to_jsonb(p)->>'rowfilter' is null", f.o.Publication)
	if err != nil {
		return fmt.Errorf("look at publication %s: %w", f.o.Publication, err)
	}
	has, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return fmt.Errorf("look at publication %s: %w", f.o.Publication, err)
	}
	for _, t := range tables {
		if slices.Contains(has, t.Name) {
			continue
		}
		add := fmt.Sprintf("ALTER PUBLICATION %s ADD TABLE %s", quoted(f.o.Publication), quoted(t.Name))
		if !f.o.Create {
			return engine.Errorf(engine.CodeUnsupported, "cache/postgres: publication %s does not have table %s without a filter: set Create, or run: %s", f.o.Publication, t.Name, add)
		}
		if _, err := db.Exec(ctx, add); err != nil {
			return rights(err, "add a table to the publication", add)
		}
	}
	return nil
}

// slot finds the slot. exists is false if it must be made, which Options.Create allows.
func (f *replication) slot(ctx context.Context, db *pgx.Conn) (confirmed string, exists bool, err error) {
	if f.o.Slot == "" {
		return "", false, nil
	}
	var plugin, status, base string
	var pid int
	err = db.QueryRow(ctx, `select coalesce(plugin, ''), coalesce(wal_status, ''), coalesce(active_pid, 0), coalesce(confirmed_flush_lsn::text, ''), coalesce(database, '')
		from pg_replication_slots where slot_name = $1`, f.o.Slot).Scan(&plugin, &status, &pid, &confirmed, &base)
	create := fmt.Sprintf("SELECT pg_create_logical_replication_slot('%s', 'pgoutput')", f.o.Slot)
	switch {
	case errors.Is(err, pgx.ErrNoRows) && f.o.Create:
		return "", false, nil
	case errors.Is(err, pgx.ErrNoRows):
		return "", false, engine.Errorf(engine.CodeUnsupported, "cache/postgres: there is no replication slot %s: set Create, or run: %s", f.o.Slot, create)
	case err != nil:
		return "", false, fmt.Errorf("look at slot %s: %w", f.o.Slot, err)
	case plugin != "pgoutput" || base != db.Config().Database:
		return "", false, engine.Errorf(engine.CodeInvalid, "cache/postgres: slot %s is for plugin %q in database %q, not for pgoutput in %q", f.o.Slot, plugin, base, db.Config().Database)
	case pid != 0:
		return "", false, engine.Errorf(engine.CodeUnavailable, "cache/postgres: slot %s is in use by server process %d: another program follows it; each cache needs a slot of its own", f.o.Slot, pid)
	case status == "lost" && !f.o.Create:
		return "", false, engine.Errorf(engine.CodeUnavailable, "cache/postgres: slot %s has lost changes that the server no longer keeps (max_slot_wal_keep_size): set Create, or drop it and run: %s", f.o.Slot, create)
	case status == "lost":
		if _, err := db.Exec(ctx, "select pg_drop_replication_slot($1)", f.o.Slot); err != nil {
			return "", false, rights(err, "drop the slot that has lost changes", "ALTER ROLE "+quoted(db.Config().User)+" REPLICATION")
		}
		return "", false, nil
	}
	return confirmed, true, nil
}

// rights explains an error that rights can be the reason of.
func rights(err error, what, sql string) error {
	if stateOf(err) == stateNoRight {
		return engine.Errorf(engine.CodeUnsupported, "cache/postgres: %s: this role may not; as a superuser, run: %s: %w", what, sql, err)
	}
	return fmt.Errorf("%s: %w", what, err)
}

// Package deptemp serves departments with their employees from PostgreSQL through a cache: the tables belong to
// another program, which changes them with SQL.
//
// It knows the tables and how a department becomes JSON. It must not know how entries are kept.
package deptemp

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// Schema creates the tables. The primary key of emp begins with the department, so that the change of an
// employee, as PostgreSQL reports it, names the department whose JSON is out of date.
const Schema = `
create table if not exists dept (
	id   bigint primary key,
	name text not null,
	city text not null
);
create table if not exists emp (
	dept_id bigint not null references dept,
	no      int    not null,
	name    text   not null,
	job     text   not null,
	email   text   not null,
	phone   text   not null,
	salary  int    not null,
	hired   date   not null,
	primary key (dept_id, no)
);`

// Employees is how many employees a generated department has. Its JSON has about 1.8 kB.
const Employees = 10

// perStep is how many departments Generate inserts in one transaction.
const perStep = 5000

// deptStep and empStep insert departments $1 to $2. The values follow from the numbers, so that a generator
// that was killed goes on where it was.
const (
	deptStep = `insert into dept
		select d, 'Department of ' || (array['Accounting', 'Research', 'Sales', 'Operations', 'Design', 'Support', 'Logistics'])[1 + d % 7] || ' ' || d,
			(array['Aberdeen', 'Bergen', 'Cork', 'Dundee', 'Esbjerg', 'Fowey', 'Galway', 'Hull'])[1 + d % 8]
		from generate_series($1::bigint, $2::bigint) d`
	empStep = `insert into emp
		select d, n, name, (array['Clerk', 'Analyst', 'Manager', 'Engineer', 'Designer', 'Salesperson'])[1 + (d + n) % 6],
			lower(replace(name, ' ', '.')) || '.' || d || '@example.org', '+44 1632 960' || lpad(((d * 13 + n * 37) % 1000)::text, 3, '0'), 2500 + (d * 7919 + n * 104729) % 9000, date '2001-01-01' + ((d * 31 + n * 997) % 9000)::int
		from generate_series($1::bigint, $2::bigint) d, generate_series(1, 10) n,
			lateral (select (array['Ada', 'Ben', 'Clara', 'David', 'Edith', 'Finn', 'Greta', 'Henry', 'Ida', 'Jack', 'Kate'])[1 + (d * 3 + n * 5) % 11]
				|| ' ' || (array['Adams', 'Baker', 'Clarke', 'Davies', 'Evans', 'Fraser', 'Graham', 'Hughes', 'Irving', 'Jones', 'Kerr', 'Lewis', 'Morgan'])[1 + (d * 7 + n) % 13] as name) names`
)

// Progress is how far Generate is.
type Progress struct{ Done, Of int64 }

// Generate creates the tables if they do not exist, and departments up to the number n with their employees. It
// continues after the last department that exists, and calls report after each step. At the end it analyses the
// tables.
func Generate(ctx context.Context, url string, n int64, report func(Progress)) error {
	db, err := pgx.Connect(ctx, url)
	if err != nil {
		return fmt.Errorf("connect to PostgreSQL: %w", err)
	}
	defer db.Close(context.WithoutCancel(ctx))
	if _, err := db.Exec(ctx, Schema); err != nil {
		return fmt.Errorf("create the tables: %w", err)
	}
	var done int64
	if err := db.QueryRow(ctx, "select coalesce(max(id), 0) from dept").Scan(&done); err != nil {
		return fmt.Errorf("find the last department: %w", err)
	}
	report(Progress{done, n})
	for done < n {
		to := min(done+perStep, n)
		err := pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, deptStep, done+1, to); err != nil {
				return err
			}
			_, err := tx.Exec(ctx, empStep, done+1, to)
			return err
		})
		if err != nil {
			return fmt.Errorf("insert departments %d to %d: %w", done+1, to, err)
		}
		done = to
		report(Progress{done, n})
	}
	if _, err := db.Exec(ctx, "analyze dept, emp"); err != nil {
		return fmt.Errorf("analyze the tables: %w", err)
	}
	return nil
}

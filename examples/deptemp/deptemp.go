package deptemp

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strconv"

	"github.com/skerrydb/skerry"
	"github.com/skerrydb/skerry/cache"
	"github.com/skerrydb/skerry/cache/postgres"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/web"
)

// Query selects departments by number, as text and JSON.
const Query = `
	select d.id::text, json_build_object('id', d.id, 'name', d.name, 'city', d.city, 'employees', (
		select json_agg(json_build_object('no', e.no, 'name', e.name, 'job', e.job, 'email', e.email, 'phone', e.phone, 'salary', e.salary, 'hired', e.hired) order by e.no)
		from emp e where e.dept_id = d.id))
	from dept d where d.id = any ($1::bigint[])`

// gather is how many departments one query loads.
const gather = 50

// Options configure the application.
type Options struct {
	URL   string // of the database with the tables; "" is $DEPTEMP_POSTGRES
	Cache cache.Options
}

// Application returns the web application, for cli.App.Web.
func Application(o Options) func(s *skerry.Services) (http.Handler, error) {
	return func(s *skerry.Services) (http.Handler, error) {
		if o.URL == "" {
			o.URL = os.Getenv("DEPTEMP_POSTGRES")
		}
		if o.URL == "" {
			return nil, engine.Errorf(engine.CodeInvalid, "deptemp: DEPTEMP_POSTGRES must be the URL of the database with the departments")
		}
		departments, err := open(s, o)
		if err != nil {
			return nil, err
		}
		app, err := web.New(s.Web)
		if err != nil {
			return nil, err
		}
		app.Cached("/dept/{id}", departments, web.CachedOptions{Key: department})
		app.Get("/", func(c *web.Context) error {
			n := departments.Stats()
			return c.Text(http.StatusOK, fmt.Sprintf("Departments are at /dept/1, /dept/2 and so on.\n\n%d reads from memory, %d from disk, %d departments loaded, %d changes.\n",
				n.MemoryHits, n.DiskHits, n.Loaded, n.Invalidations))
		})
		return app, nil
	}
}

// open opens the cache of departments. Logical replication tells it what other programs change.
func open(s *skerry.Services, o Options) (*cache.Cache, error) {
	pool, err := postgres.NewPool(context.Background(), o.URL, postgres.PoolOptions{})
	if err != nil {
		return nil, err
	}
	s.OnStop(func(context.Context) error { pool.Close(); return nil })
	c := o.Cache
	c.Name, c.Gather = "departments", gather
	if c.Source, err = postgres.Query(postgres.QueryOptions{Pool: pool, SQL: Query, Valid: postgres.Integer, Logger: s.Web.Logger}); err != nil {
		return nil, err
	}
	slot := "" // without a disk tier, there is nothing that must stay warm over a restart
	if c.Dir != "" {
		slot, c.Identity = "deptemp", "deptemp"
	}
	c.Feed, err = postgres.Replication(postgres.ReplicationOptions{
		URL: o.URL, Slot: slot, Publication: "deptemp", Create: true, Logger: s.Web.Logger,
		Tables: []postgres.Table{{Name: "dept", Columns: []string{"id"}}, {Name: "emp", Columns: []string{"dept_id"}}},
	})
	if err != nil {
		return nil, err
	}
	return s.Cache(c)
}

// department returns the key of a request: the number in its path, in its only form.
func department(c *web.Context) (string, error) {
	id := c.Request.PathValue("id")
	if n, err := strconv.ParseInt(id, 10, 64); err != nil || n < 1 || strconv.FormatInt(n, 10) != id {
		return "", engine.Errorf(engine.CodeInvalid, "%.30q is not the number of a department", id)
	}
	return id, nil
}

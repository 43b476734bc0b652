package skerry

import (
	"strings"

	"github.com/skerrydb/skerry/series"
	"github.com/skerrydb/skerry/web/api"
	"github.com/skerrydb/skerry/web/timeseries"
)

func (s *Server) openSeries() (c capability, err error) {
	c = capability{name: "series", errors: series.Catalog()}
	db, err := series.New(s.eng, series.Options{Feed: s.services.Feed, Logger: s.o.Logger})
	if err != nil {
		s.services.Series = series.Unavailable(err)
		if len(s.o.Series) > 0 {
			return c, err
		}
		return c, s.without("time series", err)
	}
	for _, of := range s.o.Series {
		if _, err := db.Use(of); err != nil {
			return c, err
		}
	}
	s.services.Series = db
	face := timeseries.New(db)
	for _, r := range face.Routes() {
		if strings.Contains(r.Path, "{") { // Below serves it.
			c.routes = append(c.routes, api.Route{Methods: r.Method, Path: r.Path, Text: r.Text})
			continue
		}
		c.routes = append(c.routes, api.Route{Methods: r.Methods(), Path: r.Path, Handle: r.Handle, MaxBody: r.MaxBody, Text: r.Text})
	}
	c.routes = append(c.routes, api.Route{Methods: "GET, HEAD, DELETE", Path: timeseries.Below + "{path}", Handle: face.ServeBelow})
	c.run, c.metrics = db.Run, db.Metrics
	return c, nil
}

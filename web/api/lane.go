package api

import "github.com/skerrydb/skerry/web/lane"

// LaneRoutes returns the routes that a lane.Server may answer in front of ServeHTTP: keys, and calls of
// procedures.
func (f *Face) LaneRoutes() []lane.Route {
	a, conditions := f.app, []string{"Idempotency-Key", "If-Match", "If-None-Match"}
	const key = dbPath + "{key}"
	return []lane.Route{
		{Methods: "GET, HEAD", Path: dbPath, Headers: conditions, Fast: a.web.Fast("GET", key, a.fastGet)},
		{Methods: "PUT, POST", Path: dbPath, Headers: conditions, Fast: a.web.Fast("PUT", key, a.fastSet)},
		{Methods: "DELETE", Path: dbPath, Headers: conditions},
		{Methods: "GET, HEAD, POST", Path: callPath, Headers: conditions[:1]},
	}
}

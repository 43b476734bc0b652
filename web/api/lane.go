package api

import "github.com/skerrydb/skerry/web/lane"

// LaneRoutes returns the routes that a lane.Server may answer in front of ServeHTTP: keys, and calls of
// procedures.
func (f *Face) LaneRoutes() []lane.Route {
	conditions := []string{"Idempotency-Key", "If-Match", "If-None-Match"}
	return []lane.Route{
		{Methods: "GET, HEAD, PUT, POST, DELETE", Path: dbPath, Headers: conditions},
		{Methods: "GET, HEAD, POST", Path: callPath, Headers: conditions[:1]},
	}
}

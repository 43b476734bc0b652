package api

import (
	"github.com/skerrydb/skerry/web/lane"
	"github.com/skerrydb/skerry/web/relay"
)

// laneHeaders are the header fields of a request for a key that has conditions.
var laneHeaders = []string{"Idempotency-Key", "If-Match", "If-None-Match"}

// LaneRoutes returns the routes that a lane.Server may answer in front of ServeHTTP: keys, and calls of
// procedures.
func (f *Face) LaneRoutes() []lane.Route {
	a := f.app
	const key = dbPath + "{key}"
	get := a.web.Fast("GET", key, func(x *lane.Fast) int { return a.fastGet(x, a.admitted(x)) })
	set := a.web.Fast("PUT", key, func(x *lane.Fast) int { return a.fastSet(x, a.admitted(x)) })
	return keyRoutes(get, set)
}

// NodeLaneRoutes returns the routes that a lane.Server may answer in front of NodeHandler.
func (f *Face) NodeLaneRoutes() []lane.Route {
	a := f.app
	get := a.web.NodeFast(func(x *lane.Fast) int { return a.fastGet(x, true) })
	set := a.web.NodeFast(func(x *lane.Fast) int { return a.fastSet(x, true) })
	list := keyRoutes(get, set)
	for i := range list {
		list[i].Ignored = []string{relay.ForwardedFor}
	}
	return list
}

func keyRoutes(get, set func(x *lane.Fast) bool) []lane.Route {
	return []lane.Route{
		{Methods: "GET, HEAD", Path: dbPath, Headers: laneHeaders, Fast: get},
		{Methods: "PUT, POST", Path: dbPath, Headers: laneHeaders, Fast: set},
		{Methods: "DELETE", Path: dbPath, Headers: laneHeaders},
		{Methods: "GET, HEAD, POST", Path: callPath, Headers: laneHeaders[:1]},
	}
}

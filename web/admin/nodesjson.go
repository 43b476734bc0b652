package admin

import (
	"net/http"
	"time"

	"github.com/skerrydb/skerry/web"
)

// nodeJSON is a node in the response of ServeNodes. What is unknown is left out.
type nodeJSON struct {
	ID       uint64     `json:"id"`
	Answered *time.Time `json:"answered,omitempty"`     // when it last reported what follows Error
	Silent   *time.Time `json:"silent_since,omitempty"` // it does not answer now
	Error    string     `json:"error,omitempty"`        // why

	Version string     `json:"version,omitempty"`
	Up      float64    `json:"up_seconds,omitempty"`
	Memory  float64    `json:"resident_bytes,omitempty"`
	Data    int64      `json:"data_folder_bytes,omitempty"`
	Free    uint64     `json:"disk_free_bytes,omitempty"`
	Size    uint64     `json:"disk_bytes,omitempty"`
	Expires *time.Time `json:"certificate_expires,omitempty"`
	Behind  *uint64    `json:"behind_entries,omitempty"` // as the leader last reported
}

// ServeNodes serves GET /nodes on the operator's port: what this node knows of all nodes of its cluster.
func (a *Admin) ServeNodes(c *web.Context) error {
	a.poll.forPage(c)
	known, _, _ := a.poll.all()
	s := a.o.Cluster.State()
	lead := known[s.Leader]
	all := []nodeJSON{}
	for _, n := range s.Nodes {
		k := known[n.ID]
		f := k.facts
		j := nodeJSON{ID: n.ID, Error: k.why, Version: f.Build, Up: f.Up, Memory: f.Memory, Data: f.Data, Free: f.Free, Size: f.Size,
			Answered: present(k.at), Silent: present(k.failing), Expires: present(f.Expires)}
		if p, ok := lead.facts.peer(n.ID); ok {
			j.Behind = &p.Behind
		}
		all = append(all, j)
	}
	return c.JSON(http.StatusOK, map[string]any{"self": s.Self, "leader": s.Leader, "nodes": all})
}

// present returns a time in UTC, or nil if it is zero.
func present(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

package skerry

import (
	"context"
	"log/slog"
	"time"

	"github.com/skerrydb/skerry/engine"
)

// RunWork runs one background function as a Server does.
func RunWork(cluster engine.Cluster, log *slog.Logger, leaderOnly bool, fn func(context.Context) error) (stop func(grace time.Duration)) {
	h := &hooks{work: []work{{"test", leaderOnly, fn}}}
	return h.background(cluster, log)
}

// Errors returns the error catalogs of all capabilities.
func (s *Server) Errors() [][]engine.Meaning { return s.errors }

package redis

import (
	"slices"
	"testing"

	"github.com/skerrydb/skerry/ci/redisserver"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/enginetest"
)

// TestContract runs the conformance suite on one primary; what needs a short history, with one.
func TestContract(t *testing.T) {
	s := redisserver.Start(t)
	short := []string{"changes/truncated", "changes/edge-of-the-history", "changes/trimmed-under-readers"}
	contract(t, s, Options{}, enginetest.Options{Only: func(name string) bool { return !slices.Contains(short, name) }})
	contract(t, s, Options{HistoryBytes: 32 << 10}, enginetest.Options{
		History: 1000, Only: func(name string) bool { return slices.Contains(short, name) },
	})
}

func contract(t *testing.T, s *redisserver.Server, o Options, suite enginetest.Options) {
	var prefix string
	again := func(t enginetest.T) engine.Engine { return open(t, at(Scheme, s, prefix), o) }
	suite.Reopen, suite.Second = again, again
	suite.Cut = func(enginetest.T) { s.Do(t, "CLIENT", "KILL", "TYPE", "normal") }
	suite.Steps = 400
	enginetest.Run(enginetest.Adapt(t), func(t enginetest.T) engine.Engine {
		prefix = newPrefix()
		return again(t)
	}, suite)
}

// TestContractCluster runs the suite on a cluster of three nodes.
func TestContractCluster(t *testing.T) {
	nodes := redisserver.Cluster(t, 3)
	var prefix string
	again := func(t enginetest.T) engine.Engine { return open(t, at(SchemeCluster, nodes[0], prefix), Options{}) }
	enginetest.Run(enginetest.Adapt(t), func(t enginetest.T) engine.Engine {
		prefix = newPrefix()
		return again(t)
	}, enginetest.Options{Reopen: again, Second: again, Steps: 400, Cut: func(enginetest.T) {
		for _, s := range nodes {
			s.Do(t, "CLIENT", "KILL", "TYPE", "normal")
		}
	}})
}

package redisserver

import (
	"strings"
	"testing"

	"github.com/skerrydb/skerry/ci/eventually"
)

// TestServer checks that data survive a kill.
func TestServer(t *testing.T) {
	s := Start(t, "--maxclients", "77")
	s.Do(t, "SET", "a", "1")
	s.Kill(t)
	s.Restart(t)
	if got := s.Do(t, "GET", "a"); got != "1" {
		t.Errorf("after a kill: %q", got)
	}
	if got := s.Do(t, "CONFIG", "GET", "maxclients"); got != "2" { // the length of the list
		t.Errorf("CONFIG GET returns %s", got)
	}
}

// TestCluster checks that a cluster has all slots.
func TestCluster(t *testing.T) {
	all := Cluster(t, 3)
	if got := all[2].Do(t, "CLUSTER", "KEYSLOT", "{x}"); got == "" {
		t.Error("no slot")
	}
}

// TestReplica checks that a replica takes over.
func TestReplica(t *testing.T) {
	all := Cluster(t, 3)
	r := Replica(t, all, all[1])
	r.Do(t, "CLUSTER", "FAILOVER")
	eventually.True(t, "the replica is a primary", func() bool { return strings.Contains(r.Do(t, "INFO", "replication"), "role:master") })
}

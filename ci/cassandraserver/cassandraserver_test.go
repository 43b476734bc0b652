package cassandraserver

import "testing"

// TestServer starts, kills and restarts a node.
func TestServer(t *testing.T) {
	s := Start(t)
	s.Kill(t)
	if s.serves() {
		t.Error("a node that was killed serves")
	}
	s.Restart(t, "commitlog_sync: periodic", "commitlog_sync_period: 10000ms")
}

// TestCluster checks that the nodes of a cluster know each other.
func TestCluster(t *testing.T) {
	if testing.Short() {
		t.Skip("three nodes take a while")
	}
	for _, s := range Cluster(t, 3) {
		if s.sees() != 2 {
			t.Errorf("%s sees %d others, want 2", s.Addr(), s.sees())
		}
	}
}

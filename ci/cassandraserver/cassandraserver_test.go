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

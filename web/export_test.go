package web

import "time"

// CloseIdle closes idle connections to other nodes, so that the next request dials.
func (a *App) CloseIdle() { a.cluster.close() }

// WaitForLeader sets how long a request waits for a leader.
func (a *App) WaitForLeader(d time.Duration) { a.cluster.router.Patience = d }

// WaitForPosition sets how long a read waits for a position.
func (a *App) WaitForPosition(d time.Duration) { a.cluster.behind = d }

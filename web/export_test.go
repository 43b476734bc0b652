package web

import "time"

// CloseIdle closes connections to other nodes that nobody uses, so that the next
// request dials.
func (a *App) CloseIdle() { a.cluster.close() }

// WaitForLeader sets how long a request for the leader waits for one.
func (a *App) WaitForLeader(d time.Duration) { a.cluster.router.Patience = d }

// WaitForPosition sets how long a read waits for a position.
func (a *App) WaitForPosition(d time.Duration) { a.cluster.behind = d }

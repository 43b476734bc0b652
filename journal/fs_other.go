//go:build !linux

package journal

// Sync is fsync, the only call on these systems that syncs everything.
func (o *osFile) Sync() error { return o.f.Sync() }

//go:build !linux

package journal

// Sync is fsync, which on these systems is the only call that does it all.
func (o *osFile) Sync() error { return o.f.Sync() }

//go:build !linux && !darwin

package admin

// diskSpace returns 0: this system does not tell.
func diskSpace(string) (free, size uint64) { return 0, 0 }

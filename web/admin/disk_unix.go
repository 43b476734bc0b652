//go:build linux || darwin

package admin

import "syscall"

// diskSpace returns the bytes of a folder's file system that the server may still use, and all of them; 0 if the system does not
// tell.
func diskSpace(dir string) (free, size uint64) {
	var s syscall.Statfs_t
	if syscall.Statfs(dir, &s) != nil {
		return 0, 0
	}
	unit := uint64(s.Bsize) // its type differs between systems
	return s.Bavail * unit, s.Blocks * unit
}

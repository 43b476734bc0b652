//go:build !linux

package verb

import "os"

// isTerminal reports whether f is a device for characters other than the null device.
func isTerminal(f *os.File, _ uintptr) bool {
	info, err := f.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return false
	}
	null, err := os.Stat(os.DevNull)
	return err != nil || !os.SameFile(info, null)
}

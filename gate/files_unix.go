//go:build unix

package gate

import "syscall"

// Files returns how many file descriptors, including connections, this process may have
// open. The Go runtime has raised the soft limit to the hard limit.
func Files() (int, error) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0, err
	}
	return int(min(uint64(limit.Cur), manyFiles)), nil //nolint:unconvert // signed on some systems
}

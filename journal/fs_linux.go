package journal

import (
	"os"
	"syscall"
)

// Sync is fdatasync. It syncs the content and the length but not the times, whose
// update would cost a second write.
func (o *osFile) Sync() error {
	for {
		if err := syscall.Fdatasync(int(o.fd)); err != syscall.EINTR {
			return os.NewSyscallError("fdatasync", err)
		}
	}
}

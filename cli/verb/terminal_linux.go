package verb

import (
	"os"
	"syscall"
	"unsafe"
)

// isTerminal asks for the settings that only terminals have. Source: ioctl_tty(2), TCGETS.
func isTerminal(_ *os.File, fd uintptr) bool {
	var settings syscall.Termios
	_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, fd, syscall.TCGETS, uintptr(unsafe.Pointer(&settings)))
	return errno == 0
}

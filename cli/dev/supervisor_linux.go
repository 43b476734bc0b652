package dev

import (
	"os/exec"
	"syscall"
)

// parentDeath makes the kernel end a child when the thread that started it ends. The child gets its own
// process group, so that Ctrl-C in a terminal reaches only its parent, which stops it.
func parentDeath(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM, Setpgid: true}
}

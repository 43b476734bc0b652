package dev

import (
	"os/exec"
	"syscall"
)

// parentDeath has the kernel end a child when the thread that starts it is gone.
// The child is in a process group of its own, so that Ctrl-C at a terminal
// reaches only its parent, which stops it.
func parentDeath(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM, Setpgid: true}
}

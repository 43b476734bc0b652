//go:build unix && !linux

package dev

import (
	"os/exec"
	"syscall"
)

// parentDeath gives a child its own process group, so that Ctrl-C in a terminal reaches only its parent, which
// stops it. When the parent is gone, the child's standard input ends.
func parentDeath(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
}

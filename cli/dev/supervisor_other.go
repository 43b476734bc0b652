//go:build unix && !linux

package dev

import (
	"os/exec"
	"syscall"
)

// parentDeath puts a child into a process group of its own, so that Ctrl-C at a
// terminal reaches only its parent, which stops it. When the parent is gone the
// child's standard input ends.
func parentDeath(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
}

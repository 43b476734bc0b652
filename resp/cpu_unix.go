//go:build unix

package resp

import (
	"errors"
	"fmt"
	"syscall"
)

// infoCPU returns the CPU time of the process and its finished children.
func infoCPU(*call) ([]string, error) {
	var self, children syscall.Rusage
	if err := errors.Join(syscall.Getrusage(syscall.RUSAGE_SELF, &self), syscall.Getrusage(syscall.RUSAGE_CHILDREN, &children)); err != nil {
		return nil, fmt.Errorf("read CPU times: %w", err)
	}
	seconds := func(t syscall.Timeval) string { return fmt.Sprintf("%f", float64(t.Nano())/1e9) }
	var l lines
	l.add("used_cpu_sys", seconds(self.Stime))
	l.add("used_cpu_user", seconds(self.Utime))
	l.add("used_cpu_sys_children", seconds(children.Stime))
	l.add("used_cpu_user_children", seconds(children.Utime))
	return l, nil
}

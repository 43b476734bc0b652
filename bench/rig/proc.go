package rig

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// clockTick is the unit of CPU time in /proc/PID/stat (USER_HZ, 100 on Linux; proc(5)).
const clockTick = 10 * time.Millisecond

// CPUTime returns the user and system time that a process has used.
func CPUTime(pid int) (time.Duration, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	f := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:]) // f[0] is field 3 of proc(5)
	user, err1 := strconv.ParseInt(string(f[11]), 10, 64)
	system, err2 := strconv.ParseInt(string(f[12]), 10, 64)
	if err1 != nil || err2 != nil {
		return 0, fmt.Errorf("cannot read CPU time of process %d", pid)
	}
	return time.Duration(user+system) * clockTick, nil
}

// Quiet waits until the processes do next to nothing: garbage collectors and compilers go on after the last request. It
// gives up after a limit, and reports whether they were quiet.
func Quiet(pids []int, limit time.Duration) (bool, error) {
	const window, most = 300 * time.Millisecond, 2 * clockTick
	var last time.Duration
	for from, first := time.Now(), true; ; first = false {
		var sum time.Duration
		for _, pid := range pids {
			t, err := CPUTime(pid)
			if err != nil {
				return false, err
			}
			sum += t
		}
		if !first && sum-last <= most {
			return true, nil
		}
		if time.Since(from) > limit {
			return false, nil
		}
		last = sum
		time.Sleep(window)
	}
}

// CPUTree is CPUTime of a process and all its descendants, including ended ones: for servers of several
// processes.
func CPUTree(pid int) (time.Duration, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	f := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:]) // f[0] is field 3 of proc(5)
	var sum time.Duration
	for _, ticks := range f[11:15] { // its own, then of ended children; user and system
		n, err := strconv.ParseInt(string(ticks), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("cannot read CPU time of process %d", pid)
		}
		sum += time.Duration(n) * clockTick
	}
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	if err != nil {
		return 0, err
	}
	for word := range strings.FieldsSeq(string(children)) {
		child, err := strconv.Atoi(word)
		if err != nil {
			return 0, err
		}
		if used, err := CPUTree(child); err == nil { // it may have ended meanwhile
			sum += used
		}
	}
	return sum, nil
}

// OwnCPU returns the CPU time of this process, the load generator.
func OwnCPU() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic("BUG: getrusage: " + err.Error())
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// RSS returns the resident memory of a process in bytes.
func RSS(pid int) (int64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(b)) {
		if v, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kib, err := strconv.ParseInt(strings.Fields(v)[0], 10, 64)
			return kib << 10, err
		}
	}
	return 0, fmt.Errorf("process %d has no VmRSS", pid)
}

// MemAvailable returns the memory that programs can still use, in bytes; 0: unknown.
func MemAvailable() uint64 {
	b, _ := os.ReadFile("/proc/meminfo")
	for line := range strings.Lines(string(b)) {
		if v, ok := strings.CutPrefix(line, "MemAvailable:"); ok {
			kib, _ := strconv.ParseUint(strings.Fields(v)[0], 10, 64)
			return kib << 10
		}
	}
	return 0
}

const tmpfsMagic = 0x01021994 // statfs(2)

// OnDisk refuses a folder where fsync costs nothing.
func OnDisk(dir string) error {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return err
	}
	if s.Type == tmpfsMagic {
		return fmt.Errorf("%s is a tmpfs: give a folder on a disk with -dir", dir)
	}
	return nil
}

// barePeriod is how long one measurement of bare fdatasync takes.
const barePeriod = 700 * time.Millisecond

// BareSync returns the median time of one write of 160 bytes and fdatasync, both appended to a growing file
// and into a preallocated file.
func BareSync(dir string) (appending, allocated time.Duration, err error) {
	for i, p := range []*time.Duration{&appending, &allocated} {
		if *p, err = timeSync(filepath.Join(dir, fmt.Sprintf("bare-%d", i)), i == 1); err != nil {
			return 0, 0, err
		}
	}
	return appending, allocated, nil
}

func timeSync(path string, allocated bool) (time.Duration, error) {
	f, err := os.Create(path)
	if err != nil {
		return 0, err
	}
	defer os.Remove(path)
	defer f.Close()
	if allocated {
		if _, err := f.Write(make([]byte, 4<<20)); err != nil {
			return 0, err
		}
		if err := f.Sync(); err != nil {
			return 0, err
		}
	}
	record := make([]byte, 160)
	var took []time.Duration
	for begin := time.Now(); time.Since(begin) < barePeriod; {
		from := time.Now()
		if _, err := f.WriteAt(record, int64(len(took)*len(record))); err != nil {
			return 0, err
		}
		if err := syscall.Fdatasync(int(f.Fd())); err != nil {
			return 0, err
		}
		took = append(took, time.Since(from))
	}
	slices.Sort(took)
	return took[len(took)/2], nil
}

var commitID = regexp.MustCompile(`^[0-9a-f]{7,40}(-dirty)?$`)

// Machine describes the machine and the commit of the repository in the working folder, if there is one.
func Machine() string {
	cpu := "unknown CPU"
	if b, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(b)) {
			if name, v, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
				cpu = strings.TrimSpace(v)
				break
			}
		}
	}
	commit := ""
	if id := strings.TrimSpace(OutputLine("git", "describe", "--always", "--dirty", "--exclude=*", "--abbrev=12")); commitID.MatchString(id) {
		commit = ", commit " + id
	}
	return fmt.Sprintf("%s, %d cores, generator built with %s%s", cpu, runtime.NumCPU(), runtime.Version(), commit)
}

// LoadAverage returns the load average of the last 1, 5 and 15 minutes.
func LoadAverage() string {
	b, _ := os.ReadFile("/proc/loadavg")
	return strings.Join(strings.Fields(string(b))[:3], " ")
}

package serve

import (
	"bufio"
	"math"
	"os"
	"path"
	"strconv"
	"strings"
)

// fallbackMemory is assumed if the system does not report its memory.
const fallbackMemory = 2 << 30

// MemoryLimit returns how many bytes data may take: the setting, or half of the available memory.
func MemoryLimit(set int64) int64 {
	if set > 0 {
		return set
	}
	return max(machineMemory("/")/2, MinMemory)
}

// minInput is the least memory for commands of Redis clients that have not run yet: a command of the largest
// size always fits.
const minInput = 128 << 20

// inputBytes returns that memory, for data that may take limit bytes.
func inputBytes(data int64) int64 { return max(data/4, minInput) }

// processLimit is the garbage collector's memory limit for the whole process: nine tenths of the machine's
// memory or, if the data may take more than half of that memory, at least twice what the data may take.
func processLimit(machine, data int64) int64 {
	whole := machine / 10 * 9
	switch {
	case data > math.MaxInt64/2:
		return math.MaxInt64
	case data > machine/2:
		return max(whole, 2*data)
	}
	return whole
}

// machineMemory returns how many bytes this process may use: the machine's memory, or the control group's
// limit if that is lower. Sources: proc(5) MemTotal; the kernel's cgroup-v2 documentation, memory.max;
// cgroup-v1, memory.limit_in_bytes.
func machineMemory(root string) int64 {
	least := int64(math.MaxInt64)
	if n, ok := memTotal(path.Join(root, "proc/meminfo")); ok {
		least = n
	}
	for _, file := range groupLimits(root) {
		text, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		if n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil && n > 0 {
			least = min(least, n)
		}
	}
	if least == math.MaxInt64 {
		return fallbackMemory
	}
	return least
}

func memTotal(file string) (int64, bool) {
	f, err := os.Open(file)
	if err != nil {
		return 0, false
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) == 3 && fields[0] == "MemTotal:" && fields[2] == "kB" {
			n, err := strconv.ParseInt(fields[1], 10, 64)
			return n << 10, err == nil && n > 0
		}
	}
	return 0, false
}

// groupLimits returns the files with the limits of this process's control group and of all groups above it.
func groupLimits(root string) []string {
	v2, v1 := path.Join(root, "sys/fs/cgroup"), path.Join(root, "sys/fs/cgroup/memory")
	files := []string{path.Join(v2, "memory.max"), path.Join(v1, "memory.limit_in_bytes")}
	text, err := os.ReadFile(path.Join(root, "proc/self/cgroup"))
	if err != nil {
		return files
	}
	for line := range strings.Lines(string(text)) {
		part := strings.SplitN(strings.TrimSpace(line), ":", 3) // number:controllers:path
		if len(part) != 3 {
			continue
		}
		for dir := path.Clean("/" + part[2]); dir != "/"; dir = path.Dir(dir) {
			switch {
			case part[1] == "":
				files = append(files, path.Join(v2, dir, "memory.max"))
			case strings.Contains(part[1], "memory"):
				files = append(files, path.Join(v1, dir, "memory.limit_in_bytes"))
			}
		}
	}
	return files
}

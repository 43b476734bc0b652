package serve

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"
	"unsafe"
)

// madvCollapse exists since Linux 6.1. Source: madvise(2), MADV_COLLAPSE.
const madvCollapse = 25

// mostHugePage is the largest page that is used. The process waits for memory while the kernel copies a page. With 64 KiB
// to a small page, arm64 has huge pages of 512 MiB.
const mostHugePage = 32 << 20

func kernelPages() *hugePages {
	page := hugePageSize("/sys/kernel/mm/transparent_hugepage")
	if page == 0 {
		return &hugePages{}
	}
	resident := make([]byte, page/uintptr(os.Getpagesize()))
	return &hugePages{
		page: page,
		maps: func() ([]byte, error) { return os.ReadFile("/proc/self/maps") },
		whole: func(s span) bool {
			_, _, errno := syscall.Syscall(syscall.SYS_MINCORE, s.from, s.to-s.from, uintptr(unsafe.Pointer(&resident[0])))
			return errno == 0 && !slices.ContainsFunc(resident, func(b byte) bool { return b&1 == 0 })
		},
		collapse: func(s span) error {
			if _, _, errno := syscall.Syscall(syscall.SYS_MADVISE, s.from, s.to-s.from, madvCollapse); errno != 0 {
				return errno
			}
			return nil
		},
		now: time.Now,
	}
}

// hugePageSize returns the size of a huge page, 0 if the system allows none or they are too large. Source: the kernel's
// Documentation/admin-guide/mm/transhuge.rst.
func hugePageSize(folder string) uintptr {
	enabled, err := os.ReadFile(filepath.Join(folder, "enabled"))
	if err != nil || bytes.Contains(enabled, []byte("[never]")) {
		return 0
	}
	text, err := os.ReadFile(filepath.Join(folder, "hpage_pmd_size"))
	if err != nil {
		return 0
	}
	size := uintptr(0)
	if _, err := fmt.Sscan(string(text), &size); err != nil || size > mostHugePage {
		return 0
	}
	return size
}

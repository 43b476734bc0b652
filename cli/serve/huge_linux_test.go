package serve

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/skerrydb/skerry/cli/verb"
)

// hugeBytes returns how much of the mapping with an address is in huge pages, and whether the mapping is advised to
// have them. Source: proc_pid_smaps(5).
func hugeBytes(t *testing.T, address uintptr) (n int64, advised bool) {
	t.Helper()
	text, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		t.Fatal(err)
	}
	inside := false
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		var m span
		if found, _ := fmt.Sscanf(lines.Text(), "%x-%x ", &m.from, &m.to); found == 2 {
			inside = m.from <= address && address < m.to
		}
		if !inside {
			continue
		}
		_, _ = fmt.Sscanf(lines.Text(), "AnonHugePages: %d kB", &n)
		if flags, ok := strings.CutPrefix(lines.Text(), "VmFlags:"); ok {
			return n << 10, strings.Contains(flags+" ", " hg ")
		}
	}
	t.Fatalf("no mapping has %x", address)
	return 0, false
}

// thisKernel returns the huge pages of this process, nil if the system has none.
func thisKernel(t *testing.T) *hugePages {
	h := (&Options{hugePages: "auto"}).newHugePages()
	if h.page == 0 {
		t.Log("this system allows no huge pages")
		return nil
	}
	return h
}

// TestHugePagesOfThisProcess is not parallel: the heap is the process's.
func TestHugePagesOfThisProcess(t *testing.T) {
	block := make([]byte, 16*mib)
	at := reflect.ValueOf(block).Pointer()
	for i := range block {
		block[i] = byte(i >> 12)
	}
	before, _ := hugeBytes(t, at)
	(&Options{hugePages: verb.Off}).newHugePages().run(t.Context()) // returns
	if n, _ := hugeBytes(t, at); n > before {
		t.Errorf("off, and %d bytes are in huge pages", n-before)
	}
	h := thisKernel(t)
	if h == nil {
		return
	}
	for h.step(leastHuge) != hugeEvery {
	}
	if n, advised := hugeBytes(t, at); h.some && (n < 12*mib || advised) {
		t.Errorf("%d bytes are in huge pages, advised: %v", n, advised)
	}
	for i := range block {
		if block[i] != byte(i>>12) {
			t.Fatalf("byte %d has changed", i)
		}
	}
	runtime.KeepAlive(block)
}

// TestWhole: a page with a hole is left alone.
func TestWhole(t *testing.T) {
	h := thisKernel(t)
	if h == nil {
		return
	}
	memory, err := syscall.Mmap(-1, 0, 3*int(h.page), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Munmap(memory) }()
	begin := reflect.ValueOf(memory).Pointer()
	from := (begin + h.page - 1) / h.page * h.page
	page, small := span{from, from + h.page}, uintptr(os.Getpagesize())
	if h.whole(page) {
		t.Error("unused memory is whole")
	}
	for at := from; at < page.to; at += small {
		memory[at-begin] = 1
	}
	if err := syscall.Madvise(memory[from-begin:from-begin+small], syscall.MADV_DONTNEED); err != nil {
		t.Fatal(err)
	}
	if h.whole(page) {
		t.Error("a page with a hole is whole")
	}
	memory[from-begin] = 1
	if !h.whole(page) {
		t.Error("a page that is used is not whole")
	}
	before, _ := hugeBytes(t, from)
	if err := h.collapse(page); err != nil {
		t.Log("this kernel cannot collapse memory:", err)
	} else if n, _ := hugeBytes(t, from); n != before+int64(h.page) {
		t.Errorf("%d bytes are in huge pages after collapsing one, %d before", n, before)
	}
}

func TestHugePageSize(t *testing.T) {
	for _, c := range []struct {
		enabled, size string
		want          uintptr
	}{
		{"always [madvise] never\n", "2097152\n", 2 * mib},
		{"[always] madvise never\n", "33554432\n", 32 * mib},
		{"always [madvise] never\n", "536870912\n", 0},
		{"always madvise [never]\n", "2097152\n", 0},
		{"[always] madvise never\n", "", 0},
		{"[always] madvise never\n", "many\n", 0},
		{"", "2097152\n", 0},
	} {
		dir := t.TempDir()
		for name, text := range map[string]string{"enabled": c.enabled, "hpage_pmd_size": c.size} {
			if text == "" {
				continue
			}
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if got := hugePageSize(dir); got != c.want {
			t.Errorf("%q, %q: %d, want %d", c.enabled, c.size, got, c.want)
		}
	}
}

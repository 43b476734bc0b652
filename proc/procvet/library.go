package procvet

import (
	"go/types"
	"strings"
)

// libraryRule returns the rule that a function or method of the standard library breaks. A
// package is listed here if any part of it has an effect outside memory or blocks.
// Everything else is assumed to be clean.
func libraryRule(fn *types.Func) (Kind, bool) {
	recv, name := receiverName(fn), fn.Name()
	switch fn.Pkg().Path() {
	case "time":
		return timeRule(recv, name)
	case "sync":
		return syncRule(recv, name)
	case "fmt":
		switch name {
		case "Print", "Printf", "Println":
			return KindLog, true
		case "Scan", "Scanf", "Scanln":
			return KindIO, true
		}
	case "log":
		return logRule(recv, name)
	case "log/slog":
		return slogRule(recv, name)
	case "math/rand", "math/rand/v2":
		// Methods of a *rand.Rand are allowed: tx.Rand() returns one. KindWrite covers
		// generators stored outside the function.
		if recv == "" && !strings.HasPrefix(name, "New") {
			return KindRandom, true
		}
	case "crypto/rand":
		return KindRandom, true
	case "os":
		return KindIO, !pureOS(recv, name)
	case "net":
		return KindIO, !pureNet(recv, name)
	case "net/http":
		return KindIO, !pureHTTP(recv, name)
	case "io/ioutil":
		return KindIO, name != "ReadAll" && name != "NopCloser"
	case "database/sql":
		switch recv {
		case "DB", "Tx", "Conn", "Stmt", "Rows", "Row":
			return KindIO, true
		}
		return KindIO, recv == "" && (name == "Open" || name == "OpenDB")
	case "path/filepath":
		switch name {
		case "Walk", "WalkDir", "Glob", "EvalSymlinks", "Abs":
			return KindIO, true
		}
	case "runtime":
		switch name {
		case "GC", "Gosched", "Goexit":
			return KindWait, true
		}
	case "os/exec", "os/signal", "os/user", "syscall", "net/rpc", "net/rpc/jsonrpc", "net/smtp",
		"net/http/httptest", "net/http/httputil", "net/http/cgi", "net/http/fcgi", "log/syslog", "plugin",
		"crypto/tls", "debug/buildinfo", "internal/poll":
		return KindIO, true
	}
	return "", false
}

func timeRule(recv, name string) (Kind, bool) {
	switch {
	case recv == "" && (name == "Now" || name == "Since" || name == "Until"):
		return KindClock, true
	case recv == "" && (name == "Sleep" || name == "After" || name == "AfterFunc" || name == "Tick" || name == "NewTimer" || name == "NewTicker"):
		return KindWait, true
	case recv == "Timer" && name == "Reset", recv == "Ticker" && name == "Reset":
		return KindWait, true
	case recv == "" && name == "LoadLocation":
		return KindIO, true
	}
	return "", false
}

func syncRule(recv, name string) (Kind, bool) {
	switch recv {
	case "Mutex", "RWMutex", "Locker":
		// One finding for a pair of Lock and Unlock.
		return KindWait, name == "Lock" || name == "RLock" || name == "TryLock" || name == "TryRLock"
	case "WaitGroup":
		if name == "Go" {
			return KindGoroutine, true
		}
		return KindWait, name == "Wait"
	case "Cond":
		return KindWait, name == "Wait"
	}
	return "", false
}

func logRule(recv, name string) (Kind, bool) {
	if recv != "" && recv != "Logger" {
		return "", false
	}
	for _, p := range []string{"Print", "Fatal", "Panic", "Output"} {
		if strings.HasPrefix(name, p) {
			return KindLog, true
		}
	}
	return "", false
}

func slogRule(recv, name string) (Kind, bool) {
	if recv != "" && recv != "Logger" {
		return "", false
	}
	switch strings.TrimSuffix(name, "Context") {
	case "Debug", "Info", "Warn", "Error", "Log", "LogAttrs":
		return KindLog, true
	}
	return "", false
}

// pureOS reports whether a function of os only computes.
func pureOS(recv, name string) bool {
	switch recv {
	case "":
		switch name {
		case "IsExist", "IsNotExist", "IsPermission", "IsTimeout", "IsPathSeparator", "Expand", "NewSyscallError", "Getpagesize":
			return true
		}
	case "SyscallError", "LinkError", "PathError", "FileMode", "FileInfo", "DirEntry":
		return true
	}
	return false
}

// pureNet reports whether a function of net only computes.
func pureNet(recv, name string) bool {
	switch recv {
	case "":
		switch name {
		case "ParseIP", "ParseCIDR", "ParseMAC", "IPv4", "IPv4Mask", "CIDRMask", "JoinHostPort", "SplitHostPort",
			"TCPAddrFromAddrPort", "UDPAddrFromAddrPort":
			return true
		}
	case "IP", "IPMask", "IPNet", "HardwareAddr", "Flags", "Addr", "IPAddr", "TCPAddr", "UDPAddr", "UnixAddr",
		"Error", "AddrError", "DNSError", "OpError", "ParseError", "InvalidAddrError", "UnknownNetworkError":
		return true
	}
	return false
}

// pureHTTP reports whether a function of net/http only computes.
func pureHTTP(recv, name string) bool {
	switch recv {
	case "":
		switch name {
		case "StatusText", "CanonicalHeaderKey", "DetectContentType", "ParseTime", "ParseCookie", "ParseSetCookie",
			"ParseHTTPVersion", "NewRequest", "NewRequestWithContext":
			return true
		}
	case "Header", "Cookie", "SameSite", "ProtocolError", "MaxBytesError", "ConnState":
		return true
	case "Request":
		switch name {
		case "Cookie", "Cookies", "CookiesNamed", "PathValue", "UserAgent", "Referer", "BasicAuth", "ProtoAtLeast", "Context":
			return true
		}
	}
	return false
}

// libraryVar returns the rule that using a variable of the standard library breaks.
func libraryVar(v *types.Var) (Kind, bool) {
	switch v.Pkg().Path() + "." + v.Name() {
	case "os.Stdin", "os.Args":
		return KindIO, true
	case "os.Stdout", "os.Stderr":
		return KindLog, true
	case "crypto/rand.Reader":
		return KindRandom, true
	}
	return "", false
}

// libraryWrites returns which argument a function of the standard library writes through; 0
// is the receiver of a method.
func libraryWrites(fn *types.Func) (index int, ok bool) {
	recv, name := receiverName(fn), fn.Name()
	switch fn.Pkg().Path() {
	case "sync/atomic":
		return 0, !strings.HasPrefix(name, "Load")
	case "sync":
		return 0, recv == "Map" && name != "Load" && name != "Range"
	case "math/rand", "math/rand/v2":
		return 0, recv != ""
	case "bytes":
		return 0, recv == "Buffer" && (strings.HasPrefix(name, "Write") || strings.HasPrefix(name, "Read") || name == "Reset" || name == "Truncate" || name == "Next")
	case "strings":
		return 0, recv == "Builder" && (strings.HasPrefix(name, "Write") || name == "Reset")
	case "container/list":
		return 0, recv == "List" && (strings.HasPrefix(name, "Push") || strings.HasPrefix(name, "Insert") || strings.HasPrefix(name, "Move") || name == "Remove" || name == "Init")
	case "container/heap":
		return 0, true
	case "encoding/json", "encoding/xml", "encoding/asn1":
		return 1, name == "Unmarshal" && recv == ""
	case "sort":
		return 0, recv == "" && !strings.HasPrefix(name, "Search") && !strings.HasSuffix(name, "AreSorted") && !strings.HasSuffix(name, "IsSorted") &&
			name != "Reverse" && name != "Find"
	case "slices":
		return 0, strings.HasPrefix(name, "Sort") && !strings.HasPrefix(name, "Sorted") || name == "Reverse"
	case "maps":
		return 0, name == "Copy" || name == "DeleteFunc" || name == "Insert"
	}
	return 0, false
}

//go:build !failpoints

package embedded

// failpoint reports whether the named fault is injected. Without the build tag
// failpoints it never is, and the compiler removes the fault.
func failpoint(string) bool { return false }

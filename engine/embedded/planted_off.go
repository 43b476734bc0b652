//go:build !planted

package embedded

// planted reports whether a fault is to be made on purpose. In a real program it
// never is, and the compiler leaves the fault out.
func planted(string) bool { return false }

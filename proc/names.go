package proc

import "fmt"

// checkName rejects invalid names of procedures. A name matches [A-Za-z][A-Za-z0-9_.-]*, so
// that it needs no quotes in a command, a path or a program.
func checkName(name string) error {
	if name == "" {
		return fmt.Errorf("its name is empty")
	}
	if len(name) > MaxNameBytes {
		return fmt.Errorf("its name has %d bytes, over the limit of %d", len(name), MaxNameBytes)
	}
	for i, c := range name {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if !letter && (i == 0 || !(c >= '0' && c <= '9' || c == '_' || c == '.' || c == '-')) {
			return fmt.Errorf("its name has %q; names start with a letter and contain letters, digits and _ . -", c)
		}
	}
	return nil
}

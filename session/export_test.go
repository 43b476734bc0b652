package session

import "fmt"

// Reencode parses b as a record and encodes its parts again, or returns the parse error.
func Reencode(b []byte) ([]byte, error) {
	var r record
	if err := parseRecord(&r, b); err != nil {
		return nil, err
	}
	out := appendRecord(nil, &r)
	for rest := r.values; len(rest) > 0; {
		name, raw, after, ok := nextValue(rest)
		if _, found := value(r.values, string(name)); !ok || !found {
			return nil, fmt.Errorf("value %q is not found", name)
		}
		out, rest = appendValue(out, string(name), raw), after
	}
	return out, nil
}

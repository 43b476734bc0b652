package view

import "hash/fnv"

// Fingerprint is a number for what is in all files now, for development: it is
// another one, as good as always, when a file has changed, also one that does not
// parse. Without Options.Reload it is always the same.
func (v *Views) Fingerprint() uint64 {
	h := fnv.New64a()
	s, err := v.current()
	if err != nil {
		h.Write([]byte(err.Error()))
		return h.Sum64()
	}
	for _, name := range s.names {
		f := s.files[name]
		h.Write([]byte(f.path + "\x00" + f.raw + "\x00"))
	}
	return h.Sum64()
}

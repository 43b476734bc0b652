package view

import "hash/fnv"

// Fingerprint returns a hash of the contents of all files, for development. It changes, with near certainty,
// when any file changes, even one that does not parse. Without Options.Reload it is constant.
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

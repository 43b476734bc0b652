package spill

import (
	"cmp"
	"slices"
)

// Use is what the references of one state use of a file.
type Use struct {
	Values int64
	Bytes  int64 // of their records
	End    int64 // of the last record
}

// Uses counts references by file. It is counted from all references of a state, never
// kept up to date by differences, so it cannot drift.
type Uses map[uint32]Use

// Add counts the reference of key.
func (u Uses) Add(key []byte, r Ref) {
	use, n := u[r.File], r.bytes(key)
	use.Values++
	use.Bytes += n
	use.End = max(use.End, int64(r.Off)+n)
	u[r.File] = use
}

// Total sums up all files.
func (u Uses) Total() (t Use) {
	for _, use := range u {
		t.Values += use.Values
		t.Bytes += use.Bytes
	}
	return t
}

// smallFile is the size below which a file is worth merging with others.
const smallFile = MaxFileBytes / 8

// Unused returns the files of s to which no state can refer any more: u counts the
// references of a state that was taken with s, and all later states come from it. Files
// that get more values are not among them.
func (s *Set) Unused(u Uses) (files []uint32) {
	if s == nil {
		return nil
	}
	for n := range s.files {
		if _, used := u[n]; !used && !s.open[n] {
			files = append(files, n)
		}
	}
	slices.Sort(files)
	return files
}

// Plan returns the files to compact, the emptiest first: those of which u uses less than
// half, and small files if there are at least two of them. Files that get more values
// and those that Unused returns are not among them.
func (s *Set) Plan(u Uses) (files []uint32) {
	if s == nil {
		return nil
	}
	var small []uint32
	for n, v := range s.files {
		use, size := u[n], v.size.Load()
		switch {
		case use.Values == 0 || s.open[n]:
		case 2*use.Bytes < size:
			files = append(files, n)
		case size < smallFile:
			small = append(small, n)
		}
	}
	if len(small) > 1 {
		files = append(files, small...)
	}
	slices.SortFunc(files, func(a, b uint32) int {
		return cmp.Or(cmp.Compare(u[a].Bytes, u[b].Bytes), cmp.Compare(a, b))
	})
	return files
}

package btree

import "slices"

// Stats are the bytes of a Pairs.
type Stats struct {
	// Allocated are the bytes that the allocator gave for everything that the tree reaches,
	// with the rounding to its size classes. It includes what the tree shares with clones.
	Allocated int64

	Records int64 // keys, inline values and headers of records
	Dead    int64 // overwritten and deleted records
	Room    int64 // room for records to come, and what size classes add to it
	Outside int64 // allocated for values over 1,024 bytes
}

// Memory returns Stats.Allocated.
func (p *Pairs) Memory() int64 { return p.stats.Allocated }

// Stats returns the tree's use of memory in constant time. For each leaf, Dead and Room
// together are at most Records plus 264 bytes.
func (p *Pairs) Stats() Stats { return p.stats }

// add counts a leaf, or with sign -1 stops to count it.
func (s *Stats) add(lf *leaf, sign int64) {
	out := int64(lf.out.allocated())
	s.Allocated += sign * (leafBytes + int64(len(lf.blob)) + out)
	s.Records += sign * int64(lf.live)
	s.Dead += sign * int64(lf.used-blobHead-lf.live)
	s.Room += sign * int64(len(lf.blob)-int(lf.used))
	s.Outside += sign * out
}

// join adds the bytes of another part of the same tree.
func (s *Stats) join(t *Stats) {
	s.Allocated += t.Allocated
	s.Records += t.Records
	s.Dead += t.Dead
	s.Room += t.Room
	s.Outside += t.Outside
}

// addInner is add for an inner node.
func (s *Stats) addInner(in *inner, sign int64) {
	s.Allocated += sign * (innerBytes + separatorsBytes + int64(cap(in.seps.blob)))
}

// The bytes that the allocator gives for nodes and their parts.
const (
	leafBytes       = 640
	innerBytes      = 288
	separatorsBytes = 416
	outsideBytes    = 48
	sliceBytes      = 24
)

const (
	pageBytes     = 8 << 10 // larger objects than the last size class have whole pages
	pointerHeader = 8       // of an object with pointers
	bitmapBytes   = 512     // objects up to this size have no such header
)

// sizeClasses are the sizes to which Go's allocator rounds those of small objects. A test
// compares them with the runtime's.
var sizeClasses = [...]uint16{
	16, 24, 32, 48, 64, 80, 96, 112, 128, 144, 160, 176, 192, 208, 224, 240, 256, 288, 320, 352,
	384, 416, 448, 480, 512, 576, 640, 704, 768, 896, 1024, 1152, 1280, 1408, 1536, 1792, 2048,
	2304, 2688, 3072, 3200, 3456, 4096, 4864, 5376, 6144, 6528, 6784, 6912, 8192, 9472, 9728,
	10240, 10880, 12288, 13568, 14336, 16384, 18432, 19072, 20480, 21760, 24576, 27264, 28672, 32768,
}

// sizeClass returns what the allocator gives for an object of n bytes without pointers.
func sizeClass(n int) int {
	if n > int(sizeClasses[len(sizeClasses)-1]) {
		return (n + pageBytes - 1) &^ (pageBytes - 1)
	}
	i, _ := slices.BinarySearch(sizeClasses[:], uint16(n))
	return int(sizeClasses[i])
}

// roomyClass returns the largest size that the allocator gives whole from need to
// need+room, or what it gives for need if there is none.
func roomyClass(need, room int) int {
	if need+room > int(sizeClasses[len(sizeClasses)-1]) {
		return max((need+room)&^(pageBytes-1), sizeClass(need))
	}
	i, exact := slices.BinarySearch(sizeClasses[:], uint16(need+room))
	if !exact && i > 0 {
		i--
	}
	return max(int(sizeClasses[i]), sizeClass(need))
}

// headerOf returns the bytes that the allocator adds to an object of n bytes with pointers.
func headerOf(n int) int {
	if n > bitmapBytes {
		return pointerHeader
	}
	return 0
}

// makeBlob returns all bytes of an allocation for need bytes and up to room more, no byte
// of which is lost to rounding.
func makeBlob(need, room int) []byte {
	b := slices.Grow([]byte(nil), roomyClass(need, room))
	return b[:cap(b)]
}

package chunk

import "encoding/binary"

// appendPacked appends the low bits of the codes, width of each, from the lowest bit up.
func appendPacked(dst []byte, codes []uint64, width int) []byte {
	if width == 0 {
		return dst
	}
	w, mask := uint(width), ^uint64(0)>>(64-uint(width))
	var acc uint64
	var n uint
	for _, c := range codes {
		c &= mask
		acc |= c << n
		if n += w; n >= 64 {
			dst = binary.LittleEndian.AppendUint64(dst, acc)
			n -= 64
			acc = c >> (w - n)
		}
	}
	for ; n > 0; n -= min(n, 8) {
		dst = append(dst, byte(acc))
		acc >>= 8
	}
	return dst
}

// unpack decodes the codes from data, which has as many bytes as they take.
func unpack(codes []int64, data []byte, width int) {
	if width == 0 || len(data) == 0 {
		clear(codes)
		return
	}
	w, mask := uint(width), ^uint64(0)>>(64-uint(width))
	if w > 57 {
		unpackWide(codes, data, w, mask)
		return
	}
	bit, i := uint(0), 0
	for ; i < len(codes); i++ {
		at := bit >> 3
		if at+8 > uint(len(data)) {
			break
		}
		codes[i] = int64(binary.LittleEndian.Uint64(data[at:at+8:at+8]) >> (bit & 7) & mask)
		bit += w
	}
	var tail [16]byte // the last codes end within 8 bytes of the end
	if i < len(codes) {
		copy(tail[:], data[bit>>3:])
		bit &= 7
	}
	for ; i < len(codes); i++ {
		codes[i] = int64(binary.LittleEndian.Uint64(tail[bit>>3:]) >> (bit & 7) & mask)
		bit += w
	}
}

// unpackWide decodes codes that may spread over nine bytes.
func unpackWide(codes []int64, data []byte, w uint, mask uint64) {
	bit := uint(0)
	for i := range codes {
		var b [16]byte
		copy(b[:9], data[bit>>3:])
		c := binary.LittleEndian.Uint64(b[:]) >> (bit & 7)
		c |= uint64(b[8]) << (64 - bit&7)
		codes[i] = int64(c & mask)
		bit += w
	}
}

package resp

import "sync"

// The compressed format of liblzf, http://oldhome.schmorp.de/marc/liblzf.html. A control
// byte below 32 is the number of following literal bytes minus one. Any other control byte
// is a reference to earlier output: three bits of length minus two (seven means that
// another byte follows) and thirteen bits of distance minus one.
const (
	lzfHashBits = 16
	lzfMaxPlain = 1 << 5
	lzfMaxBack  = 1 << 13
	lzfMaxLen   = 1<<8 + 1<<3
)

// lzfTable stores the last position of each hash of three bytes.
type lzfTable [1 << lzfHashBits]int32

// packer compresses strings. All connections share its tables.
type packer struct{ tables sync.Pool }

// lzfHash is the hash of liblzf. The same matches are found, so DUMP returns the same bytes
// as Redis.
func lzfHash(b []byte) uint32 {
	h := uint32(b[0])<<16 | uint32(b[1])<<8 | uint32(b[2])
	return (h>>(24-lzfHashBits) - h*5) & (1<<lzfHashBits - 1)
}

// pack appends the compressed form of in to out. It returns false if that may be longer
// than limit. It gives up at exactly the same point as liblzf, which is slightly early.
func (p *packer) pack(out, in []byte, limit int) ([]byte, bool) {
	table, ok := p.tables.Get().(*lzfTable)
	if !ok {
		table = new(lzfTable)
	}
	clear(table[:])
	defer p.tables.Put(table)
	start := len(out)
	plain := 0 // start of the literal bytes that are not written yet
	// used returns the length of the output after writing the literal bytes, with a control
	// byte for those that may follow.
	used := func(i int) int {
		n := i - plain
		return len(out) - start + n + n/lzfMaxPlain + 1
	}
	end := len(in) - 2
	i := 0
	for i < end {
		slot := &table[lzfHash(in[i:])]
		ref := int(*slot)
		*slot = int32(i)
		back := i - ref - 1
		if ref == 0 || back >= lzfMaxBack || in[ref] != in[i] || in[ref+1] != in[i+1] || in[ref+2] != in[i+2] {
			if used(i) >= limit {
				return out[:start], false
			}
			i++
			continue
		}
		full := used(i) + 4
		if (i-plain)%lzfMaxPlain == 0 {
			full-- // no control byte is needed here
		}
		if full >= limit {
			return out[:start], false
		}
		out = appendPlain(out, in[plain:i])
		n := matchLen(in, ref, i)
		if n-2 < 7 {
			out = append(out, byte(back>>8|(n-2)<<5), byte(back))
		} else {
			out = append(out, byte(back>>8|7<<5), byte(n-2-7), byte(back))
		}
		i += n
		plain = i
		if i >= end {
			break
		}
		table[lzfHash(in[i-2:])] = int32(i - 2)
		table[lzfHash(in[i-1:])] = int32(i - 1)
	}
	if used(i)+3 > limit {
		return out[:start], false
	}
	return appendPlain(out, in[plain:]), true
}

// matchLen returns how many bytes at i match those at ref, which are at least three.
func matchLen(in []byte, ref, i int) int {
	most := min(len(in)-i-2, lzfMaxLen)
	n := 3
	for n < most && in[ref+n] == in[i+n] {
		n++
	}
	return n
}

func appendPlain(out, b []byte) []byte {
	for len(b) > 0 {
		n := min(len(b), lzfMaxPlain)
		out = append(append(out, byte(n-1)), b[:n]...)
		b = b[n:]
	}
	return out
}

// unpackLZF decompresses b to size bytes.
func unpackLZF(b []byte, size int) ([]byte, error) {
	var out []byte // grows with the actual data
	for i := 0; i < len(b); {
		c := int(b[i])
		i++
		if c < 32 {
			if i+c+1 > len(b) || len(out)+c+1 > size {
				return nil, errDumpFormat
			}
			out = append(out, b[i:i+c+1]...)
			i += c + 1
			continue
		}
		n := c >> 5
		if n == 7 {
			if i == len(b) {
				return nil, errDumpFormat
			}
			n += int(b[i])
			i++
		}
		if i == len(b) {
			return nil, errDumpFormat
		}
		from := len(out) - (c&31)<<8 - int(b[i]) - 1
		i++
		if n += 2; from < 0 || len(out)+n > size {
			return nil, errDumpFormat
		}
		for k := range n { // source and destination may overlap
			out = append(out, out[from+k])
		}
	}
	if len(out) != size {
		return nil, errDumpFormat
	}
	return out, nil
}

package journal

import (
	"bytes"
	"encoding/binary"
	"testing"
)

// FuzzFrame puts any payload behind right checksums: the reader accepts it only
// if its records fill it, and never reads beyond it.
func FuzzFrame(f *testing.F) {
	f.Add([]byte{}, uint32(0), uint16(0))
	f.Add([]byte{0, 0, 0, 0}, uint32(1), uint16(40))
	f.Add([]byte{1, 0, 0, 0, 7, 0, 0, 0, 0}, uint32(2), uint16(0))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff}, uint32(1), uint16(0))
	f.Add([]byte{0, 0, 0, 0}, uint32(1<<32-1), uint16(0))
	f.Fuzz(func(t *testing.T, payload []byte, count uint32, cut uint16) {
		h := segHead{id: 3, first: 1, salt: 99}
		h.setSeed()
		b := append(make([]byte, frameHead), payload...)
		b = append(b, make([]byte, roundUp(int64(len(b)), frameAlign)-int64(len(b)))...)
		var scratch [frameHead]byte
		putFrameHead(b, h.seed, headerBytes, len(payload), 1, count, &scratch)
		file := append(h.encode(), b...)
		file = file[:max(headerBytes, len(file)-int(cut))]
		sc, err := openScanner(bytes.NewReader(file), "f", int64(len(file)))
		if err != nil {
			t.Fatal(err)
		}
		got, why, err := sc.frame(headerBytes)
		if err != nil {
			t.Fatal(err)
		}
		if want := cut == 0 && countRecords(payload) == int64(count); (why == "") != want {
			t.Fatalf("payload %x, %d records, %d bytes cut: %q", payload, count, cut, why)
		}
		if why == "" && !bytes.Equal(got.payload, payload) {
			t.Fatalf("payload is %x, want %x", got.payload, payload)
		}
	})
}

// countRecords is the number of records that fill b, or -1.
func countRecords(b []byte) int64 {
	n := int64(0)
	for r := bytes.NewReader(b); r.Len() > 0; n++ {
		var size uint32
		if binary.Read(r, binary.LittleEndian, &size) != nil || int64(size) > int64(r.Len()) {
			return -1
		}
		if _, err := r.Seek(int64(size), 1); err != nil {
			return -1
		}
	}
	return n
}

// TestFormat compares the format with fixed bytes, whose checksums a separate
// implementation computed: any change makes old files unreadable.
func TestFormat(t *testing.T) {
	h := segHead{id: 0x0102030405060708, first: 9, reset: true, salt: 0x1112131415161718}
	h.setSeed()
	b := h.encode()
	want := "SKERRYLG" + "\x01\x00\x00\x00" + "\xa4\x9c\xa7\xa8" +
		"\x08\x07\x06\x05\x04\x03\x02\x01" + "\x09\x00\x00\x00\x00\x00\x00\x00" +
		"\x01\x00\x00\x00" + "\x00\x00\x00\x00" + "\x18\x17\x16\x15\x14\x13\x12\x11"
	if got := string(b[:len(want)]); got != want {
		t.Errorf("segment header is\n%x, want\n%x", got, want)
	}
	got, err := decodeSegHead(b, "f")
	if err != nil || got != h {
		t.Errorf("decoded %+v, want %+v, %v", got, h, err)
	}
	f := append(make([]byte, frameHead), "\x01\x00\x00\x00a"...)
	f = append(f, make([]byte, 64-len(f))...)
	var scratch [frameHead]byte
	putFrameHead(f, h.seed, 4096, 5, 9, 1, &scratch)
	want = "SFRM" + "\x3d\x41\xa8\xf9" + "\x05\x00\x00\x00" + "\x01\x00\x00\x00" +
		"\x09\x00\x00\x00\x00\x00\x00\x00" + "\xa9\x1b\x6a\x09" + "\x00\x00\x00\x00"
	if got := string(f[:len(want)]); got != want {
		t.Errorf("frame header is\n%x, want\n%x", got, want)
	}
}

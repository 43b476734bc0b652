package graphbinary_test

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/skerrydb/skerry/graph/graphbinary"
	"github.com/skerrydb/skerry/graph/message"
	"github.com/skerrydb/skerry/graph/value"
)

// TestMalformed: an error names the offset and what was expected there.
func TestMalformed(t *testing.T) {
	for _, c := range []struct {
		name, hex string
		offset    int
		want      string
	}{
		{"nothing", "", 0, "a type"},
		{"no flag", "01", 1, "a value flag"},
		{"flag", "01 02", 1, "a value flag of 0 or 1, found 0x2"},
		{"null with value", "fe 00", 1, "null"},
		{"unknown type", "7f 00 00", 0, "a type of value, found 0x7f"},
		{"local date", "84 00 000007e8 02 1d", 0, "a type of value, found 0x84"},
		{"custom type", "00 00000001 78", 0, "custom types are not supported"},
		{"lambda", "1d 00 00000000 00000000 ffffffff", 0, "lambdas are not supported; use a traversal"},
		{"short int", "01 00 0000", 2, "an int of 4 bytes, 2 are left"},
		{"rest", "01 00 00000001 00", 6, "the end, 1 bytes are left"},
		{"string too long", "03 00 00000004 616263", 2, "a length of a string, found 4 with 3 bytes left"},
		{"string of negative length", "03 00 ffffffff", 2, "found -1"},
		{"string of 2 GiB", "03 00 7fffffff 61", 2, "a length of a string"},
		{"string not UTF-8", "03 00 00000001 ff", 6, "a string in UTF-8"},
		{"list too long", "09 00 7fffffff fe01", 2, "a length of a list"},
		{"map too long", "0a 00 00000002 fe01fe01", 2, "a length of a map"},
		{"boolean", "27 00 02", 2, "a boolean"},
		{"constant", "20 00 03 00 00000001 78", 2, `a constant of T, found "x"`},
		{"constant of another type", "20 00 01 00 00000001", 2, "a string that is a constant of T"},
		{"char", "80 00 ff", 2, "a character"},
		{"month", "88 00 000007e8 0d 01 0000000000000000 00000000", 0, "a date and time"},
		{"day", "88 00 000007e7 02 1d 0000000000000000 00000000", 0, "a day of the month, found 29"},
		{"nanoseconds", "81 00 0000000000000001 3b9aca00", 10, "nanoseconds"},
		{"bulk negative", "2a 00 00000001 fe01 ffffffffffffffff", 8, "a bulk"},
		{"path of other labels", "0e 00 09 00 00000000 09 00 00000001 fe 01", 2, "labels for 1 values, found 0"},
		{"traversal as key", "0a 00 00000001 15 00 00000000 00000000 fe 01", 6, "a type of value, found 0x15"},
		{"traversal within a set", "0b 00 00000001 09 00 00000001 15 00 00000000 00000000", 12, "a type of value"},
		{"cardinality without a value", "15 00 00000000 00000001 00000019 43617264696e616c69747956616c756554726176657273616c 00000001 03 00 00000006 73696e676c65", 0, "a cardinality and a value"},
		{"graph without the vertex", "10 00 00000000 00000001 fe 01 00000000 fe 01 fe 01 fe 01 fe 01 fe 01 fe 01", 16, "the id of a vertex"},
	} {
		codec().Malformed(t, c.name, bytesOf(t, c.hex), c.offset, c.want)
	}
	if q, err := graphbinary.DecodeRequest(bytesOf(t, "82")); err == nil || q.Args != nil {
		t.Errorf("version 0x82 is read as %+v, %v", q, err)
	}
	q, err := graphbinary.DecodeRequest(bytesOf(t, "81 01000000000000000000000000000000 00000001 6f 00000000 00000001 1d 00"))
	if err == nil || q.ID != (value.UUID{1}) || q.Op != "o" || q.Args != nil {
		t.Errorf("a request with malformed args is read as %+v, %v", q, err)
	}
}

// nested returns lists within lists.
func nested(depth int) []byte {
	b := bytes.Repeat([]byte{0x09, 0, 0, 0, 0, 1}, depth-1)
	return append(b, 0x09, 0, 0, 0, 0, 0)
}

// trees returns a tree with trees below it.
func trees(depth int) []byte {
	b := append([]byte{0x2b, 0}, bytes.Repeat([]byte{0, 0, 0, 1, 0xfe, 1}, depth-1)...)
	return append(b, 0, 0, 0, 0)
}

// sets returns sets within sets.
func sets(depth int) []byte {
	b := bytes.Repeat([]byte{0x0b, 0, 0, 0, 0, 1}, depth)
	return append(b, 0xfe, 1)
}

// ofBytes returns a value of a type with a length and as many bytes.
func ofBytes(head string, t *testing.T, n int) []byte {
	b := binary.BigEndian.AppendUint32(bytesOf(t, head), uint32(n))
	return append(b, bytes.Repeat([]byte{1}, n)...)
}

// TestLimits: what is at a limit is read, and what is beyond it is not.
func TestLimits(t *testing.T) {
	nulls := func(n int) []byte {
		b := binary.BigEndian.AppendUint32([]byte{0x09, 0}, uint32(n))
		return append(b, bytes.Repeat([]byte{0xfe, 1}, n)...)
	}
	bulk := func(n int) []byte {
		b := []byte{0x2a, 0, 0, 0, 0, 2, 0xfe, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0x27, 0, 1}
		return binary.BigEndian.AppendUint64(b, uint64(n-1))
	}
	scale := func(n int) []byte {
		return append(binary.BigEndian.AppendUint32([]byte{0x22, 0}, uint32(int32(n))), 0, 0, 0, 1, 1)
	}
	year := func(n int) []byte {
		b := binary.BigEndian.AppendUint32([]byte{0x88, 0}, uint32(int32(n)))
		return append(b, bytesOf(t, "01 01 0000000000000000 00000000")...)
	}
	for _, c := range []struct {
		name  string
		limit int
		of    func(n int) []byte
	}{
		{"depth", message.MaxDepth, nested},
		{"depth of sets", message.MaxKeyDepth, sets},
		{"depth of trees", message.MaxDepth - 1, trees},
		{"values", message.MaxValues - 1, nulls},
		{"bytes of an integer", message.MaxBigBytes, func(n int) []byte { return ofBytes("23 00", t, n) }},
		{"bytes of a decimal number", message.MaxBigBytes, func(n int) []byte { return ofBytes("22 00 00000000", t, n) }},
		{"scale", message.MaxScale, scale},
		{"negative scale", message.MaxScale, func(n int) []byte { return scale(-n) }},
		{"year", message.MaxYear, year},
		{"negative year", message.MaxYear, func(n int) []byte { return year(-n) }},
		{"seconds", 31_556_889_864_403_199, func(n int) []byte {
			return append(binary.BigEndian.AppendUint64([]byte{0x83, 0}, uint64(n)), 0, 0, 0, 0)
		}},
		{"offset from UTC", message.MaxZone, func(n int) []byte {
			return binary.BigEndian.AppendUint32(bytesOf(t, "88 00 000007e8 01 01 0000000000000000"), uint32(n))
		}},
		{"bulk", message.MaxValues, bulk},
	} {
		codec().Limit(t, c.name, c.limit, c.of)
	}
	var deep any
	for range message.MaxDepth {
		deep = value.List{deep}
	}
	if _, err := graphbinary.Append(nil, deep); err == nil {
		t.Error("a list that is too deep is written")
	}
}

// TestAllocations: encoding results into a buffer that has room allocates nothing.
func TestAllocations(t *testing.T) {
	v := &value.Vertex{ID: int64(1), Label: "person", Properties: []*value.VertexProperty{{ID: int64(2), Key: "name", Val: "marko"}}}
	buf := make([]byte, 0, 1024)
	var val any = message.Traverser{Bulk: 1, Val: v}
	if n := testing.AllocsPerRun(100, func() { buf, _ = graphbinary.AppendItem(buf[:0], 0, val) }); n > 2 {
		t.Errorf("%v allocations for a vertex", n)
	}
}

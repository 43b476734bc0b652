package postgres

import (
	"encoding/binary"
	"slices"
	"strings"
	"testing"

	"github.com/skerrydb/skerry/engine"
)

// Messages of a stream, as pgoutput writes them.
func beginOf(xid uint32) []byte {
	return binary.BigEndian.AppendUint32(append([]byte{'B'}, make([]byte, 16)...), xid)
}

func commitOf(end uint64) []byte {
	b := append([]byte{'C', 0}, make([]byte, 8)...)
	b = binary.BigEndian.AppendUint64(b, end)
	return append(b, make([]byte, 8)...)
}

func relationOf(id uint32, name string, columns ...string) []byte {
	b := binary.BigEndian.AppendUint32([]byte{'R'}, id)
	b = append(b, "public\x00"+name+"\x00d"...)
	b = binary.BigEndian.AppendUint16(b, uint16(len(columns)))
	for _, c := range columns {
		key, plain := strings.CutPrefix(c, "*")
		flag := byte(0)
		if plain {
			flag = 1
		}
		b = append(append(b, flag), key+"\x00"...)
		b = append(b, make([]byte, 8)...)
	}
	return b
}

// rowOf encodes values; "" is null, "?" is one that was not sent.
func rowOf(values ...string) []byte {
	b := binary.BigEndian.AppendUint16(nil, uint16(len(values)))
	for _, v := range values {
		switch v {
		case "":
			b = append(b, 'n')
		case "?":
			b = append(b, 'u')
		default:
			b = binary.BigEndian.AppendUint32(append(b, 't'), uint32(len(v)))
			b = append(b, v...)
		}
	}
	return b
}

func changeOf(kind byte, id uint32, rows ...string) []byte {
	b := binary.BigEndian.AppendUint32([]byte{kind}, id)
	for _, r := range rows {
		b = append(b, r...)
	}
	return b
}

// TestAssemble: what becomes of the messages of a transaction.
func TestAssemble(t *testing.T) {
	t.Parallel()
	tables := []Table{
		{Name: "public.dept", Columns: []string{"id"}},
		{Name: "public.emp", Columns: []string{"dept", "no"}, Keys: func(v []string) []string { return []string{v[0], v[0] + "-" + v[1]} }},
	}
	dept, emp, other := relationOf(1, "dept", "*id", "name"), relationOf(2, "emp", "name", "*no", "*dept"), relationOf(3, "other", "*id")
	for name, c := range map[string]struct {
		messages [][]byte
		keys     string
		all      string
	}{
		"insert":         {[][]byte{dept, changeOf('I', 1, "N", string(rowOf("7", "x")))}, "7", ""},
		"update":         {[][]byte{dept, changeOf('U', 1, "N", string(rowOf("7", "?")))}, "7", ""},
		"new key":        {[][]byte{dept, changeOf('U', 1, "K", string(rowOf("7", "")), "N", string(rowOf("8", "x")))}, "7 8", ""},
		"whole old row":  {[][]byte{dept, changeOf('U', 1, "O", string(rowOf("7", "a")), "N", string(rowOf("7", "b")))}, "7", ""},
		"long key":       {[][]byte{dept, changeOf('U', 1, "O", string(rowOf("7", "a")), "N", string(rowOf("?", "b")))}, "7", ""},
		"delete":         {[][]byte{dept, changeOf('D', 1, "K", string(rowOf("7", "")))}, "7", ""},
		"two columns":    {[][]byte{emp, changeOf('I', 2, "N", string(rowOf("Ann", "3", "7")))}, "7 7-3", ""},
		"repeated":       {[][]byte{dept, changeOf('I', 1, "N", string(rowOf("7", ""))), changeOf('D', 1, "K", string(rowOf("7", "")))}, "7", ""},
		"other table":    {[][]byte{other, changeOf('I', 3, "N", string(rowOf("7")))}, "", ""},
		"not sent":       {[][]byte{dept, changeOf('U', 1, "N", string(rowOf("?", "x")))}, "", "does not have its columns"},
		"short row":      {[][]byte{dept, changeOf('I', 1, "N", string(rowOf()))}, "", "does not have its columns"},
		"truncate":       {[][]byte{dept, binary.BigEndian.AppendUint32([]byte{'T', 0, 0, 0, 1, 0}, 1)}, "", "truncated"},
		"truncate other": {[][]byte{other, binary.BigEndian.AppendUint32([]byte{'T', 0, 0, 0, 1, 0}, 3)}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAssembler(tables)
			var got *change
			for _, b := range slices.Concat([][]byte{beginOf(5)}, c.messages, [][]byte{commitOf(99)}) {
				m, err := decode(b)
				if err != nil {
					t.Fatalf("%q: %v", b, err)
				}
				if got, err = a.take(&m); err != nil {
					t.Fatal(err)
				}
			}
			got.compact()
			if got == nil || got.xid != 5 || got.end != 99 || strings.Join(got.keys, " ") != c.keys || !strings.Contains(got.all, c.all) || (got.all == "") != (c.all == "") {
				t.Errorf("%+v", got)
			}
		})
	}
}

// TestAssembleTooMuch: a transaction with very many keys empties the cache instead.
func TestAssembleTooMuch(t *testing.T) {
	t.Parallel()
	n := 0
	a := newAssembler([]Table{{Name: "public.dept", Columns: []string{"id"}, Keys: func([]string) []string { n++; return make([]string, MaxChangedKeys/4) }}})
	var last *change
	for _, b := range [][]byte{beginOf(1), relationOf(1, "dept", "*id"), changeOf('I', 1, "N", string(rowOf("1"))), changeOf('I', 1, "N", string(rowOf("2"))), changeOf('I', 1, "N", string(rowOf("3"))),
		changeOf('I', 1, "N", string(rowOf("4"))), changeOf('I', 1, "N", string(rowOf("5"))), changeOf('I', 1, "N", string(rowOf("6"))), commitOf(1)} {
		m, err := decode(b)
		if err != nil {
			t.Fatal(err)
		}
		if last, err = a.take(&m); err != nil {
			t.Fatal(err)
		}
	}
	if last.all == "" || last.keys != nil || n != 5 {
		t.Errorf("%d keys, %q, %d rows were looked at", len(last.keys), last.all, n)
	}
}

// TestAssembleWrong: a stream that makes no sense, and a table whose columns are no longer reported, are errors.
func TestAssembleWrong(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		messages [][]byte
		code     engine.Code
	}{
		"outside":      {[][]byte{relationOf(1, "dept", "*id"), changeOf('I', 1, "N", string(rowOf("7")))}, engine.CodeInternal},
		"undescribed":  {[][]byte{beginOf(1), changeOf('I', 1, "N", string(rowOf("7")))}, engine.CodeInternal},
		"no identity":  {[][]byte{relationOf(1, "dept", "id")}, engine.CodeUnsupported},
		"column gone":  {[][]byte{relationOf(1, "dept", "*other")}, engine.CodeUnsupported},
		"commit twice": {[][]byte{beginOf(1), commitOf(1), commitOf(2)}, engine.CodeInternal},
	} {
		a := newAssembler([]Table{{Name: "public.dept", Columns: []string{"id"}}})
		var err error
		for _, b := range c.messages {
			m, derr := decode(b)
			if derr != nil {
				t.Fatal(derr)
			}
			if _, err = a.take(&m); err != nil {
				break
			}
		}
		if engine.CodeOf(err) != c.code {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzDecode: no bytes make the decoder or the assembler panic.
func FuzzDecode(f *testing.F) {
	for _, b := range [][]byte{beginOf(1), commitOf(1), relationOf(1, "dept", "*id", "name"), changeOf('I', 1, "N", string(rowOf("7", "x"))),
		changeOf('U', 1, "K", string(rowOf("7", "")), "N", string(rowOf("8", "?"))), changeOf('D', 1, "O", string(rowOf("7", ""))), {'T', 0, 0, 0, 1, 0, 0, 0, 0, 1}, {'O'}, {'X'}, {}} {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		a := newAssembler([]Table{{Name: "public.dept", Columns: []string{"id"}}})
		for _, x := range [][]byte{beginOf(1), relationOf(1, "dept", "*id", "name"), b, commitOf(2)} {
			m, err := decode(x)
			if err != nil {
				return
			}
			if _, err := a.take(&m); err != nil {
				return
			}
		}
	})
}

// TestSnapshot: which transactions a snapshot sees, also when the 32-bit ids of the stream have wrapped.
func TestSnapshot(t *testing.T) {
	t.Parallel()
	s, err := parseSnapshot("10:20:10,14,15")
	if err != nil {
		t.Fatal(err)
	}
	for xid, want := range map[uint64]bool{9: true, 10: false, 11: true, 14: false, 16: true, 19: true, 20: false, 21: false} {
		if s.sees(xid) != want {
			t.Errorf("it sees %d: %v", xid, !want)
		}
	}
	const wrap = 1 << 32
	for _, c := range []struct {
		xmax uint64
		xid  uint32
		want uint64
	}{{20, 19, 19}, {20, 25, 25}, {3*wrap + 20, 19, 3*wrap + 19}, {3*wrap + 5, wrap - 3, 3*wrap - 3}, {3*wrap - 3, 5, 3*wrap + 5}, {5, 1 << 30, 1 << 30}} {
		if got := (&snapshot{xmax: c.xmax}).full(c.xid); got != c.want {
			t.Errorf("before %d, %d is %d, want %d", c.xmax, c.xid, got, c.want)
		}
	}
	for _, bad := range []string{"", "1:2", "a:2:", "1:b:", "1:2:c", "1:2:3:4"} {
		if _, err := parseSnapshot(bad); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}

// TestLSN: LSNs are read and written.
func TestLSN(t *testing.T) {
	t.Parallel()
	if pos, err := parseLSN("16/B374D848"); err != nil || pos != 0x16B374D848 || formatLSN(pos) != "16/B374D848" {
		t.Errorf("%x, %v", uint64(pos), err)
	}
	for _, bad := range []string{"", "16", "x/1", "1/y", "1/123456789"} {
		if _, err := parseLSN(bad); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}

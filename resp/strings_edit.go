package resp

import (
	"math"
	"math/big"

	"github.com/skerrydb/skerry/decimal"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/kv"
)

func incrCmd(x *call) error { return add(x, 1) }

func decrCmd(x *call) error { return add(x, -1) }

func incrByCmd(x *call) error {
	n, ok := decimal.Parse(x.args[2])
	if !ok {
		return errNotInteger
	}
	return add(x, n)
}

func decrByCmd(x *call) error {
	n, ok := decimal.Parse(x.args[2])
	if !ok {
		return errNotInteger
	}
	if n == math.MinInt64 {
		return replyError("ERR decrement would overflow")
	}
	return add(x, -n)
}

func add(x *call, n int64) error {
	sum, err := x.tx.Add(x.args[1], n)
	if err != nil {
		return err
	}
	x.out.Int(sum)
	return nil
}

func incrByFloatCmd(x *call) error {
	e, ok, err := x.tx.Get(x.args[1])
	if err != nil {
		return err
	}
	sum := new(big.Float).SetPrec(longDoubleBits)
	if ok {
		if sum, ok = parseFloat(e.Val); !ok {
			return errNotFloat
		}
	}
	by, ok := parseFloat(x.args[2])
	if !ok {
		return errNotFloat
	}
	if sum.IsInf() || by.IsInf() {
		return errNaN
	}
	if sum.Add(sum, by); sum.MantExp(nil) > maxLongDoubleExp {
		return errNaN
	}
	text := appendFloat(nil, sum)
	if _, err := x.tx.Set(x.args[1], text, kv.SetOptions{KeepTTL: true, SkipOld: true, Mark: textMark(text)}); err != nil {
		return err
	}
	x.out.Bulk(text)
	return nil
}

func appendCmd(x *call) error {
	e, ok, err := x.tx.Get(x.args[1])
	if err != nil {
		return err
	}
	if len(e.Val)+len(x.args[2]) > kv.MaxValBytes {
		return errTooBig
	}
	val := append(append(x.scratch(), e.Val...), x.args[2]...)
	if !ok { // a new key, which Redis stores as SET does
		return x.replaceBy(val, 0)
	}
	return x.replaceBy(val, rawMark(val))
}

// scratch returns an empty buffer that belongs to the call until it returns.
func (x *call) scratch() []byte {
	return x.conn.tmp[:0]
}

// replaceBy sets the command's key to val, which may be the scratch buffer, keeps its
// expiry and replies with the length.
func (x *call) replaceBy(val []byte, mark uint8) error {
	x.conn.tmp = val
	if _, err := x.tx.Set(x.args[1], val, kv.SetOptions{KeepTTL: true, SkipOld: true, Mark: mark}); err != nil {
		return err
	}
	x.out.Int(int64(len(val)))
	return nil
}

func setRangeCmd(x *call) error {
	off, ok := decimal.Parse(x.args[2])
	switch {
	case !ok:
		return errNotInteger
	case off < 0:
		return replyError("ERR offset is out of range")
	}
	patch := x.args[3]
	e, _, err := x.tx.Get(x.args[1])
	if err != nil {
		return err
	}
	if len(patch) == 0 {
		x.out.Int(int64(len(e.Val)))
		return nil
	}
	if off > int64(kv.MaxValBytes-len(patch)) {
		return errTooBig
	}
	end := int(off) + len(patch)
	val := append(x.scratch(), e.Val...)
	for len(val) < end {
		val = append(val, make([]byte, end-len(val))...)
	}
	copy(val[off:], patch)
	return x.replaceBy(val, rawMark(val))
}

func getRangeCmd(x *call) error {
	from, ok := decimal.Parse(x.args[2])
	to, ok2 := decimal.Parse(x.args[3])
	if !ok || !ok2 {
		return errNotInteger
	}
	e, _, err := x.get(x.args[1])
	if err != nil {
		return err
	}
	n := int64(len(e.Val))
	if from < 0 && to < 0 && from > to {
		x.out.BulkString("")
		return nil
	}
	if from < 0 {
		from = max(0, from+n)
	}
	if to < 0 {
		to = max(0, to+n)
	}
	to = min(to, n-1)
	if from > to || n == 0 {
		x.out.BulkString("")
		return nil
	}
	x.out.Bulk(e.Val[from : to+1])
	return nil
}

// lcsOptions are the options of LCS.
type lcsOptions struct {
	length, index, withLen bool
	minLen                 int64
}

func (o *lcsOptions) parse(args [][]byte) error {
	for i := 0; i < len(args); i++ {
		switch a := args[i]; {
		case wordIs(a, "IDX"):
			o.index = true
		case wordIs(a, "LEN"):
			o.length = true
		case wordIs(a, "WITHMATCHLEN"):
			o.withLen = true
		case wordIs(a, "MINMATCHLEN") && i+1 < len(args):
			i++
			n, ok := decimal.Parse(args[i])
			if !ok {
				return errNotInteger
			}
			o.minLen = max(n, 0)
		default:
			return errSyntax
		}
	}
	if o.length && o.index {
		return replyError("ERR If you want both the length and indexes, please just use IDX.")
	}
	return nil
}

func lcsCmd(x *call) error {
	var o lcsOptions
	if err := o.parse(x.args[3:]); err != nil {
		return err
	}
	a, _, err := x.tx.Get(x.args[1])
	if err != nil {
		return err
	}
	b, _, err := x.tx.Get(x.args[2])
	if err != nil {
		return err
	}
	if cells := (len(a.Val) + 1) * (len(b.Val) + 1); cells > MaxLCSCells {
		return engine.Errorf(engine.CodeLimit, "LCS of strings with a product of lengths of %d is over the limit of %d", cells, MaxLCSCells)
	}
	table := newLCS(a.Val, b.Val)
	switch {
	case o.length:
		x.out.Int(int64(table.len()))
	case o.index:
		x.writeMatches(table, o)
	default:
		x.out.Bulk(table.text())
	}
	return nil
}

func (x *call) writeMatches(t *lcs, o lcsOptions) {
	matches := t.matches(int(o.minLen))
	x.out.Map(2)
	x.out.BulkString("matches")
	x.out.Array(len(matches))
	for _, m := range matches {
		if o.withLen {
			x.out.Array(3)
		} else {
			x.out.Array(2)
		}
		for _, from := range [...]int{m.a, m.b} {
			x.out.Array(2)
			x.out.Int(int64(from))
			x.out.Int(int64(from + m.n - 1))
		}
		if o.withLen {
			x.out.Int(int64(m.n))
		}
	}
	x.out.BulkString("len")
	x.out.Int(int64(t.len()))
}

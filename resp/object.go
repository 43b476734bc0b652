package resp

import (
	"time"

	"github.com/skerrydb/skerry/decimal"
	"github.com/skerrydb/skerry/kv"
)

func objectCommands() []command {
	sub := func(name string, run func(*call) error) command {
		return command{name: "object|" + name, arity: 3, kind: kindRead, flags: flagUntrack, keys: keyRange{2, 2, 1}, run: run}
	}
	return []command{
		sub("encoding", objectEncoding),
		sub("freq", objectFreq),
		sub("idletime", objectIdleTime),
		sub("refcount", objectRefCount),
		{name: "object|help", arity: 2, kind: kindPlain, run: helpCmd},
	}
}

// Limits of Redis's encodings of strings.
const (
	maxEmbedded  = 44    // maximum length in bytes of "embstr"
	sharedNumber = 10000 // numbers below this are shared objects
)

// Marks of values whose encoding in Redis cannot be derived from their bytes. They are
// stored: do not change.
const (
	markRaw  = 1 // edited by APPEND or SETRANGE: "raw" even if short
	markText = 2 // an integer that INCRBYFLOAT wrote: not "int"
)

// rawMark returns the mark of a value that was edited. A long value needs none.
func rawMark(val []byte) uint8 {
	if len(val) > maxEmbedded {
		return 0
	}
	return markRaw
}

// textMark returns the mark of a result of INCRBYFLOAT.
func textMark(val []byte) uint8 {
	if _, isInt := decimal.Parse(val); isInt {
		return markText
	}
	return 0
}

// isNumber returns the integer in e if its encoding in Redis is "int".
func isNumber(e kv.Entry) (n int64, ok bool) {
	if e.Mark != 0 {
		return 0, false
	}
	return decimal.Parse(e.Val)
}

func objectEncoding(x *call) error {
	e, ok, err := x.tx.Get(x.args[2])
	if err != nil || !ok {
		return x.replyNull(err)
	}
	_, isInt := isNumber(e)
	switch {
	case isInt:
		x.out.BulkString("int")
	case len(e.Val) > maxEmbedded || e.Mark == markRaw:
		x.out.BulkString("raw")
	default:
		x.out.BulkString("embstr")
	}
	return nil
}

func objectRefCount(x *call) error {
	e, ok, err := x.tx.Get(x.args[2])
	if err != nil {
		return err
	}
	n, isInt := isNumber(e)
	switch {
	case !ok:
		x.out.Null()
	case isInt && n >= 0 && n < sharedNumber:
		x.out.Int(1<<31 - 1)
	default:
		x.out.Int(1)
	}
	return nil
}

// objectIdleTime replies with the seconds since the last change, because reads are not
// recorded.
func objectIdleTime(x *call) error {
	e, ok, err := x.tx.Get(x.args[2])
	if err != nil || !ok {
		return x.replyNull(err)
	}
	since := x.tx.Now().Sub(time.UnixMicro(int64(e.Rev)))
	x.out.Int(int64(max(0, since) / time.Second))
	return nil
}

func objectFreq(x *call) error {
	_, ok, err := x.tx.Get(x.args[2])
	if err != nil || !ok {
		return x.replyNull(err)
	}
	return replyError("ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that when switching between policies at runtime LRU and LFU data will take some time to adjust.")
}

package resp

import "time"

func objectCommands() []command {
	sub := func(name string, run func(*call) error) command {
		return command{name: "object|" + name, arity: 3, kind: kindRead, flags: flagUntrack, keys: keyRange{2, 2, 1}, run: run}
	}
	return []command{
		sub("encoding", objectEncoding),
		sub("freq", objectFreq),
		sub("idletime", objectIdleTime),
		sub("refcount", objectRefCount),
		{name: "object|help", arity: 2, kind: kindPlain, run: objectHelp},
	}
}

// Bounds of Redis's encodings of strings.
const (
	maxEmbedded  = 44    // bytes of the longest "embstr"
	sharedNumber = 10000 // numbers below are shared objects
)

// objectEncoding tells how Redis would keep a value that was set whole. It
// cannot know of values that were edited, which Redis keeps "raw".
func objectEncoding(x *call) error {
	e, ok, err := x.tx.Get(x.args[2])
	if err != nil {
		return err
	}
	if !ok {
		x.out.Null()
		return nil
	}
	_, isInt := parseInt(e.Val)
	switch {
	case isInt:
		x.out.BulkString("int")
	case len(e.Val) <= maxEmbedded:
		x.out.BulkString("embstr")
	default:
		x.out.BulkString("raw")
	}
	return nil
}

func objectRefCount(x *call) error {
	e, ok, err := x.tx.Get(x.args[2])
	if err != nil {
		return err
	}
	n, isInt := parseInt(e.Val)
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

// objectIdleTime answers with the seconds since the last change: reads leave
// no trace.
func objectIdleTime(x *call) error {
	e, ok, err := x.tx.Get(x.args[2])
	if err != nil {
		return err
	}
	if !ok {
		x.out.Null()
		return nil
	}
	since := x.tx.Now().Sub(time.UnixMicro(int64(e.Rev)))
	x.out.Int(int64(max(0, since) / time.Second))
	return nil
}

func objectFreq(x *call) error {
	_, ok, err := x.tx.Get(x.args[2])
	if err != nil {
		return err
	}
	if !ok {
		x.out.Null()
		return nil
	}
	return replyError("ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that when switching between policies at runtime LRU and LFU data will take some time to adjust.")
}

package embedded

import "github.com/skerrydb/skerry/engine"

// fence says whether engine.FenceKey is in a state. Only the first write of a batch has to look.
type fence uint8

const (
	fenceUnknown fence = iota
	fenceDown
	fenceUp
)

// passFence returns an error if a fence stops the write of key. x.open is a new batch after everything that
// changes the tree other than transactions.
func (x *speculation) passFence(key []byte) error {
	if x.open.fence == fenceUnknown && !x.tx.fencing {
		x.open.fence = fenceDown
		if _, up := x.tree.Get([]byte(engine.FenceKey)); up {
			x.open.fence = fenceUp
		}
	}
	switch {
	case string(key) == engine.FenceKey:
		x.tx.fencing = true
	case x.open.fence == fenceUp && !x.tx.fencing:
		return engine.ErrFenced
	}
	return nil
}

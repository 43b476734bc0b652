package engine

// FenceKey is the key that stops writes, in an engine that promises Fence. While it has a value, Put and
// Delete of any other key return ErrFenced, on every process and node, except in a transaction that has put
// or deleted FenceKey before. So nothing that was committed after the fence is missing in a copy made behind
// it. Package transfer uses it to move data to another engine. On disk: do not change.
const FenceKey = "\x00fence"

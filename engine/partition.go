package engine

import "bytes"

// Partition returns the partition of key, for engines that are atomic over one partition
// only. It is what stands between the first '{' and the first '}' after it, if there is
// anything between them, and otherwise the whole key: the rule of Redis Cluster's hash
// tags. So keys of one partition share a slot there, and an engine with a partition column
// stores the result in it. The result aliases key.
//
// Whoever lays out keys that change together gives them one tag. Two keys with equal
// partitions are of one partition whichever capability they belong to.
func Partition(key []byte) []byte {
	from := bytes.IndexByte(key, '{')
	if from < 0 {
		return key
	}
	n := bytes.IndexByte(key[from+1:], '}')
	if n <= 0 {
		return key
	}
	return key[from+1 : from+1+n]
}

package engine

import "bytes"

// Partition returns the partition of key, for engines that are atomic only within one
// partition. It follows the rule of Redis Cluster's hash tags: the partition is the
// text between the first '{' and the first '}' after it, or the whole key if there is
// no such text. So keys of one partition share a slot in Redis Cluster, and an engine
// with a partition column stores the result in it. The result aliases key.
//
// Give keys that change together the same tag. Keys with equal partitions are in one
// partition even if they belong to different capabilities.
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

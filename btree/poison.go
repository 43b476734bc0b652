//go:build race || poison

package btree

// scribble overwrites bytes that no tree may read any more: those of a record that was
// overwritten or deleted and that no clone has. So a reader of such bytes finds nonsense,
// in builds with the race detector or the tag poison.
func scribble(b []byte) {
	for i := range b {
		b[i] = 0xDB
	}
}

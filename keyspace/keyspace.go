// Package keyspace is the table of who owns which keys: the first bytes of engine keys,
// and the spaces of kv.
//
// It knows owners and numbers; it must not know what the keys mean.
//
// A capability that keeps data takes its prefix or its space here. All numbers are part of
// the layout on disk: a number never changes, and is never given to another owner.
package keyspace

// First bytes of the keys in an engine. Only their owner reads or writes keys that begin so.
const (
	Moves    = 0   // the state of a move to another engine; see engine.FenceKey
	KV       = 'k' // the keys of all spaces of kv
	KVExpiry = 'x' // when keys of kv expire
	KVGraves = 'y' // when tombstones of kv may be cleared
	Records  = 'r' // collections, their records, and the history of these
	Series   = 's' // collections of series, their samples and definitions
	Graphs   = 'g' // graphs: their elements, indexes and names
)

// Spaces of kv. Those from 0 to 15 are the databases of Redis clients, those up to LastApplication
// belong to applications and their procedures, and those above to Skerry.
const (
	LastApplication uint8 = 127

	AdminPage      uint8 = 250
	Administrators uint8 = 251

	Certificates uint8 = 252
	Users        uint8 = 253
	Sessions     uint8 = 254
	Once         uint8 = 255 // answers to requests that are carried out once
)

// Prefixes returns the owner of each prefix. Two owners of one do not compile: the keys of a
// map literal are distinct.
func Prefixes() map[byte]string {
	return map[byte]string{
		Moves:    "transfer",
		KV:       "kv",
		KVExpiry: "kv",
		KVGraves: "kv",
		Records:  "record",
		Series:   "series",
		Graphs:   "graph",
	}
}

// Spaces returns the owner of each of Skerry's own spaces, likewise.
func Spaces() map[uint8]string {
	return map[uint8]string{
		Certificates: "web/acme",
		Users:        "auth",
		Sessions:     "session",
		Once:         "kv",

		AdminPage:      "web/admin",
		Administrators: "web/admin",
	}
}

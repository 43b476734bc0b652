package session

// First bytes of the keys of sessions in their space of kv, for programs that move data between engines. Those of a Store are of the layout of
// engines with transactions over all keys; what an SCS stores is the same on all engines.
const (
	KeysOfStore = sessionPrefix // a session for each key
	KeysOfUsers = userPrefix    // lists of the sessions of users
	KeysOfSCS   = scsPrefix
)

// Package skerry is an application server with its database inside, for Go
// programs: it assembles an engine, the capabilities and the faces. It knows how
// the parts fit together; it must not know any engine by name.
//
// The listing is the architecture:
//
//	skerry.go  Options, Open, Run, Close: assembles what is below, nothing else
//	programs   cmd/skerry, examples: one call of cli.Main each, with procedures or without
//	cli        every verb: flags, environment, signals, and which engines exist
//	faces      web (HTTP), resp (the Redis protocol; resp/wire is the codec alone)
//	capability kv (plain keys: expiry, counters, compare-and-set), proc (stored procedures in Go)
//	flow       feed (one tail of the changes a node, bounded fan-out)
//	contract   engine (types only), engine/enginetest (the conformance suite)
//	engines    engine/embedded (btree and journal put together)
//	leaves     btree (ordered map with O(1) snapshots), journal (log and snapshot files)
//	truth      workload (a load and what must be true after it)
//
// Imports point down this list only; law_test.go holds the table.
package skerry

// Package skerry is an application server with its database inside, for Go
// programs: it assembles an engine, the capabilities and the faces. It knows how
// the parts fit together; it must not know any engine by name.
//
// The listing is the architecture:
//
//	skerry.go  Options, Open, Run, Close: assembles what is below, nothing else
//	programs   cmd/skerry, examples: one call of cli.Main each, with procedures or without
//	cli        every verb: flags, environment, signals, and which engines exist
//	faces      web (HTTP applications; its subpackages have the keys API, account pages,
//	           views and ACME), resp (the Redis protocol; resp/wire is the codec alone)
//	capability kv (plain keys), proc (stored procedures), session, auth (users)
//	flow       feed (one tail of the changes per node, bounded fan-out)
//	contract   engine (types only), engine/enginetest (the conformance suite)
//	engines    engine/embedded (btree, journal, raft and peer put together)
//	leaves     btree (ordered map with O(1) snapshots), journal (log and snapshot files),
//	           raft (the replicated log), peer (connections between nodes),
//	           gate (connection limits), mail
//	backup     archive (ships every committed change of an engine to a folder), backups (a
//	           folder of verified backups, with a schedule)
//	truth      workload (a load and what must be true after it)
//	clients    client (Go), client/sqldriver (database/sql), webtest (tests of applications)
//
// Imports point down this list only; law_test.go holds the table.
package skerry

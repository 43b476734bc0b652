package resp

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/forward"
	"github.com/skerrydb/skerry/gate"
	"github.com/skerrydb/skerry/keyspace"
	"github.com/skerrydb/skerry/kv"
	"github.com/skerrydb/skerry/proc"
	"github.com/skerrydb/skerry/resp/wire"
)

// How many databases SELECT can choose from. Database n is key space n of kv: the first
// DefaultDatabases are for Redis clients, the others belong to the application and its
// procedures.
const (
	DefaultDatabases = 16
	MaxDatabases     = int(keyspace.LastApplication) + 1 // most databases that can be allowed: 128; higher key spaces are Skerry's own
)

// Version is the version of Redis that the server emulates.
const Version = "7.0.15"

// NodeProtocol is the protocol name for connections to ServeNode that are opened with
// engine.Cluster's Dial. Do not change.
const NodeProtocol = "skerry-resp/1"

// Limits. Exceeding one returns an error or closes the connection, as stated.
const (
	// MaxReplyBytes bounds one reply; a command whose reply would exceed it returns an
	// error.
	MaxReplyBytes = 256 << 20
	// MaxChunk is how many commands of a pipeline are collected before they run.
	MaxChunk = 1024
	// MaxQueuedBytes bounds the commands that wait for EXEC on one connection; a further
	// one is rejected and spoils the transaction.
	MaxQueuedBytes = 64 << 20
	// MaxQueued bounds the number of commands that wait for EXEC on one connection.
	MaxQueued = 100_000
	// MaxWatched bounds the keys that one connection watches.
	MaxWatched = 10_000
	// MaxCursors bounds the SCAN cursors that the server remembers; a new one replaces the
	// oldest.
	MaxCursors = 10_000
	// MaxTrackedKeys bounds the keys remembered for CLIENT TRACKING; beyond it, arbitrary
	// keys are forgotten and invalidated.
	MaxTrackedKeys = 1_000_000
	// MaxOutputBytes bounds the replies buffered for a client that does not read; beyond
	// it, no more of its commands are read. A single reply is always accepted.
	MaxOutputBytes = 64 << 20
	// MaxPushBytes bounds the pushes buffered for one connection; beyond it, the connection
	// is closed.
	MaxPushBytes = 8 << 20
	// MaxLCSCells bounds the product of the lengths of LCS's strings.
	MaxLCSCells = 16 << 20
	// MaxErrorBytes bounds the text of a procedure's error; the rest is left out.
	MaxErrorBytes = 4 << 10
	// MaxCodeBytes bounds the code of a procedure's error; the rest is left out.
	MaxCodeBytes = 128
	// MaxFlushAtOnce is how many keys FLUSHDB and FLUSHALL remove in one transaction; more
	// are removed in steps that other clients can see.
	MaxFlushAtOnce = 10_000
	// MaxUpstreams is Options.Upstreams if that is 0. It bounds the simultaneous
	// connections to other nodes for forwarded commands; further commands wait for one, as
	// for an election.
	MaxUpstreams = 1024
	// GuestMaxCommands is how many commands a client may send before it has
	// authenticated; one more ends the connection.
	GuestMaxCommands = 100
	// DefaultMaxGuestTime is Options.MaxGuestTime if that is 0.
	DefaultMaxGuestTime = 30 * time.Second
	// DefaultMaxClients is Options.MaxClients if that is 0.
	DefaultMaxClients = 10_000
	// DefaultMaxInputBytes is Options.MaxInputBytes if that is 0.
	DefaultMaxInputBytes = 256 << 20
	// MaxNodeConns bounds the connections that other nodes have opened to this
	// one; a further one is closed.
	MaxNodeConns = 16_384
)

// Output of a connection is written when it reaches this size, even if more commands of the
// pipeline are waiting.
const flushBytes = 1 << 20

// Options configures a Server. The zero value works.
type Options struct {
	// Procedures can be called by FCALL, FCALL_RO, CALL and CALLONCE. If nil, there are
	// none.
	Procedures *proc.Set

	// Commands are additional commands. Their names must be new.
	Commands []Command

	// Errors are the catalogs of codes that procedures and Commands may return in addition
	// to the engine's. The kind of a code determines the first word of the reply; an
	// unknown code becomes ERR.
	Errors [][]engine.Meaning

	// Password is required from clients in AUTH or HELLO. If empty, none is required.
	Password string

	// TLS, if not nil, is used on every connection.
	TLS *tls.Config

	// MaxClients bounds the connections of each listener; 0 means DefaultMaxClients. A
	// connection is a guest until it has authenticated or, if there is no password, has
	// sent its first command. If there is a password, guests may use up to a quarter of the
	// connections, and the oldest guest is replaced by a new one. If all connections are
	// used by others, a new one gets an error and is closed.
	MaxClients int

	// Databases is how many databases clients can SELECT, from DefaultDatabases to
	// MaxDatabases. A value above the default gives every client access to the
	// application's key spaces. 0 means DefaultDatabases.
	Databases int

	// MaxInputBytes bounds the memory that all clients together use for commands that have
	// not arrived completely and for commands that wait for EXEC, beyond a few KiB each.
	// Guests may use a quarter of it. A client that needs more gets engine.CodeQueueFull,
	// and is closed if it is in the middle of a command. 0 means DefaultMaxInputBytes. One
	// command of Wire.MaxCommand needs twice its size.
	MaxInputBytes int64

	// MaxGuestTime bounds the time that a client may take to authenticate. 0 means
	// DefaultMaxGuestTime.
	MaxGuestTime time.Duration

	// Upstreams bounds the number of simultaneous connections to other nodes for forwarded
	// commands. 0 means MaxUpstreams.
	Upstreams int

	// Guesses slows down clients that guess the password. If nil, wrong passwords are
	// counted for this server only.
	Guesses *gate.Guesses

	// IdleTimeout closes connections that send nothing for this long. 0 means never.
	IdleTimeout time.Duration

	// WriteTimeout closes connections that read nothing of a reply for this long. 0 means
	// one minute.
	WriteTimeout time.Duration

	// Wire bounds the input of clients. Zero fields have the defaults of package wire.
	Wire wire.Limits

	// Cluster, if not nil, is the cluster of this server's node. Commands that need the
	// leader are forwarded to it over Cluster.Dial. The caller must call ServeNode with
	// Cluster.Listen(NodeProtocol).
	Cluster engine.Cluster

	// ElectionWait bounds how long a command waits for a leader before the reply is
	// CLUSTERDOWN. 0 means forward.ElectionWait.
	ElectionWait time.Duration

	// Meter, if not nil, provides the engine's metrics for INFO.
	Meter engine.Meter

	// Durable says whether an acknowledged write survives a crash, for CONFIG GET
	// appendonly. It follows from the engine's promises.
	Durable bool

	// Dir is the data directory, and MachineMemory the machine's memory in bytes, for INFO
	// and CONFIG GET. If empty or 0, they are unknown.
	Dir           string
	MachineMemory int64

	// Build is the version of this program, for INFO.
	Build string

	// Logger logs events for operators. The default is slog.Default.
	Logger *slog.Logger
}

func (o Options) withDefaults() (Options, error) {
	if o.MaxClients < 0 || o.MaxInputBytes < 0 || o.MaxGuestTime < 0 || o.IdleTimeout < 0 || o.WriteTimeout < 0 || o.ElectionWait < 0 {
		return o, engine.Errorf(engine.CodeInvalid, "resp: an option is negative")
	}
	if o.Wire.MaxBulk > kv.MaxValBytes {
		return o, engine.Errorf(engine.CodeInvalid, "resp: Wire.MaxBulk is %d, at most %d", o.Wire.MaxBulk, kv.MaxValBytes)
	}
	if o.Databases == 0 {
		o.Databases = DefaultDatabases
	}
	if o.Databases < DefaultDatabases || o.Databases > MaxDatabases {
		return o, engine.Errorf(engine.CodeInvalid, "resp: Databases is %d, must be from %d to %d", o.Databases, DefaultDatabases, MaxDatabases)
	}
	if o.MaxClients == 0 {
		o.MaxClients = DefaultMaxClients
	}
	if o.MaxInputBytes == 0 {
		o.MaxInputBytes = DefaultMaxInputBytes
	}
	if o.Upstreams <= 0 {
		o.Upstreams = MaxUpstreams
	}
	if o.MaxGuestTime == 0 {
		o.MaxGuestTime = DefaultMaxGuestTime
	}
	if o.WriteTimeout == 0 {
		o.WriteTimeout = time.Minute
	}
	if o.ElectionWait == 0 {
		o.ElectionWait = forward.ElectionWait
	}
	if o.Wire.MaxBulk == 0 {
		o.Wire.MaxBulk = kv.MaxValBytes
	}
	if o.Build == "" {
		o.Build = "unknown"
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Guesses == nil {
		o.Guesses = gate.NewGuesses(o.Logger, nil)
	}
	return o, nil
}

// String returns o without the password.
func (o Options) String() string {
	return fmt.Sprintf("{password:%t tls:%t maxclients:%d}", o.Password != "", o.TLS != nil, o.MaxClients)
}

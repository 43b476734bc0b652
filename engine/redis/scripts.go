package redis

import (
	_ "embed"

	"github.com/redis/rueidis"
)

// The scripts of one primary. Each is bounded in what it reads and writes. A script that
// returns an error has written nothing.
//
//go:embed lua/state.lua
var stateText string

//go:embed lua/epoch.lua
var epochText string

//go:embed lua/raise.lua
var raiseText string

//go:embed lua/refused.lua
var refusedText string

//go:embed lua/past.lua
var pastText string

//go:embed lua/read.lua
var readText string

//go:embed lua/scan.lua
var scanText string

//go:embed lua/commit.lua
var commitText string

// The scripts of one partition in a cluster.
//
//go:embed lua/slot.lua
var slotText string

const (
	readOnly   = "#!lua flags=no-writes\n"
	evenIfFull = "#!lua flags=allow-oom\n"
)

var (
	// A server that refuses writes still says what state the data is in.
	stateScript  = rueidis.NewLuaScript(readOnly + stateText)
	createScript = rueidis.NewLuaScript("#!lua\n" + stateText)
	epochScript  = rueidis.NewLuaScript(evenIfFull + refusedText + epochText)
	raiseScript  = rueidis.NewLuaScript(evenIfFull + refusedText + raiseText) // it frees memory
	readScript   = rueidis.NewLuaScript(readOnly + pastText + readText)
	scanScript   = rueidis.NewLuaScript(readOnly + pastText + scanText)
	commitScript = rueidis.NewLuaScript("#!lua\n" + refusedText + commitText)
	// A batch that only deletes may run although the server's memory is full.
	deleteScript = rueidis.NewLuaScript(evenIfFull + refusedText + commitText)
	slotScript   = rueidis.NewLuaScript("#!lua\n" + refusedText + slotText)
	slotCheck    = rueidis.NewLuaScript(readOnly + refusedText + slotText)
	slotDelete   = rueidis.NewLuaScript(evenIfFull + refusedText + slotText)
)

// names are the keys of one set of data.
type names struct {
	meta, value, order, change, turn, mark, fork string
	moved                                        string // a channel
}

func namesOf(prefix string) names {
	return names{
		meta: prefix + "meta", value: prefix + "value", order: prefix + "order", change: prefix + "change",
		turn: prefix + "turn", mark: prefix + "mark", fork: prefix + "fork", moved: prefix + "moved",
	}
}

package skerry

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/keyspace"
	"github.com/skerrydb/skerry/kv"
	"github.com/skerrydb/skerry/series"
	"github.com/skerrydb/skerry/session"
	"github.com/skerrydb/skerry/transfer"
)

// Names of data that CarryOptions.Leave may have.
const (
	carryKeys         = "keys"
	carrySeries       = "series"
	carrySessions     = "sessions"
	carryCertificates = "certificates"
	carryUsers        = "users"
	carryAnswers      = "answers"
	carryRecords      = "records"
	carryOther        = "other"
)

// Leavable returns the names of data that CarryOptions.Leave may have.
func Leavable() []string {
	return []string{carryKeys, carrySeries, carrySessions, carryUsers, carryRecords, carryAnswers, carryCertificates, carryOther}
}

// CarryOptions configure Carry.
type CarryOptions struct {
	transfer.Options

	// Leave has names of data that is left behind if the target cannot carry it. Without it, the move is refused.
	Leave []string

	// Series are the collections of time series that the source may have. How long their samples are kept is not stored.
	Series []series.Collection

	// Notice is called with what is left behind, before anything is written; nil: not.
	Notice func(text string)
}

// Weaker reports whether eng lacks what a whole move needs of its target, but can be one of Carry.
func Weaker(eng engine.Engine) bool {
	_, ok := eng.(engine.Emptier)
	return ok && eng.Promises().Atomic < engine.AllKeys
}

// Carry moves plain keys, sessions of SCS and time series to an engine without transactions over all keys, as far as it
// can carry them. See transfer.Carry.
func Carry(ctx context.Context, from transfer.Source, to engine.Engine, o CarryOptions) (transfer.CarryResult, error) {
	for _, name := range o.Leave {
		if !slices.Contains(Leavable(), name) {
			return transfer.CarryResult{}, engine.Errorf(engine.CodeInvalid, "there is no data %q to leave behind; there are %s", name, strings.Join(Leavable(), ", "))
		}
	}
	store, err := kv.New(to, kv.Options{})
	if err != nil {
		return transfer.CarryResult{}, err
	}
	return transfer.Carry(ctx, from, to, transfer.CarryOptions{
		Options: o.Options, Regions: regions(store, to, o.Series), Leave: o.Leave, OutsideName: carryRecords, Notice: o.Notice,
	})
}

// regions returns what becomes of each key. The order is that of keys and is part of the state of moves that were
// interrupted.
func regions(store *kv.Store, to engine.Engine, collections []series.Collection) []transfer.Region {
	var all []transfer.Region
	at := []byte{1}
	add := func(name string, hi []byte, fate transfer.Fate) {
		all = append(all, transfer.Region{Name: name, Lo: at, Hi: hi, Fate: fate})
		at = hi
	}
	carry := func(name string, hi []byte) {
		add(name, hi, transfer.Carried)
		r := &all[len(all)-1]
		r.Cargo = transfer.Pairs{Lo: r.Lo, Hi: r.Hi, MaxValBytes: cmp.Or(to.Promises().MaxValBytes, 64<<10), Write: store.Load, Same: store.Compare}
	}
	space := func(n uint8, more ...byte) []byte { return append([]byte{keyspace.KV, n}, more...) }

	add(carryOther, space(0), transfer.Refused)
	carry(carryKeys, space(keyspace.LastApplication+1))
	add(carryOther, space(keyspace.Certificates), transfer.Refused)
	add(carryCertificates, space(keyspace.Users), transfer.Refused)
	add(carryUsers, space(keyspace.Sessions), transfer.Refused)
	add(carryOther, space(keyspace.Sessions, session.KeysOfSCS), transfer.Refused)
	carry(carrySessions, space(keyspace.Sessions, session.KeysOfSCS+1))
	add(carryOther, space(keyspace.Sessions, session.KeysOfStore), transfer.Refused)
	add(carrySessions, space(keyspace.Sessions, session.KeysOfStore+1), transfer.Left)
	add(carryOther, space(keyspace.Sessions, session.KeysOfUsers), transfer.Refused)
	add(carrySessions, space(keyspace.Sessions, session.KeysOfUsers+1), transfer.Derived)
	add(carryOther, space(keyspace.Once), transfer.Refused)
	add(carryAnswers, []byte{keyspace.KV + 1}, transfer.Refused)
	add(carryOther, []byte{keyspace.Records}, transfer.Refused)
	add(carryRecords, []byte{keyspace.Records + 1}, transfer.Refused)
	add(carrySeries, []byte{keyspace.Series + 1}, transfer.Refused)
	if own, ok := to.(engine.SampleStore); ok {
		r := &all[len(all)-1]
		r.Fate, r.Cargo = transfer.Carried, seriesCargo{series.Loader{To: own, Collections: collections}}
	}
	add(carryOther, []byte{keyspace.KVExpiry}, transfer.Refused)
	add(carryKeys, []byte{keyspace.KVGraves + 1}, transfer.Derived)
	add(carryOther, nil, transfer.Refused)
	return all
}

// seriesCargo is the transfer.Cargo of time series.
type seriesCargo struct{ l series.Loader }

// Check implements transfer.Cargo.
func (s seriesCargo) Check(ctx context.Context, in transfer.Reader) error {
	s.l.Read = in
	return s.l.Check(ctx)
}

// Load implements transfer.Cargo.
func (s seriesCargo) Load(ctx context.Context, in transfer.Reader, from []byte, save func([]byte, transfer.Tally) error) error {
	s.l.Read = in
	return s.l.Load(ctx, from, func(cursor []byte, items int) error { return save(cursor, transfer.Tally{Items: int64(items)}) })
}

// Compare implements transfer.Cargo.
func (s seriesCargo) Compare(ctx context.Context, in transfer.Reader, report func(transfer.Tally)) error {
	s.l.Read = in
	return s.l.Compare(ctx, func(items int) { report(transfer.Tally{Items: int64(items)}) })
}

// Package voter is a phone vote like those of television shows: callers vote for contestants, each phone a
// limited number of times, and everybody wants to see the totals at once.
//
// It knows the rules of the vote, as procedures over plain keys; it must not know how they are called: server
// serves them, load calls them.
//
// Keys, all in space 0, values are text:
//
//	contestant/1      the name of contestant 1
//	phone/2125550123  how many votes this phone has cast
//	votes/1           how many votes contestant 1 has
//	votes/1/NY        how many of them are from New York
package voter

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/kv"
	"github.com/skerrydb/skerry/proc"
)

// Error codes, besides those of the engine.
const (
	CodeUnknownContestant engine.Code = "unknown_contestant"
	CodeTooManyVotes      engine.Code = "too_many_votes"
)

// MaxContestants is how many contestants a vote has at most.
const MaxContestants = 12

var (
	// Initialize prepares the vote. It may be called again and keeps existing votes.
	Initialize = proc.Define("initialize", initialize).Describe("sets up the first n contestants; returns how many there were not yet")

	// Vote casts one vote and returns how many votes this phone has cast.
	Vote = proc.Define("vote", vote).Hint(voteHint).Describe("casts one vote; returns how many this phone has cast")

	// Results returns the votes of all contestants, most votes first.
	Results = proc.DefineRead("results", results).Describe("votes of each contestant, most first")

	// Check counts the votes in three ways.
	Check = proc.DefineRead("check", check).Describe("adds up the votes by phone, by contestant and by state")
)

// Procedures returns all procedures of the vote.
func Procedures() []proc.Procedure { return []proc.Procedure{Initialize, Vote, Results, Check} }

// InitializeIn is the number of contestants, 1 to MaxContestants.
type InitializeIn struct {
	Contestants int `json:"contestants"`
}

func initialize(tx *proc.Tx, in InitializeIn) (created int, err error) {
	if in.Contestants < 1 || in.Contestants > MaxContestants {
		return 0, engine.Errorf(engine.CodeInvalid, "there can be 1 to %d contestants", MaxContestants)
	}
	for i, name := range names()[:in.Contestants] {
		res, err := tx.KV(0).Set(contestantKey(nil, i+1), []byte(name), kv.SetOptions{OnlyNew: true})
		if err != nil {
			return 0, err
		}
		if res.Written {
			created++
		}
	}
	return created, nil
}

// names are the contestants, in order.
func names() []string {
	return []string{"Alda Strand", "Bryn Calder", "Cato Holm", "Dara Quill", "Eira Voss", "Finn Marsh",
		"Gro Tangen", "Hild Ravn", "Ivar Skou", "Jorun Leith", "Kari Moen", "Leif Orr"}
}

// VoteIn is one call: the caller, the contestant, and how often one phone may vote.
type VoteIn struct {
	Phone      int64 `json:"phone"` // ten digits, the first three are the area code
	Contestant int   `json:"contestant"`
	MaxVotes   int64 `json:"max_votes"`
}

// The range of phone numbers, inclusive.
const (
	firstPhone = 200_000_0000
	lastPhone  = 999_999_9999
)

// vote runs three statements in one transaction. The counters of votes change together with that of the phone
// or not at all, and no other vote comes between the check whether this phone may vote and its count.
func vote(tx *proc.Tx, in VoteIn) (int64, error) {
	var buf [40]byte
	keys := tx.KV(0)
	if in.Phone < firstPhone || in.Phone > lastPhone {
		return 0, engine.Errorf(engine.CodeInvalid, "%d is not a phone number of ten digits", in.Phone)
	}

	// 1. Does the contestant exist?
	_, ok, err := keys.Get(contestantKey(buf[:0], in.Contestant))
	if err != nil {
		return 0, err
	}
	if !ok {
		return 0, engine.Errorf(CodeUnknownContestant, "there is no contestant %d", in.Contestant)
	}

	// 2. May this phone vote again?
	cast, err := count(keys, phoneKey(buf[:0], in.Phone))
	if err != nil {
		return 0, err
	}
	if cast >= in.MaxVotes {
		return 0, engine.Errorf(CodeTooManyVotes, "phone %d has already cast its %d votes", in.Phone, cast)
	}

	// 3. Count the vote by phone, by contestant, and by contestant and state.
	if _, err := keys.Add(phoneKey(buf[:0], in.Phone), 1); err != nil {
		return 0, err
	}
	if _, err := keys.Add(votesKey(buf[:0], in.Contestant), 1); err != nil {
		return 0, err
	}
	if _, err := keys.Add(stateKey(buf[:0], in.Contestant, StateOf(in.Phone)), 1); err != nil {
		return 0, err
	}
	return cast + 1, nil
}

// voteHint names the only key of a vote that few other votes use; all others are in the processor's caches.
func voteHint(h *proc.Hints, in VoteIn) {
	var buf [40]byte
	h.Key(0, phoneKey(buf[:0], in.Phone))
}

// Result is the standing of one contestant.
type Result struct {
	Contestant int    `json:"contestant"`
	Name       string `json:"name"`
	Votes      int64  `json:"votes"`
	BestState  string `json:"best_state"` // where most of the votes come from; "" without votes
}

func results(tx *proc.Tx, _ struct{}) ([]Result, error) {
	byNumber := map[string]*Result{}
	for item, err := range tx.KV(0).ScanPrefix([]byte("contestant/")) {
		if err != nil {
			return nil, err
		}
		number := string(item.Key[len("contestant/"):])
		n, err := strconv.Atoi(number)
		if err != nil {
			return nil, err
		}
		byNumber[number] = &Result{Contestant: n, Name: string(item.Val)}
	}
	best := map[string]int64{}
	err := counters(tx.KV(0), "votes/", func(key string, n int64) {
		number, state, ofState := strings.Cut(key, "/")
		r := byNumber[number]
		switch {
		case !ofState:
			r.Votes = n
		case n > best[number]:
			best[number], r.BestState = n, state
		}
	})
	if err != nil {
		return nil, err
	}
	all := make([]Result, 0, len(byNumber))
	for _, r := range byNumber {
		all = append(all, *r)
	}
	slices.SortFunc(all, func(a, b Result) int {
		return cmp.Or(cmp.Compare(b.Votes, a.Votes), cmp.Compare(a.Contestant, b.Contestant))
	})
	return all, nil
}

// Totals has the number of all votes, counted in three ways that must agree.
type Totals struct {
	Phones       int64 `json:"phones"` // that have voted
	ByPhone      int64 `json:"by_phone"`
	ByContestant int64 `json:"by_contestant"`
	ByState      int64 `json:"by_state"`
}

// Agree reports whether the three counts are equal.
func (t Totals) Agree() bool { return t.ByPhone == t.ByContestant && t.ByPhone == t.ByState }

// check reads one snapshot, so the sums agree even while votes arrive.
func check(tx *proc.Tx, _ struct{}) (t Totals, err error) {
	err = counters(tx.KV(0), "phone/", func(_ string, n int64) {
		t.Phones++
		t.ByPhone += n
	})
	if err != nil {
		return Totals{}, err
	}
	err = counters(tx.KV(0), "votes/", func(key string, n int64) {
		if strings.Contains(key, "/") {
			t.ByState += n
		} else {
			t.ByContestant += n
		}
	})
	return t, err
}

// counters calls fn for every counter whose key begins with prefix, with the rest of the key.
func counters(keys *kv.Tx, prefix string, fn func(key string, n int64)) error {
	for item, err := range keys.ScanPrefix([]byte(prefix)) {
		if err != nil {
			return err
		}
		n, err := number(item.Val)
		if err != nil {
			return err
		}
		fn(string(item.Key[len(prefix):]), n)
	}
	return nil
}

// count returns the counter in key, 0 if there is none.
func count(keys *kv.Tx, key []byte) (int64, error) {
	e, ok, err := keys.Get(key)
	if err != nil || !ok {
		return 0, err
	}
	return number(e.Val)
}

func number(text []byte) (int64, error) {
	n, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil {
		return 0, engine.Errorf(engine.CodeNotInteger, "read a counter: %w", err)
	}
	return n, nil
}

func contestantKey(dst []byte, n int) []byte {
	return strconv.AppendInt(append(dst, "contestant/"...), int64(n), 10)
}

func phoneKey(dst []byte, phone int64) []byte {
	return strconv.AppendInt(append(dst, "phone/"...), phone, 10)
}

func votesKey(dst []byte, n int) []byte {
	return strconv.AppendInt(append(dst, "votes/"...), int64(n), 10)
}

func stateKey(dst []byte, n int, state string) []byte {
	return append(append(votesKey(dst, n), '/'), state...)
}

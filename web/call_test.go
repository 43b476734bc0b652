package web_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/kv"
	"github.com/skerrydb/skerry/proc"
	"github.com/skerrydb/skerry/web"
)

// testMaxResult is proc.Options.MaxResult in these tests.
const testMaxResult = 200 << 10

type voteIn struct {
	Contestant string `json:"contestant"`
	Phone      uint64 `json:"phone"`
	Weight     int    `json:"weight,omitempty"`
}

type voteOut struct {
	Contestant string    `json:"contestant"`
	Total      int64     `json:"total"`
	At         time.Time `json:"at"`
}

type lookIn struct {
	Contestant string   `json:"contestant"`
	Since      *int64   `json:"since"`
	Tags       []string `json:"tags,omitempty"`
	Raw        []byte   `json:"raw,omitempty"`
	Exact      bool     `json:"exact,omitempty"`
}

type sizeIn struct {
	Bytes int `json:"bytes"`
}

type nothing struct{}

// vote counts a vote; a phone has two.
func vote(tx *proc.Tx, in voteIn) (out voteOut, err error) {
	db := tx.KV(0)
	phone := []byte("phone:" + strings.Repeat("0", int(in.Phone%10)))
	n, err := db.Add(phone, 1)
	if err != nil {
		return out, err
	}
	if n > 2 {
		return out, engine.Errorf("too_many_votes", "%d has voted %d times", in.Phone, n-1)
	}
	if in.Weight < 0 {
		return out, errors.New("a vote cannot be taken back")
	}
	out.Total, err = db.Add([]byte("votes:"+in.Contestant), int64(max(in.Weight, 1)))
	out.Contestant, out.At = in.Contestant, tx.Now().UTC()
	return out, err
}

func testProcedures() procedures {
	return procedures{
		proc.Define("vote", vote).Describe("counts a vote for a contestant"),
		proc.DefineRead("votes", func(tx *proc.Tx, in lookIn) (map[string]any, error) {
			e, found, err := tx.KV(0).Get([]byte("votes:" + in.Contestant))
			return map[string]any{"found": found, "votes": string(e.Val), "since": in.Since, "tags": in.Tags, "raw": in.Raw, "exact": in.Exact}, err
		}).Describe("the votes of a <contestant>"),
		proc.DefineRead("ping", func(*proc.Tx, nothing) (nothing, error) { return nothing{}, nil }),
		proc.Define("large", func(tx *proc.Tx, in sizeIn) (string, error) {
			_, err := tx.KV(0).Set([]byte("large"), []byte("x"), kv.SetOptions{})
			return strings.Repeat("x", in.Bytes), err
		}),
		proc.Define("broken", func(tx *proc.Tx, _ nothing) (nothing, error) {
			if _, err := tx.KV(0).Set([]byte("broken"), []byte("x"), kv.SetOptions{}); err != nil {
				return nothing{}, err
			}
			panic("secret of the program")
		}),
		proc.DefineRead("writes", func(tx *proc.Tx, _ nothing) (nothing, error) {
			_, err := tx.KV(0).Set([]byte("written"), []byte("x"), kv.SetOptions{})
			return nothing{}, err
		}),
		proc.Define("absent", func(*proc.Tx, nothing) (nothing, error) { return nothing{}, engine.ErrNotFound }),
	}
}

func TestCall(t *testing.T) {
	s := serveProcedures(t, testProcedures(), web.Options{})
	got := s.do(t, "POST", "/api/call/vote", strings.NewReader(`{"contestant":"ada","phone":7}`))
	if got.status != 200 || string(got.body) != `{"contestant":"ada","total":1,"at":"2026-11-21T12:00:00Z"}`+"\n" {
		t.Fatalf("%d %s", got.status, got.body)
	}
}

package cli

import (
	"errors"
	"time"

	"github.com/skerrydb/skerry/cli/verb"
	"github.com/skerrydb/skerry/cli/verify"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/proc"
)

type greetIn struct {
	Name  string `json:"name"`
	Times int    `json:"times,omitempty"`
}

type greetOut struct {
	Text    string    `json:"text"`
	Visits  int64     `json:"visits"`
	Since   time.Time `json:"-"`
	Friends []string  `json:"friends"`
}

type allIn struct {
	Yes    bool               `json:"yes"`
	Small  int8               `json:"small"`
	Count  uint               `json:"count"`
	Ratio  float64            `json:"ratio"`
	Raw    []byte             `json:"raw"`
	When   time.Time          `json:"when"`
	Words  []string           `json:"words"`
	Places map[string]*int    `json:"places"`
	Who    struct{ A, B int } `json:"who"`
	Maybe  *float32           `json:"maybe"`
}

// greeter is a program with procedures, for tests.
func greeter() verb.App {
	visit := func(tx *proc.Tx, in greetIn) (out greetOut, err error) {
		out.Text = "hello, " + in.Name
		out.Visits, err = tx.KV(0).Add([]byte("visits:"+in.Name), int64(max(in.Times, 1)))
		return out, err
	}
	return verb.App{Name: "greeter", Version: "v7", Verbs: verify.Verbs(), Procedures: []proc.Procedure{
		proc.Define("greet", visit).Describe("greet somebody and count it"),
		proc.DefineRead("echo", func(_ *proc.Tx, in allIn) (allIn, error) { return in, nil }),
		proc.DefineRead("nothing", func(*proc.Tx, struct{}) (struct{}, error) { return struct{}{}, nil }),
		proc.Define("refuse", func(_ *proc.Tx, in struct {
			Own bool `json:"own,omitempty"`
		}) (string, error) {
			if in.Own {
				return "", engine.Errorf("too_late", "the shop is closed")
			}
			return "", errors.New("not today")
		}),
	}}
}

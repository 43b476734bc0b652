package embedded

import (
	"testing"

	"github.com/skerrydb/skerry/btree"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/raft"
)

// TestOutcomeOfOrphans: what a call is told whose leader was deposed while its
// batch was on its way, for everything that can come next. That nothing was
// written it is told only if that is known.
func TestOutcomeOfOrphans(t *testing.T) {
	entry := func(x *executor, term uint64, data []byte) {
		if err := x.applyAll([]raft.Entry{{Index: 1, Term: term, Data: data}}); err != nil {
			t.Error(err)
		}
	}
	const none = engine.Code("none yet")
	for name, c := range map[string]struct {
		next func(x *executor, b *batch)
		want engine.Code
	}{
		"its own entry":               {func(x *executor, b *batch) { entry(x, 5, b.buf) }, ""},
		"an empty entry of its term":  {func(x *executor, _ *batch) { entry(x, 5, nil) }, none},
		"an empty entry of a new one": {func(x *executor, _ *batch) { entry(x, 6, nil) }, engine.CodeNotLeader},
		"a batch of a new term":       {func(x *executor, b *batch) { entry(x, 6, b.buf) }, engine.CodeNotLeader},
		"nothing for long":            {func(x *executor, _ *batch) { x.expire(0) }, engine.CodeOutcomeUnknown},
		"nothing for a moment":        {func(x *executor, _ *batch) { x.expire(OutcomeWait) }, none},
		"a snapshot":                  {func(x *executor, _ *batch) { x.install(&snapshot{tree: btree.NewBytes[string]()}) }, engine.CodeOutcomeUnknown},
		"a refusal":                   {func(x *executor, b *batch) { x.refused(b.proposal, engine.Errorf(engine.CodeDiskFull, "full")) }, engine.CodeDiskFull},
		"a refusal of another":        {func(x *executor, _ *batch) { x.refused(&raft.Proposal{}, engine.ErrNotLeader) }, none},
	} {
		t.Run(name, func(t *testing.T) {
			x, q := leading(t)
			call := start(t.Context(), x, putting("k", "1"))
			b := <-q.got
			x.yield(engine.Errorf(engine.CodeNotLeader, "deposed"))
			c.next(x, b)
			if c.want == none {
				if len(x.orphans) != 1 {
					t.Fatalf("the call was answered: %v", <-call)
				}
				x.expire(0)
				<-call
				return
			}
			if err := <-call; engine.CodeOf(err) != c.want && (err != nil || c.want != "") {
				t.Errorf("the call was told %v, want %q", err, c.want)
			}
			if len(x.orphans) != 0 {
				t.Errorf("%d batches still wait for their outcome", len(x.orphans))
			}
		})
	}
}

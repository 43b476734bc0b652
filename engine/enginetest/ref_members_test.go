package enginetest

import (
	"context"
	"strconv"
	"time"

	"github.com/skerrydb/skerry/engine"
)

// Report implements engine.NodeReporter.
func (r *ref) Report() engine.NodeReport {
	return engine.NodeReport{Version: "1", Expires: time.Now().Add(time.Hour), Invites: true, Commit: uint64(r.Position()) + 1}
}

// RemoveNode implements engine.MemberChanger for a cluster of one node.
func (r *ref) RemoveNode(_ context.Context, node uint64) error {
	if node != 1 {
		return engine.ErrNotFound
	}
	return engine.ErrInvalid
}

// Invite implements engine.MemberChanger.
func (r *ref) Invite(bool) (uint64, []byte, error) {
	id := r.issued.Add(1) + 1
	return id, []byte("an invitation for node " + strconv.FormatUint(id, 10)), nil
}

// Report returns what the fault reports.
func (f *faulty) Report() engine.NodeReport {
	rep := f.ref.Report()
	if f.report != nil {
		f.report(&rep)
	}
	return rep
}

// RemoveNode ignores what it cannot do, if that is the fault.
func (f *faulty) RemoveNode(ctx context.Context, node uint64) error {
	if f.removes {
		return nil
	}
	return f.ref.RemoveNode(ctx, node)
}

// Invite issues one id for ever, if that is the fault.
func (f *faulty) Invite(replica bool) (uint64, []byte, error) {
	if f.invites != 0 {
		return f.invites, []byte("an invitation"), nil
	}
	return f.ref.Invite(replica)
}

// memberFaults are those of engine.NodeReporter and engine.MemberChanger.
func memberFaults() []fault {
	return []fault{
		{"a report has an expired certificate", []string{"clustered/report"}, func(f *faulty) {
			f.report = func(r *engine.NodeReport) { r.Expires = time.Now().Add(-time.Hour) }
		}},
		{"a report names its own node among the others", []string{"clustered/report"}, func(f *faulty) {
			f.report = func(r *engine.NodeReport) { r.Peers = []engine.PeerReport{{ID: 1}} }
		}},
		{"a report has a format without a version", []string{"clustered/report"}, func(f *faulty) {
			f.report = func(r *engine.NodeReport) { r.Formats = []engine.Format{{Name: "log"}} }
		}},
		{"a node that is no member is removed", []string{"clustered/members"}, func(f *faulty) { f.removes = true }},
		{"two invitations are for one node", []string{"clustered/members"}, func(f *faulty) { f.invites = 2 }},
		{"an invitation is for a member", []string{"clustered/members"}, func(f *faulty) { f.invites = 1 }},
	}
}

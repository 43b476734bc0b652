package raft

import (
	"time"

	"go.etcd.io/raft/v3/raftpb"
)

// diskRetry is the pause before a save that failed with a temporary error is
// retried.
const diskRetry = 200 * time.Millisecond

// noted completes a Save that has nothing for the disk. Such a Save follows every batch,
// with the new commit index: here it wakes no other goroutine.
func (n *Node) noted(s *Save) {
	n.store.note(s.Commit)
	n.answer([]*Save{s})
	n.core.Saved(s)
}

// disk is the goroutine that makes Saves durable.
func (n *Node) disk() {
	var saves []*Save
	for n.saves.wait(n.ctx) {
		saves = n.saves.take(saves[:0])
		for rest := saves; len(rest) > 0; {
			k := 1
			for k < len(rest) && rest[k].Snapshot == nil {
				k++
			}
			if err := n.save(rest[:k]); err != nil {
				if n.ctx.Err() == nil {
					n.cfg.Machine.Fail(err)
					n.stop()
				}
				return
			}
			n.events.push(event{saved: append([]*Save(nil), rest[:k]...)})
			rest = rest[k:]
		}
		clear(saves)
	}
}

// save makes some Saves durable with one sync; only the first may have a
// snapshot. It waits while the disk is full.
func (n *Node) save(group []*Save) error {
	if failpoint("ack-before-fsync") {
		n.answer(group)
	}
	if s := group[0].Snapshot; s != nil {
		if err := n.install(s); err != nil {
			return err
		}
	}
	if err := n.whileFull(func() error { return n.trySave(group) }); err != nil {
		return err
	}
	n.answer(group)
	return nil
}

// whileFull retries until there is no temporary error.
func (n *Node) whileFull(try func() error) error {
	for {
		err := try()
		if err == nil {
			break
		}
		if !n.cfg.Machine.Temporary(err) {
			return err
		}
		if !n.full.Swap(true) {
			n.cfg.Logger.Error("cannot save anything for now; this node falls behind until it can", "err", err)
		}
		select {
		case <-time.After(diskRetry):
		case <-n.ctx.Done():
			return n.ctx.Err()
		}
	}
	if n.full.Swap(false) {
		n.cfg.Logger.Info("saving works again")
	}
	return nil
}

func (n *Node) trySave(group []*Save) error {
	for _, s := range group {
		if err := n.store.Append(s); err != nil {
			return err
		}
	}
	return n.store.Sync(group...)
}

// answer sends the replies that other nodes wait for.
func (n *Node) answer(group []*Save) {
	for _, s := range group {
		for _, m := range s.Others(n.cfg.ID) {
			n.send(m)
		}
	}
}

// install makes the applying goroutine install the snapshot, after all entries that
// were committed before it.
func (n *Node) install(s *raftpb.Snapshot) error {
	done := make(chan error, 1)
	base, file := BaseOf(s)
	err := n.whileFull(func() error {
		n.tasks.push(task{fn: func() { done <- n.cfg.Machine.Install(base, file) }})
		select {
		case err := <-done:
			return err
		case <-n.ctx.Done():
			return n.ctx.Err()
		}
	})
	if err != nil {
		return err
	}
	return n.whileFull(func() error { return n.store.Installed(base) })
}

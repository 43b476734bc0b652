package memfs

import (
	"maps"
	"slices"
)

// Sizes in which a disk writes all or nothing.
const (
	smallSector = 512
	largeSector = 4096
)

// Kill simulates the end of the process while the machine keeps running: handles and
// locks are gone, and everything written is kept, but unsynced data is still not durable.
func (m *FS) Kill() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.restart()
}

// restart drops the state of the running process, and planned faults. The caller holds
// mu.
func (m *FS) restart() {
	m.epoch++
	m.locks = map[string]bool{}
	m.stopAfter, m.space, m.failSyncs, m.shortWrite, m.readOnly = -1, -1, 0, 0, false
}

// Crash simulates power loss: handles and locks are gone, and only part of the unsynced
// changes has happened. Each sector of a file has seen an arbitrary number of the writes,
// in order. The file's size is any that it had since the last sync. Of the changes of
// names either the first few or an arbitrary subset has happened. Planned faults end.
func (m *FS) Crash() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.restart()
	inOrder, keep := m.rng.IntN(2) == 0, m.rng.IntN(len(m.dirOps)+1)
	for i, o := range m.dirOps {
		if inOrder && i < keep || !inOrder && m.rng.IntN(2) == 0 {
			o.apply(m.durable)
		}
	}
	m.dirOps = nil
	done := map[*inode]bool{}
	for _, path := range slices.Sorted(maps.Keys(m.durable)) {
		if n := m.durable[path]; !done[n] {
			done[n] = true
			m.lose(n)
		}
	}
	m.files = maps.Clone(m.durable)
}

// lose decides which of n's pending writes are on the disk.
func (m *FS) lose(n *inode) {
	ops := n.pending
	n.pending = nil
	style := m.rng.IntN(8)
	switch {
	case len(ops) == 0 || style == 0: // nothing since the last sync
	case style == 1: // the first few
		n.pending = ops[:m.rng.IntN(len(ops)+1)]
		n.settle()
	default:
		n.disk = m.tear(n.disk, ops)
	}
	n.data = slices.Clone(n.disk)
}

// tear applies some of the writes to each sector of a file.
func (m *FS) tear(disk []byte, ops []op) []byte {
	sector := int64(smallSector)
	if m.rng.IntN(2) == 0 {
		sector = largeSector
	}
	size, most := int64(len(disk)), int64(len(disk))
	chosen, upTo := size, m.rng.IntN(len(ops)+1)
	for i, o := range ops {
		size = o.size(size)
		most = max(most, size)
		if i < upTo {
			chosen = size
		}
	}
	odds := 1 + m.rng.IntN(4) // of a sector that has seen everything: 1/2 to 1/5, or to 4/5
	if m.rng.IntN(2) == 0 {
		odds = -odds
	}
	b := setLen(slices.Clone(disk), most)
	for lo := int64(0); lo < most; lo += sector {
		hi := min(lo+sector, most)
		count := m.rng.IntN(len(ops) + 1)
		if all := m.rng.IntN(max(odds, -odds)+1) == 0; all == (odds > 0) {
			count = len(ops)
		}
		for _, o := range ops[:count] {
			o.apply(b, lo, hi)
		}
	}
	return b[:chosen]
}

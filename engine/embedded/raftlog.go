package embedded

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	iofs "io/fs"
	"iter"
	"os"
	"path/filepath"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/journal"
	"github.com/skerrydb/skerry/raft"
)

// A log record of a node of a cluster. Format 2 is on disk, do not change (format 1 is
// only a batch, of a node that is alone):
//
//	byte     format
//	byte     kind: 0 data, 1 membership change
//	uvarint  term
//	uvarint  the commit index known when it was written
//	bytes    the entry: nothing, a batch, a change, or a note about a node
const recordFormat = 2

var errRecord = errors.New("malformed log record")

func appendRecord(buf []byte, e raft.Entry) []byte {
	buf = append(buf, recordFormat, byte(e.Kind))
	buf = binary.AppendUvarint(buf, e.Term)
	buf = binary.AppendUvarint(buf, e.Commit)
	return append(buf, e.Data...)
}

// parseRecord decodes a record of any format. The entry's data aliases it.
func parseRecord(r journal.Record) (raft.Entry, error) {
	e := raft.Entry{Index: r.Index}
	switch {
	case len(r.Data) == 0:
		return e, errRecord
	case r.Data[0] == batchFormat:
		e.Data = r.Data
		return e, nil
	case r.Data[0] > recordFormat:
		return e, engine.Errorf(engine.CodeFormatNewer, "log record %d has format %d; this program knows up to %d", r.Index, r.Data[0], recordFormat)
	case len(r.Data) < 4 || r.Data[1] > byte(raft.Change):
		return e, errRecord
	}
	e.Kind = raft.Kind(r.Data[1])
	d := decoder{rest: r.Data[2:]}
	e.Term, e.Commit = d.uvarint(), d.uvarint()
	if d.bad {
		return e, errRecord
	}
	e.Data = d.rest
	return e, nil
}

// raftLog implements raft.Log with the journal and the vote file.
type raftLog struct {
	log     *journal.Log
	vote    *voteFile
	scratch []byte
}

func newRaftLog(log *journal.Log, vote *voteFile) *raftLog { return &raftLog{log: log, vote: vote} }

// Append implements raft.Log.
func (l *raftLog) Append(entries []raft.Entry) error {
	first := entries[0].Index
	if last := l.log.Last(); last >= first && !failpoint("no-truncation") {
		if err := l.log.TruncateAfter(first - 1); err != nil {
			return diskError(err)
		}
	}
	for _, e := range entries {
		l.scratch = appendRecord(l.scratch[:0], e)
		if err := l.log.Append(e.Index, l.scratch); err != nil {
			if failpoint("no-truncation") {
				continue
			}
			return diskError(err)
		}
	}
	if cap(l.scratch) > keepBatch {
		l.scratch = nil
	}
	return nil
}

// Sync implements raft.Log.
func (l *raftLog) Sync() error { return diskError(l.log.Sync()) }

// SetVote implements raft.Log.
func (l *raftLog) SetVote(v raft.Vote) error { return diskError(l.vote.set(v)) }

// First implements raft.Log.
func (l *raftLog) First() uint64 { return l.log.First() }

// Last implements raft.Log.
func (l *raftLog) Last() uint64 { return l.log.Durable() }

// Reset implements raft.Log.
func (l *raftLog) Reset(next uint64) error { return diskError(l.log.Reset(next)) }

// readTries is how often a Read is retried because the log's end was replaced
// concurrently, or because no file could be opened. It waits for readPause before each.
const (
	readTries = 100
	readPause = 20 * time.Millisecond
)

// Read implements raft.Log. Raft may replace the end of the log while it reads earlier
// entries: that is not an error here.
func (l *raftLog) Read(from uint64) iter.Seq2[raft.Entry, error] {
	return func(yield func(raft.Entry, error) bool) {
		for next, tries := from, 1; ; tries++ {
			again, starved := false, false
			for r, err := range l.log.Read(next) {
				var e raft.Entry
				if err == nil {
					e, err = parseRecord(r)
				}
				starved = journal.NoFiles(err)
				if again = tries < readTries && (starved || l.replaced(err, next)); again {
					break
				}
				if !yield(e, err) || err != nil {
					return
				}
				next = e.Index + 1
			}
			if !again {
				return
			}
			if starved {
				time.Sleep(readPause)
			}
		}
	}
}

// replaced reports whether a read that began at from failed because later records were
// removed. Their file may also be gone by then.
func (l *raftLog) replaced(err error, from uint64) bool {
	return errors.Is(err, journal.ErrChanged) || errors.Is(err, journal.ErrGone) && l.log.First() <= from
}

// voteFile stores the vote in two slots that are written in turn, so that an interrupted
// write leaves the older one. The format of a slot, do not change:
//
//	bytes   "skvote" and two bytes of format, 1
//	uint64  number of this write (little endian, as all here)
//	uint64  term
//	uint64  id of the node that received the vote; 0: none
//	uint32  CRC-32C of all before
type voteFile struct {
	f    journal.File
	seq  uint64
	last raft.Vote
	both bool // both slots are in the file: a vote needs no more disk space
}

const (
	voteName   = "vote"
	voteMagic  = "skvote\x01\x00"
	voteBytes  = 8 + 3*8 + 4
	voteStride = 4096 // between slots: writing one cannot damage the other
)

func openVote(fs journal.FS, dir string) (*voteFile, error) {
	v, err := openVoteFile(fs, dir, os.O_RDWR|os.O_CREATE)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(v.harden(), fs.SyncDir(dir)); err != nil {
		return nil, errors.Join(err, v.f.Close())
	}
	return v, nil
}

// readVote returns the vote without changing anything; none if there is no file.
func readVote(fs journal.FS, dir string) (raft.Vote, error) {
	v, err := openVoteFile(fs, dir, os.O_RDONLY)
	if errors.Is(err, iofs.ErrNotExist) {
		return raft.Vote{}, nil
	}
	if err != nil {
		return raft.Vote{}, err
	}
	return v.last, v.f.Close()
}

func openVoteFile(fs journal.FS, dir string, flag int) (*voteFile, error) {
	f, err := fs.OpenFile(filepath.Join(dir, voteName), flag)
	if err != nil {
		return nil, fmt.Errorf("open the vote: %w", err)
	}
	v := &voteFile{f: f}
	size, err := f.Size()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open the vote: %w", err), f.Close())
	}
	bad := 0
	for slot := range int64(2) {
		b := make([]byte, voteBytes)
		if _, err := f.ReadAt(b, slot*voteStride); err != nil && !errors.Is(err, io.EOF) {
			return nil, errors.Join(fmt.Errorf("read the vote: %w", err), f.Close())
		}
		seq, vote, ok := parseVote(b)
		switch {
		case !ok:
			bad++
		case seq > v.seq:
			v.seq, v.last = seq, vote
		}
	}
	v.both = size >= voteStride+voteBytes
	if bad == 2 && size > voteStride {
		return nil, errors.Join(lostVote(dir), f.Close())
	}
	return v, nil
}

func lostVote(dir string) error {
	return engine.Errorf(engine.CodeCorrupt, "%s: the vote is missing, or both copies of the vote are damaged; the node cannot know whom it voted for: remove it from the cluster and let a new one join",
		filepath.Join(dir, voteName))
}

// harden makes the vote that openVote read durable. It may be only in the kernel's
// memory: the process was killed before its fsync, or that fsync failed, and then a new
// one would not write it. So harden writes it again.
func (f *voteFile) harden() error {
	if f.seq == 0 {
		return nil
	}
	f.seq--
	return f.set(f.last)
}

func parseVote(b []byte) (seq uint64, v raft.Vote, ok bool) {
	if string(b[:8]) != voteMagic || crc32.Checksum(b[:voteBytes-4], castagnoli) != binary.LittleEndian.Uint32(b[voteBytes-4:]) {
		return 0, v, false
	}
	at := func(i int) uint64 { return binary.LittleEndian.Uint64(b[8+8*i:]) }
	return at(0), raft.Vote{Term: at(1), For: at(2)}, true
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// set makes v durable.
func (f *voteFile) set(v raft.Vote) error {
	b := append(make([]byte, 0, voteBytes), voteMagic...)
	for _, n := range []uint64{f.seq + 1, v.Term, v.For} {
		b = binary.LittleEndian.AppendUint64(b, n)
	}
	b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
	if _, err := f.f.WriteAt(b, int64(f.seq%2)*voteStride); err != nil {
		return fmt.Errorf("write the vote: %w", err)
	}
	if err := f.f.Sync(); err != nil {
		return fmt.Errorf("sync the vote: %w", err)
	}
	f.seq, f.last = f.seq+1, v
	if f.both {
		return nil
	}
	// Write the same vote to the other slot: its next write is then in place.
	if _, err := f.f.WriteAt(b, int64(f.seq%2)*voteStride); err != nil {
		return nil //nolint:nilerr // v is durable
	}
	if err := f.f.Sync(); err != nil {
		return fmt.Errorf("sync the vote: %w", err)
	}
	f.both = true
	return nil
}

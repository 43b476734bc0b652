package keys

import (
	"time"

	"github.com/skerrydb/skerry/engine"
)

// lastMark returns the time of the last change of the record.
func (d *Doc) lastMark() (last time.Time) {
	for _, m := range d.Marks {
		if m.At.After(last) {
			last = m.At
		}
	}
	return last
}

// Trim removes the oldest changes of a collection: those made before a time, with numbers up to upTo, and at most n. It
// returns how many it removed. An anchor remains, so that the rest of the chain can be verified and states after it can
// be read. If the chain is broken there, Trim removes nothing and returns engine.CodeCorrupt.
func Trim(tx engine.Tx, c *Collection, before time.Time, upTo uint64, n int) (int, error) {
	counters, err := ReadCounters(tx, c)
	if err != nil {
		return 0, err
	}
	var old []*Change
	for e, err := range c.driver().Log(tx, c, 0, counters.Seq+1, false) {
		if err != nil {
			return 0, err
		}
		if len(old) == n {
			break
		}
		if e.Seq > upTo {
			break
		}
		ch, err := c.logged(tx, e)
		if err != nil {
			return 0, err
		}
		if ch != nil && !ch.At.Before(before) {
			break
		}
		if e.Seq > counters.Anchor {
			if ch != nil {
				counters.AnchorHash = ch.hash(counters.AnchorHash)
			}
			if ch == nil || e.Seq != counters.Anchor+1 || string(counters.AnchorHash[:LinkBytes]) != e.Link {
				return 0, engine.Errorf(engine.CodeCorrupt, "the history of %s is not what was written: change %d does not follow the one before it", c.Name, e.Seq)
			}
			counters.Anchor, counters.AnchorAt = e.Seq, ch.At
		}
		old = append(old, &Change{ID: e.ID, Rev: e.Rev, Seq: e.Seq})
	}
	if len(old) == 0 {
		return 0, nil
	}
	for _, ch := range old {
		if err := c.driver().Forget(tx, c, ch); err != nil {
			return 0, err
		}
	}
	return len(old), counters.write(tx, c)
}

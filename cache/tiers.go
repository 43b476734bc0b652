package cache

import (
	"strconv"
	"strings"
	"time"

	"github.com/skerrydb/skerry/cache/disk"
	"github.com/skerrydb/skerry/engine"
)

// markEvery is how often the position goes to the disk tier. After a restart the feed repeats what came since.
const markEvery = time.Second

// diskFormat is the version of the encoding of entries, part of the disk tier's identity.
const diskFormat = "skerry cache 1 "

// unmarked is the mark of a cache without a feed, whose entries are true until their time is over.
const unmarked = "ttl"

// openDisk opens the disk tier and takes over the position that its entries are true for.
func (c *Cache) openDisk() error {
	d, err := disk.Open(disk.Options{Dir: c.o.Dir, MaxBytes: c.o.DiskBytes, Identity: diskFormat + c.o.Identity, Logger: c.o.Logger})
	if err != nil {
		return engine.Errorf(engine.CodeInvalid, "cache %s: open the disk tier: %w", c.o.Name, err)
	}
	c.disk = d
	mark := d.Marked()
	if c.o.Feed == nil {
		if mark != unmarked {
			d.Flush()
			d.Mark(unmarked)
		}
		return nil
	}
	history, pos, ok := ofMark(mark)
	if !ok {
		d.Flush()
		return nil
	}
	c.state.begin(history, pos)
	return nil
}

// closeDisk writes the disk tier.
func (c *Cache) closeDisk() {
	if c.disk == nil {
		return
	}
	if c.o.Feed != nil {
		if history, pos := c.state.position(); history != "" {
			c.disk.Mark(markOf(history, pos))
		}
	}
	if err := c.disk.Close(); err != nil {
		c.o.Logger.Warn("close the disk tier", "err", err)
	}
}

// markOf returns a position as the disk tier keeps it (do not change).
func markOf(history string, pos Position) string {
	return strconv.FormatUint(uint64(pos), 10) + " " + history
}

func ofMark(mark string) (history string, pos Position, ok bool) {
	number, history, ok := strings.Cut(mark, " ")
	n, err := strconv.ParseUint(number, 10, 64)
	return history, Position(n), ok && err == nil && history != ""
}

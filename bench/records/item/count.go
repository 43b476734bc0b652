package item

import (
	"context"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/keyspace"
)

// Kinds of keys of records, as record/keys/layout.go has them: the second byte of a key.
const (
	docKind     = 'd'
	entryKind   = 'i'
	uniqueKind  = 'u'
	historyKind = 'h'
	logKind     = 'l'
)

// Count counts the records and changes of Skerry in its engine, and their bytes there: of keys and values, without what
// the engine needs besides.
func Count(ctx context.Context, eng engine.Engine) (r Report, err error) {
	_, err = eng.View(ctx, engine.Read{}, func(tx engine.Tx) error {
		r = Report{}
		for p, err := range tx.Scan([]byte{keyspace.Records}, []byte{keyspace.Records + 1}) {
			if err != nil {
				return err
			}
			size := int64(len(p.Key) + len(p.Val))
			switch p.Key[1] {
			case docKind:
				r.Records++
				r.RecordBytes += size
			case entryKind, uniqueKind:
				r.RecordBytes += size
			case historyKind:
				r.Changes++
				r.HistoryBytes += size
			case logKind:
				r.HistoryBytes += size
			}
		}
		return nil
	})
	return r, err
}

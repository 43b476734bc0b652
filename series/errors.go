package series

import "github.com/skerrydb/skerry/engine"

// The codes of this package.
const (
	CodeNoCollection  engine.Code = "series_no_collection"
	CodeTooOld        engine.Code = "series_too_old"
	CodeTooNew        engine.Code = "series_too_new"
	CodeLabels        engine.Code = "series_labels"
	CodeTooManySeries engine.Code = "series_too_many"
	CodeBatchTooLarge engine.Code = "series_batch_too_large"
	CodeBusy          engine.Code = "series_busy"
	CodeQueryLimit    engine.Code = "series_query_limit"
	CodeMatcher       engine.Code = "series_matcher"
	CodePartial       engine.Code = "series_partial"
	CodeGone          engine.Code = "series_gone"
)

// Catalog returns the package's codes.
func Catalog() []engine.Meaning {
	return []engine.Meaning{
		{Code: CodeBatchTooLarge, Kind: engine.KindTooLarge, Text: "one write has too many samples; nothing was written"},
		{Code: CodeBusy, Kind: engine.KindRateLimited, Retryable: true, Text: "samples arrive faster than they are compressed; nothing was written"},
		{Code: CodeGone, Kind: engine.KindGone, Text: "a series of the batch has expired or was deleted; nothing was written; define it again"},
		{Code: CodeLabels, Kind: engine.KindInvalid, Text: "the name or a label of a series is malformed or too long, or comes twice"},
		{Code: CodeMatcher, Kind: engine.KindInvalid, Text: "a label matcher is malformed"},
		{Code: CodeNoCollection, Kind: engine.KindNotFound, Text: "the program has no collection of series with that name"},
		{Code: CodePartial, Kind: engine.KindInvalid, Text: "some lines of the request were refused, as the response lists; all others were written"},
		{Code: CodeQueryLimit, Kind: engine.KindTooLarge, Text: "the query would read or return more than a limit; narrow its time or its matchers"},
		{Code: CodeTooManySeries, Kind: engine.KindRefused, Text: "the collection has as many series as it may have; samples of existing series are still accepted"},
		{Code: CodeTooNew, Kind: engine.KindRefused, Text: "the time of a sample is too far in the future"},
		{Code: CodeTooOld, Kind: engine.KindRefused, Text: "the time of a sample is before the collection's window or retention"},
	}
}

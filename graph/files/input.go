package files

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
)

// errRecord: a record is longer than the limit.
var errRecord = errors.New("the record is too long")

// input reads a file, and no more of it at once than a record may have.
type input struct {
	name   string
	rc     io.ReadCloser
	b      *bufio.Reader
	offset int64 // of what is read next
	left   int   // bytes that may be read of this record
	err    error // why reading failed; not io.EOF
}

// openFile opens a file and skips its byte order mark.
func openFile(f File) (*input, error) {
	rc, err := f.Open()
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", f.label(), err)
	}
	in := &input{name: f.Name, rc: rc, b: bufio.NewReaderSize(rc, 64<<10)}
	if mark, _ := in.b.Peek(3); bytes.Equal(mark, []byte("\ufeff")) {
		in.offset = 3
		_, err = in.b.Discard(3)
	}
	return in, err
}

func (f File) label() string {
	if f.Name == "" {
		return "the file"
	}
	return f.Name
}

// recordSlack is how much a reader may read beyond a record.
const recordSlack = 64 << 10

// next begins a record. A reader checks its length exactly when it has it.
func (in *input) next(o ReadOptions) { in.left = o.RecordBytes + recordSlack }

func (in *input) close() error { return in.rc.Close() }

func (in *input) note(err error) error {
	if err != nil && !errors.Is(err, io.EOF) && in.err == nil {
		in.err = err
	}
	return err
}

// ReadByte implements io.ByteReader.
func (in *input) ReadByte() (byte, error) {
	if in.left <= 0 {
		return 0, in.note(errRecord)
	}
	c, err := in.b.ReadByte()
	if err == nil {
		in.left--
		in.offset++
	}
	return c, in.note(err)
}

// Read implements io.Reader.
func (in *input) Read(p []byte) (int, error) {
	if in.left <= 0 {
		return 0, in.note(errRecord)
	}
	n, err := in.b.Read(p[:min(len(p), in.left)])
	in.left -= n
	in.offset += int64(n)
	return n, in.note(err)
}

// line returns the next line without its end, which is valid until the next call.
// io.EOF: there is none. errRecord: it has more than most bytes.
func (in *input) line(buf []byte, most int) ([]byte, error) {
	buf = buf[:0]
	for {
		part, err := in.b.ReadSlice('\n')
		in.offset += int64(len(part))
		buf = append(buf, part...)
		if len(bytes.TrimRight(buf, "\r\n")) > most {
			return nil, errRecord
		}
		switch {
		case err == nil, errors.Is(err, io.EOF) && len(buf) > 0:
			return bytes.TrimRight(buf, "\r\n"), nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		}
		buf = slices.Grow(buf, len(buf))
	}
}

// reading wraps why a file could not be read.
func reading(name string, err error) error {
	return fmt.Errorf("read %s: %w", File{Name: name}.label(), err)
}

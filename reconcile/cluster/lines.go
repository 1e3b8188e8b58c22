package cluster

import (
	"bufio"
	"errors"
	"io"

	"k8s.io/apimachinery/pkg/runtime"
)

// lines finds the end of each event: the API server ends each with a line feed, and there is none
// in JSON that it writes.
type lines struct {
	runtime.Framer

	way *way
}

// NewFrameReader reads an event at a time.
func (l lines) NewFrameReader(r io.ReadCloser) io.ReadCloser {
	if l.way.left.Load() {
		return l.Framer.NewFrameReader(r)
	}
	return &lineReader{Closer: r, from: bufio.NewReaderSize(r, buffer)}
}

// buffer is more than most events have.
const buffer = 16 << 10

// lineReader reads a line at a time, as a frame reader does: what does not fit comes with the next
// Read, and io.ErrShortBuffer says so.
type lineReader struct {
	io.Closer

	from *bufio.Reader
	// rest is what did not fit, and within reports that the line goes on after it.
	rest   []byte
	within bool
}

// Read reads a line, or as much of it as fits. A line without an end is none.
func (l *lineReader) Read(into []byte) (n int, err error) {
	for {
		copied := copy(into[n:], l.rest)
		n, l.rest = n+copied, l.rest[copied:]
		switch {
		case len(l.rest) > 0:
			return n, io.ErrShortBuffer
		case n > 0 && !l.within:
			return n, nil
		}
		part, err := l.from.ReadSlice('\n')
		begun := l.within || len(part) > 0
		l.rest, l.within = part, errors.Is(err, bufio.ErrBufferFull)
		if err != nil && !l.within {
			l.rest = nil
			if begun && errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return 0, err
		}
	}
}

package gitproxy

import (
	"net/http"
	"time"
)

// A slow line: one drop per interval, 10 kB a second.
const (
	drop  = 500
	every = 50 * time.Millisecond
)

// trickle is a response over a slow line until that is fixed.
type trickle struct {
	http.ResponseWriter
	r      *http.Request
	mended <-chan struct{}
}

// Write writes drop by drop.
func (t trickle) Write(p []byte) (n int, err error) {
	for len(p) > 0 {
		size := drop
		select {
		case <-t.mended:
			size = len(p)
		case <-time.After(every):
		case <-t.r.Context().Done():
			return n, t.r.Context().Err()
		}
		written, err := t.ResponseWriter.Write(p[:min(size, len(p))])
		n += written
		if err != nil {
			return n, err
		}
		_ = http.NewResponseController(t.ResponseWriter).Flush() // without flushing, it is sent at the end
		p = p[written:]
	}
	return n, nil
}

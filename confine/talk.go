package confine

import (
	"bufio"
	"fmt"
	"io"
)

// Talk is a conversation between a process and its child, message by message.
type Talk struct {
	in  *reader
	out *bufio.Writer
	// broken is why there is nobody to talk to any more.
	broken error
}

func newTalk(in io.Reader, out io.Writer) *Talk {
	const buffer = 64 << 10
	return &Talk{in: &reader{in: bufio.NewReaderSize(in, buffer), left: mostValues}, out: bufio.NewWriterSize(out, buffer)}
}

// Send sends a message: null, bool, int, int64, float64, string, and lists ([]any) and
// maps (map[string]any) of these.
func (t *Talk) Send(message any) error {
	err := write(t.out, message)
	if err == nil {
		err = t.out.Flush()
	}
	if err != nil {
		t.broken = fmt.Errorf("send: %w", err)
	}
	return t.broken
}

// Receive waits for a message. Whole numbers come as int64.
func (t *Talk) Receive() (any, error) {
	message, err := t.in.value(0)
	if err != nil {
		t.broken = fmt.Errorf("receive: %w", err)
		return nil, t.broken
	}
	return message, nil
}

package recording

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
)

// idle is the longest pause of a player, in seconds.
const idle = 2

// Cast writes what is written to it as an asciicast: https://docs.asciinema.org/manual/asciicast/v2.
type Cast struct {
	out   io.Writer
	began time.Time
	now   func() time.Time
}

// NewCast starts a recording of a terminal of this size.
func NewCast(out io.Writer, title string, columns, rows int, now func() time.Time) (*Cast, error) {
	header := map[string]any{"version": 2, "width": columns, "height": rows, "title": title, "idle_time_limit": idle}
	text, err := json.Marshal(header)
	if err != nil {
		return nil, err
	}
	if _, err := fmt.Fprintf(out, "%s\n", text); err != nil {
		return nil, err
	}
	return &Cast{out: out, began: now(), now: now}, nil
}

// Write records that a text is shown now. A line feed also moves the cursor to the start of the line.
func (c *Cast) Write(text []byte) (int, error) {
	shown := strings.ReplaceAll(strings.ReplaceAll(string(text), "\r\n", "\n"), "\n", "\r\n")
	data, err := json.Marshal(shown)
	if err != nil {
		return 0, err
	}
	if _, err := fmt.Fprintf(c.out, "[%.3f, \"o\", %s]\n", c.now().Sub(c.began).Seconds(), data); err != nil {
		return 0, err
	}
	return len(text), nil
}

package capture

import (
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// largest is how many bytes a file unpacks to at most: ten times what 10,000 nodes with 50,000
// pods take.
const largest = 1 << 30

// Encode writes a Capture as JSON in gzip, without a time, so that equal ones make equal files.
func (c *Capture) Encode(out io.Writer) error {
	packed := gzip.NewWriter(out)
	if err := json.NewEncoder(packed).Encode(c); err != nil {
		return fmt.Errorf("write the snapshot: %w", err)
	}
	return packed.Close()
}

// Decode reads a file that Encode wrote.
func Decode(in io.Reader) (*Capture, error) { return decode(in, largest) }

func decode(in io.Reader, most int64) (*Capture, error) {
	packed, err := gzip.NewReader(in)
	if err != nil {
		return nil, fmt.Errorf("it is no file of plumbline snapshot: %w", err)
	}
	bounded := &io.LimitedReader{R: packed, N: most}
	c := &Capture{}
	decoder := json.NewDecoder(bounded)
	err = decoder.Decode(c)
	switch {
	case bounded.N <= 0:
		return nil, fmt.Errorf("it unpacks to more than %d MiB", most>>20)
	case errors.Is(err, io.ErrUnexpectedEOF):
		return nil, errors.New("it is cut off: make it again with plumbline snapshot")
	case c.Version != Version && c.Version != 0: // it is the first field, and is read where the others are not
		return nil, fmt.Errorf("it is of version %d, and this plumbline reads version %d: make it again with this one", c.Version, Version)
	case err != nil:
		return nil, fmt.Errorf("it is no file of plumbline snapshot: %w", err)
	case c.Version == 0:
		return nil, errors.New("it is no file of plumbline snapshot: it has no version")
	}
	return c, nil
}

package confine

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
)

// The kinds of values on the wire, each followed by its content.
const (
	wireNull   = 'n'
	wireTrue   = 't'
	wireFalse  = 'f'
	wireInt    = 'i' // a varint
	wireFloat  = 'd' // eight bytes
	wireString = 's' // its length, and the bytes
	wireList   = 'l' // its length, and the values
	wireMap    = 'm' // its length, and keys and values
)

const (
	// maxValues limits the values that one side may send, so that a few megabytes of empty lists do not take hundreds
	// in memory.
	maxValues = 2_000_000
	// longestString limits one string.
	longestString = 64 << 20
	// deepest is how deep values may nest.
	deepest = 1000
)

// errWire reports that the other side sent an invalid message.
var errWire = errors.New("the message is malformed")

// write encodes a value: null, bool, int, int64, float64, string, []any and map[string]any. Unlike JSON it
// distinguishes integers from floats, and supports strings that are not UTF-8.
func write(out *bufio.Writer, value any) error {
	switch v := value.(type) {
	case nil:
		return out.WriteByte(wireNull)
	case bool:
		if v {
			return out.WriteByte(wireTrue)
		}
		return out.WriteByte(wireFalse)
	case int:
		return writeInt(out, int64(v))
	case int64:
		return writeInt(out, v)
	case float64:
		_, err := out.Write(binary.BigEndian.AppendUint64([]byte{wireFloat}, math.Float64bits(v)))
		return err
	case string:
		if err := writeLength(out, wireString, len(v)); err != nil {
			return err
		}
		_, err := out.WriteString(v)
		return err
	case []any:
		if err := writeLength(out, wireList, len(v)); err != nil {
			return err
		}
		for _, item := range v {
			if err := write(out, item); err != nil {
				return err
			}
		}
		return nil
	case map[string]any:
		return writeMap(out, v)
	}
	return fmt.Errorf("a value of type %T cannot be sent", value)
}

func writeMap(out *bufio.Writer, value map[string]any) error {
	if err := writeLength(out, wireMap, len(value)); err != nil {
		return err
	}
	// Sorted, so that equal values have equal bytes.
	for _, key := range slices.Sorted(maps.Keys(value)) {
		if err := write(out, key); err != nil {
			return err
		}
		if err := write(out, value[key]); err != nil {
			return err
		}
	}
	return nil
}

func writeInt(out *bufio.Writer, v int64) error {
	_, err := out.Write(binary.AppendVarint([]byte{wireInt}, v))
	return err
}

func writeLength(out *bufio.Writer, kind byte, n int) error {
	_, err := out.Write(binary.AppendUvarint([]byte{kind}, uint64(n)))
	return err
}

// reader decodes messages, and counts their values.
type reader struct {
	in   *bufio.Reader
	left int
}

func (r *reader) value(depth int) (any, error) {
	if r.left--; r.left < 0 || depth > deepest {
		return nil, fmt.Errorf("%w: it has too many values", errWire)
	}
	kind, err := r.in.ReadByte()
	if err != nil {
		return nil, err
	}
	switch kind {
	case wireNull:
		return nil, nil
	case wireTrue, wireFalse:
		return kind == wireTrue, nil
	case wireInt:
		return binary.ReadVarint(r.in)
	case wireFloat:
		var raw [8]byte
		_, err := io.ReadFull(r.in, raw[:])
		return math.Float64frombits(binary.BigEndian.Uint64(raw[:])), err
	case wireString:
		return r.text()
	case wireList:
		return r.list(depth)
	case wireMap:
		return r.object(depth)
	}
	return nil, fmt.Errorf("%w: a value of kind %q", errWire, kind)
}

// length reads a length, up to a limit.
func (r *reader) length(most int) (int, error) {
	n, err := binary.ReadUvarint(r.in)
	if err == nil && n > uint64(most) {
		err = fmt.Errorf("%w: a length of %d", errWire, n)
	}
	return int(min(n, uint64(most))), err
}

func (r *reader) text() (string, error) {
	n, err := r.length(longestString)
	if err != nil {
		return "", err
	}
	// Allocate for what has arrived, not for what was announced.
	if n <= r.in.Size() {
		text := make([]byte, n)
		_, err := io.ReadFull(r.in, text)
		return string(text), err
	}
	text, err := io.ReadAll(io.LimitReader(r.in, int64(n)))
	if err == nil && len(text) < n {
		err = io.ErrUnexpectedEOF
	}
	return string(text), err
}

func (r *reader) list(depth int) (any, error) {
	n, err := r.length(r.left)
	if err != nil {
		return nil, err
	}
	list := make([]any, 0, min(n, 1024))
	for range n {
		item, err := r.value(depth + 1)
		if err != nil {
			return nil, err
		}
		list = append(list, item)
	}
	return list, nil
}

func (r *reader) object(depth int) (any, error) {
	n, err := r.length(r.left)
	if err != nil {
		return nil, err
	}
	object := make(map[string]any, min(n, 1024))
	for range n {
		key, err := r.value(depth + 1)
		if err != nil {
			return nil, err
		}
		name, ok := key.(string)
		if !ok {
			return nil, fmt.Errorf("%w: a key of type %T", errWire, key)
		}
		if object[name], err = r.value(depth + 1); err != nil {
			return nil, err
		}
	}
	return object, nil
}

// Talk is a connection between a process and its child, which exchanges messages.
type Talk struct {
	in  *reader
	out *bufio.Writer
	// broken is why the connection failed.
	broken error
}

func newTalk(in io.Reader, out io.Writer) *Talk {
	const buffer = 64 << 10
	return &Talk{in: &reader{in: bufio.NewReaderSize(in, buffer), left: maxValues}, out: bufio.NewWriterSize(out, buffer)}
}

// Send sends a message: null, bool, int, int64, float64, string, and lists ([]any) and maps (map[string]any) of these.
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

// Receive waits for a message. Integers are returned as int64.
func (t *Talk) Receive() (any, error) {
	message, err := t.in.value(0)
	if err != nil {
		t.broken = fmt.Errorf("receive: %w", err)
		return nil, t.broken
	}
	return message, nil
}

// The exit codes of a child.
const (
	childDone   = 0
	childFailed = 3
)

// serve runs a job in a child, and exits the process.
func serve(job Job, limits Limits) {
	// The garbage collector works harder close to the limit; a second processor lets it run in parallel to the work.
	debug.SetMemoryLimit(limits.Memory * 7 / 10)
	debug.SetMaxStack(int(limits.Memory / 4))
	runtime.GOMAXPROCS(2)
	refused := harden(limits)
	t := newTalk(os.Stdin, os.Stdout)
	if job == nil || t.Send(strings.Join(refused, "; ")) != nil || job(t) != nil {
		os.Exit(childFailed)
	}
	os.Exit(childDone)
}

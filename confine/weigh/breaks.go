package weigh

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
	"unicode/utf16"
)

// Breaks refuses text with a character that is a line break for YAML but not for people who read the text: what follows
// a comment would be a field. Errors: *Error.
func Breaks(data []byte) error {
	text := decoded(data)
	for at, c := range text {
		switch c {
		case '\u0085', '\u2028', '\u2029':
		case '\r':
			if at+1 == len(text) || text[at+1] == '\n' {
				continue
			}
		default:
			continue
		}
		return &Error{
			Line:    1 + strings.Count(text[:at], "\n"),
			Message: fmt.Sprintf("it has the character %U, which ends a line for YAML and may not show as one in a review: remove it", c),
		}
	}
	return nil
}

// decoded returns text as YAML reads it: as UTF-16 if it starts with that byte order mark.
func decoded(data []byte) string {
	for mark, order := range map[string]binary.ByteOrder{"\xff\xfe": binary.LittleEndian, "\xfe\xff": binary.BigEndian} {
		if !bytes.HasPrefix(data, []byte(mark)) {
			continue
		}
		units := make([]uint16, len(data)/2)
		for i := range units {
			units[i] = order.Uint16(data[2*i:])
		}
		return string(utf16.Decode(units))
	}
	return string(data)
}

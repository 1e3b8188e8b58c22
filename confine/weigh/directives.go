package weigh

import (
	"bytes"
	"encoding/binary"
	"unicode/utf8"
)

// directives counts the lines that start with a percent sign, as YAML splits lines: in UTF-8, or in UTF-16 if the text
// starts with that byte order mark.
func directives(text []byte) int {
	next := func(text []byte) (rune, int) { return utf8.DecodeRune(text) }
	for mark, order := range map[string]binary.ByteOrder{"\xff\xfe": binary.LittleEndian, "\xfe\xff": binary.BigEndian} {
		if bytes.HasPrefix(text, []byte(mark)) {
			next = func(text []byte) (rune, int) {
				if len(text) < 2 {
					return utf8.RuneError, len(text)
				}
				return rune(order.Uint16(text)), 2
			}
		}
	}
	count, begins := 0, true
	for len(text) > 0 {
		c, size := next(text)
		text = text[size:]
		switch c {
		case '%':
			if begins {
				count++
			}
			begins = false
		case '\n', '\r', '\u0085', '\u2028', '\u2029':
			begins = true
		case '\ufeff': // a byte order mark at the start of a text
		default:
			begins = false
		}
	}
	return count
}

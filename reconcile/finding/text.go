package finding

import (
	"fmt"
	"strings"

	"github.com/plumbline-dev/plumbline/internal/shortlist"
)

// MaxNamed limits how many objects one message lists.
const MaxNamed = 5

// Some lists the first few and counts the rest.
func Some(names []string) string { return Few(names, ", ") }

// SomeOf is Some for Stringers.
func SomeOf[T fmt.Stringer](values []T) string {
	names := make([]string, 0, len(values))
	for _, value := range values {
		names = append(names, value.String())
	}
	return Some(names)
}

// Few is Some with another separator than a comma.
func Few(words []string, separator string) string { return shortlist.Join(words, MaxNamed, separator) }

// First lists the first three, without the number of the rest.
func First(names []string) string {
	const few = 3
	if len(names) > few {
		return strings.Join(names[:few], ", ") + " and others"
	}
	return strings.Join(names, ", ")
}

// cutShort is the end of a truncated message.
const cutShort = " … (cut)"

// Bounded truncates a message to a number of bytes: at the end of a line, or else of a word, if there is one in its
// last half.
func Bounded(message string, limit int) string {
	if len(message) <= limit {
		return message
	}
	short := strings.ToValidUTF8(message[:limit-len(cutShort)], "")
	for _, end := range []string{"\n", " "} {
		if i := strings.LastIndex(short, end); i > len(short)/2 {
			short = short[:i]
			break
		}
	}
	return short + cutShort
}

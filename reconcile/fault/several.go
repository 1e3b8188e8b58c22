package fault

import (
	"fmt"
	"strings"
)

// manyErrors are errors of many objects, most often with one cause.
type manyErrors []error

// told is how many of them a message spells out.
const told = 3

// Several joins errors; nil where there are none.
func Several(errs []error) error {
	if len(errs) == 0 {
		return nil
	}
	return manyErrors(errs)
}

// Error has the words of the first few, and says how many there are beside.
func (m manyErrors) Error() string {
	words := make([]string, 0, told+1)
	for _, err := range m[:min(told, len(m))] {
		words = append(words, err.Error())
	}
	if more := len(m) - told; more > 0 {
		words = append(words, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(words, "; ")
}

// Unwrap returns all of them.
func (m manyErrors) Unwrap() []error { return m }

// Apart takes joined errors apart.
func Apart(err error) []error {
	if err == nil {
		return nil
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return joined.Unwrap()
	}
	return []error{err}
}

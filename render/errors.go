package render

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/plumbline-dev/plumbline/internal/shortlist"
	"github.com/plumbline-dev/plumbline/redact"
)

// Error is one mistake in one place of the repository.
type Error struct {
	// File from the repository's root.
	File string
	// Line from 1; 0 if a kustomization made the object, or if the error is about the file as a whole.
	Line    int
	Message string
}

// Error returns file:line: message.
func (e Error) Error() string {
	text := fmt.Sprintf("%s: %s", Origin{File: e.File, Line: e.Line}, e.Message)
	if len(text) > longestError {
		text = strings.ToValidUTF8(text[:longestError], "") + "…"
	}
	return redact.VisibleName(text)
}

// longestError is the length at which the text of one error is cut, in bytes: names and paths in it are chosen by the
// committer.
const longestError = 4 << 10

// Errors is everything that is wrong, in the order of files and lines.
type Errors []Error

// firstLine is the maximum length of the first line, so that it fits a commit status.
const firstLine = 110

// maxListed limits how many errors are listed: a commit can have any number.
const maxListed = 100

// Error returns a first line for a commit status; if that does not contain everything, a line for each error follows.
func (e Errors) Error() string {
	if len(e) == 0 {
		return "no error"
	}
	all := e.Distinct()
	head, rest := short(all[0].Error()), ""
	if len(e) > 1 {
		rest = shortlist.More(" (", len(e)-1) + ")"
	}
	if len(e) == 1 && head == all[0].Error() {
		return head
	}
	var text strings.Builder
	text.WriteString(head + rest)
	for _, one := range all[:min(len(all), maxListed)] {
		text.WriteString("\n" + one.Error())
	}
	text.WriteString(shortlist.More("\n… ", len(all)-maxListed))
	return text.String()
}

// manyPlaces is the number of places from which on a message is listed only once.
const manyPlaces = 3

// Distinct returns the errors for people: a message with many places is listed once, after those with few places, which
// it would bury.
func (e Errors) Distinct() Errors {
	places := map[string]int{}
	for _, one := range e {
		places[one.Message]++
	}
	var few, many Errors
	for _, one := range e {
		switch n := places[one.Message]; {
		case n >= manyPlaces:
			places[one.Message] = 0 // it is listed now
			one.Message = fmt.Sprintf("%s (and in %d other places)", one.Message, n-1)
			many = append(many, one)
		case n > 0:
			few = append(few, one)
		}
	}
	return append(few, many...)
}

// Unwrap returns the errors one by one, for errors.As.
func (e Errors) Unwrap() []error {
	all := make([]error, 0, len(e))
	for _, one := range e {
		all = append(all, one)
	}
	return all
}

// sorted puts the errors in order, each once.
func (e Errors) sorted() Errors {
	slices.SortFunc(e, func(a, b Error) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Message, b.Message))
	})
	return slices.Compact(e)
}

func short(text string) string {
	text, _, _ = strings.Cut(text, "\n")
	runes := []rune(text)
	if len(runes) <= firstLine {
		return text
	}
	return string(runes[:firstLine-1]) + "…"
}

// MissingError reports that the path, or its plumbline.yaml, is not in the repository.
type MissingError struct {
	// Path is the path as requested.
	Path string
	// File is the missing file, from the repository's root.
	File string
}

// Error names what is missing and what to do.
func (e *MissingError) Error() string {
	return fmt.Sprintf("%s is not in the repository: put it there, or correct the path %q", e.File, e.Path)
}

// EmptyError reports that a path renders no object at all.
type EmptyError struct {
	Path string
}

// Error explains what an empty render would cause.
func (e *EmptyError) Error() string {
	return fmt.Sprintf("path %q holds no NodePool and no EC2NodeClass: refused, since it would remove every node; to release the nodes, delete the NodeSync", e.Path)
}

package redact

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Mask stands for what is hidden.
const Mask = "***"

// What is shorter than its limit is hidden as a word, and not within longer ones:
// values of a chart may be words such as "info", and credentials hardly are.
const (
	shortValue      = 8
	shortCredential = 4
)

// Redactor hides values. The zero value hides nothing.
type Redactor struct{ forms []form }

// form is one way in which a message may write a value.
type form struct {
	text string
	// word reports whether it is hidden only where it stands by itself.
	word bool
}

// Values hides what came out of a Secret into values of a chart.
func Values(values ...string) Redactor { return newRedactor(shortValue, values) }

// Credentials hides passwords, tokens and keys.
func Credentials(values ...string) Redactor { return newRedactor(shortCredential, values) }

func newRedactor(short int, values []string) Redactor {
	var r Redactor
	for _, value := range values {
		for _, text := range encodings(strings.TrimSpace(value)) {
			r.forms = append(r.forms, form{text: text, word: len(text) < short})
		}
	}
	return r.sorted()
}

// And hides what either of two hides.
func (r Redactor) And(other Redactor) Redactor {
	return Redactor{forms: slices.Concat(r.forms, other.forms)}.sorted()
}

// sorted has the longer forms first, which others may be parts of.
func (r Redactor) sorted() Redactor {
	slices.SortFunc(r.forms, func(a, b form) int {
		return cmp.Or(len(b.text)-len(a.text), strings.Compare(a.text, b.text), compareWord(a.word, b.word))
	})
	r.forms = slices.CompactFunc(r.forms, func(a, b form) bool { return a.text == b.text })
	return r
}

// compareWord has what is hidden everywhere before what is hidden as a word.
func compareWord(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// Hide takes all values out of a message.
func (r Redactor) Hide(message string) string {
	for _, form := range r.forms {
		if form.word {
			message = hideWord(message, form.text)
			continue
		}
		message = strings.ReplaceAll(message, form.text, Mask)
	}
	return message
}

// hideWord takes a short text out where it stands by itself.
func hideWord(message, word string) string {
	var out strings.Builder
	done := 0
	for from := 0; ; {
		found := strings.Index(message[from:], word)
		if found < 0 {
			out.WriteString(message[done:])
			return out.String()
		}
		start := from + found
		end := start + len(word)
		left, _ := utf8.DecodeLastRuneInString(message[:start])
		right, _ := utf8.DecodeRuneInString(message[end:])
		if inWord(left) || inWord(right) {
			from = start + 1
			continue
		}
		out.WriteString(message[done:start])
		out.WriteString(Mask)
		done, from = end, end
	}
}

func inWord(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }

// Error is an error whose message has lost every value. It can still be asked with
// errors.Is, but what is below it is out of reach: that may have a value in its message.
func (r Redactor) Error(err error) error {
	if err == nil {
		return nil
	}
	message := r.Hide(err.Error())
	if message == err.Error() {
		return err
	}
	return &redacted{message: message, err: err}
}

type redacted struct {
	message string
	err     error
}

func (e *redacted) Error() string        { return e.message }
func (e *redacted) Is(target error) bool { return errors.Is(e.err, target) }

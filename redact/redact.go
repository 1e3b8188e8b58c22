package redact

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Mask replaces what is hidden.
const Mask = "***"

// Texts shorter than the limit are hidden only as whole words, not within longer ones: values of a chart may be words
// such as "info", and credentials hardly ever are.
const (
	shortValue      = 8
	shortCredential = 4
)

// Redactor hides values. The zero value hides nothing.
type Redactor struct{ forms []form }

// form is one encoding of a value in a message.
type form struct {
	text string
	// word reports whether it is hidden only as a whole word.
	word bool
}

// Values hides values of Secrets that are used as values of a chart.
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

// And hides what either of the two hides.
func (r Redactor) And(other Redactor) Redactor {
	return Redactor{forms: slices.Concat(r.forms, other.forms)}.sorted()
}

// sorted puts longer forms first, because they may contain shorter ones.
func (r Redactor) sorted() Redactor {
	slices.SortFunc(r.forms, func(a, b form) int {
		return cmp.Or(len(b.text)-len(a.text), strings.Compare(a.text, b.text), compareWord(a.word, b.word))
	})
	r.forms = slices.CompactFunc(r.forms, func(a, b form) bool { return a.text == b.text })
	return r
}

// compareWord sorts what is hidden everywhere before what is hidden as a word.
func compareWord(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// Hide replaces all values in a message.
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

// hideWord replaces a short text if it is a whole word.
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

// Error returns an error whose message contains no value. It works with errors.Is but does not unwrap, because the
// wrapped error may have a value in its message.
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

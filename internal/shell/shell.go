// Package shell writes text into commands that a user copies.
package shell

import (
	"regexp"
	"strings"
)

// plain matches a text that needs no quotes in a POSIX shell.
var plain = regexp.MustCompile(`^[A-Za-z0-9._/+@%:,=-]+$`)

// Word returns a text as one word of a POSIX shell.
func Word(text string) string {
	if plain.MatchString(text) {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

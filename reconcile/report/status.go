package report

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"strings"
	"unicode/utf8"
)

// Poster posts a commit status.
type Poster interface {
	Post(ctx context.Context, s Status) error
}

// State of a commit status.
type State string

// The states, as the NodeSync's status has them. Each host has its own words.
const (
	Pending State = "pending"
	Success State = "success"
	Failure State = "failure"
)

// Status is one commit status.
type Status struct {
	// Commit is the full hash of the commit.
	Commit string
	// Context names the status among others on the same commit.
	Context string
	State   State
	// Description of at most MaxDescription characters; longer ones are
	// truncated.
	Description string
	// TargetURL is where the host links to. It may be empty.
	TargetURL string
}

// mention is what a host may take for the name of a user.
var mention = regexp.MustCompile(`(^|[^\w@])@+(\w)`)

// MaxDescription is the longest description that every host takes, in characters.
const MaxDescription = 140

// Truncate puts a description on one line and shortens it to MaxDescription
// characters, at the end of a word where there is one, with an ellipsis. What a commit has in it mentions nobody,
// and is no code, on a host that reads Markdown in it.
func Truncate(description string) string {
	words := strings.Fields(mention.ReplaceAllString(strings.ReplaceAll(description, "`", "'"), "$1$2"))
	line := strings.Join(words, " ")
	if utf8.RuneCountInString(line) <= MaxDescription {
		return line
	}
	short := ""
	for _, word := range words {
		longer := strings.TrimPrefix(short+" "+word, " ")
		if utf8.RuneCountInString(longer) >= MaxDescription {
			break
		}
		short = longer
	}
	if utf8.RuneCountInString(short) < MaxDescription/2 {
		short = string([]rune(line)[:MaxDescription-1]) // one very long word
	}
	return strings.TrimRight(short, " …") + "…"
}

// longestName is the longest context that every host but Bitbucket Cloud takes, in
// characters.
const longestName = 255

// shorten is a context as a host takes it: the beginning of one that is too long, and ten
// digits of the SHA-256 of all of it, so that two are never the same.
func shorten(context string, longest int) string {
	if utf8.RuneCountInString(context) <= longest {
		return context
	}
	const digits = 10
	sum := sha256.Sum256([]byte(context))
	cut := strings.TrimRight(string([]rune(context)[:longest-digits-1]), "/.-")
	return cut + "-" + hex.EncodeToString(sum[:])[:digits]
}

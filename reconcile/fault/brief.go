package fault

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxBrief is the longest text of a Brief, in characters: Git hosts take no more
// in a commit status.
const MaxBrief = 140

// maxWhere is how much of the place a Brief keeps where it has to cut something: the
// file's own name and its folder's.
const maxWhere = 40

// Brief is what is wrong, for a commit status: the object and the reason first.
type Brief struct {
	// What names the object and the reason.
	What string
	// Cause is what another program said. Where it has to be cut, its middle is
	// left out: such texts begin with the place and end with the reason.
	Cause string
	// Then is what a person does about it, such as the digest to approve. It is never cut.
	Then string
	// Where is the place in the repository: file and line.
	Where string
}

// String is one line of at most MaxBrief characters.
func (b Brief) String() string {
	what, cause, where, then := oneLine(b.What), oneLine(b.Cause), oneLine(b.Where), oneLine(b.Then)
	if cause != "" {
		what += ": "
	}
	if then != "" {
		then = "; " + then
	}
	if whole := what + cause + then + within(where); runes(whole) <= MaxBrief {
		return whole
	}
	end := then + within(tail(where))
	room := MaxBrief - runes(end)
	if left := room - runes(what); cause != "" && left >= leastCause {
		return what + elide(cause, left) + end
	}
	return cut(what+cause, room) + end
}

// leastCause is the room below which both ends of a Cause would say nothing.
const leastCause = 30

// Map is the Brief with each of its texts changed.
func (b Brief) Map(change func(string) string) Brief {
	return Brief{What: change(b.What), Cause: change(b.Cause), Then: change(b.Then), Where: change(b.Where)}
}

// Brief is the error for a commit status.
func (e *Error) Brief() Brief { return BriefOf(e) }

// BriefOf shortens an error: by its type where the table knows one, else the
// message as it is. Of joined errors the gravest is given, and how many there are
// beside it.
func BriefOf(err error) Brief {
	for at := err; at != nil; at = errors.Unwrap(at) {
		if b, ok := briefOf(at); ok {
			return b
		}
		if joined, ok := at.(interface{ Unwrap() []error }); ok {
			return briefOfSeveral(joined.Unwrap())
		}
	}
	if err == nil {
		return Brief{}
	}
	message := err.Error()
	if words := notAllowed(message); words != "" {
		return Brief{What: words}
	}
	if words := conversion(message); words != "" {
		return Brief{What: words}
	}
	return plain(err)
}

// maxPrefix is how much an error may be wrapped in and still be given with that.
const maxPrefix = 75

// plain is the message of an error. Where it is too long, what it is wrapped in is
// dropped, unless that is short enough to leave room for the cause.
func plain(err error) Brief {
	message, inner := oneLine(err.Error()), errors.Unwrap(err)
	if runes(message) <= MaxBrief || inner == nil {
		return Brief{What: message}
	}
	cause := oneLine(inner.Error())
	prefix, wraps := strings.CutSuffix(message, cause)
	prefix = strings.TrimSuffix(prefix, ": ")
	switch {
	case !wraps:
		return Brief{What: message}
	case prefix != "" && runes(prefix) <= maxPrefix:
		return Brief{What: prefix, Cause: cause}
	}
	return plain(inner)
}

func briefOf(err error) (Brief, bool) {
	for _, of := range briefs() {
		if b, ok := of(err); ok {
			return b, true
		}
	}
	return Brief{}, false
}

func briefOfSeveral(errs []error) Brief {
	worst := gravest(errs)
	if worst == nil {
		return Brief{}
	}
	b := BriefOf(worst)
	n := 0
	for _, err := range errs {
		if err != nil {
			n++
		}
	}
	if n > 1 {
		b.Where = strings.TrimPrefix(fmt.Sprintf("%s, and %d more", b.Where, n-1), ", ")
	}
	return b
}

func within(where string) string {
	if where == "" {
		return ""
	}
	return " (" + where + ")"
}

// tail is the end of a path.
func tail(where string) string {
	all := []rune(where)
	if len(all) <= maxWhere {
		return where
	}
	end := string(all[len(all)-maxWhere+1:])
	if i := strings.IndexByte(end, '/'); i >= 0 {
		end = end[i:]
	}
	return "…" + end
}

// oneLine has no control characters, nor those that change the direction or the order of
// text: a commit status is read in terminals, too.
func oneLine(text string) string {
	plain := strings.Map(func(r rune) rune {
		if unicode.In(r, unicode.Cc, unicode.Cf) && !unicode.IsSpace(r) {
			return utf8.RuneError
		}
		return r
	}, text)
	return strings.Join(strings.Fields(plain), " ")
}

func runes(text string) int { return utf8.RuneCountInString(text) }

// cut shortens a text at its end, after a whole word where there is one in the last
// third.
func cut(text string, limit int) string {
	if runes(text) <= limit {
		return text
	}
	short := string([]rune(text)[:limit-1])
	if i := strings.LastIndexByte(short, ' '); i > len(short)*2/3 {
		short = short[:i]
	}
	return strings.TrimRight(short, " :;,") + "…"
}

// elide leaves out the middle of a text.
func elide(text string, limit int) string {
	if runes(text) <= limit {
		return text
	}
	all := []rune(text)
	head := limit / 3
	tail := limit - head - 3
	return strings.TrimRight(string(all[:head]), " ") + " … " + strings.TrimLeft(string(all[len(all)-tail:]), " ")
}

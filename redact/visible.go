package redact

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
)

// Visible has control characters, and those that are not seen or change the direction or the
// order of text, written out: what other people wrote must not command the terminal that shows
// it, nor read as something else. Ends of lines and tabs stay.
func Visible(text string) string {
	return writtenOut(text, func(r rune) bool { return unseen(r) && r != '\n' && r != '\t' }, func(r rune) string {
		quoted := strconv.QuoteRuneToASCII(r)
		return quoted[1 : len(quoted)-1]
	})
}

// VisibleName is Visible on one line: a name may have ends of lines in it, too.
func VisibleName(name string) string {
	return strings.NewReplacer("\n", `\n`, "\t", `\t`).Replace(Visible(name))
}

// VisibleJSON is JSON of the same value, with these characters written out.
func VisibleJSON(text string) string {
	return writtenOut(text, unseenInJSON, func(r rune) string {
		var out strings.Builder
		for _, unit := range utf16.Encode([]rune{r}) {
			fmt.Fprintf(&out, `\u%04x`, unit)
		}
		return out.String()
	})
}

// VisibleFlow is JSON of the same value as YAML has it, which knows no surrogates.
func VisibleFlow(text string) string {
	return writtenOut(text, unseenInJSON, func(r rune) string { return fmt.Sprintf(`\U%08x`, r) })
}

// IsVisible reports whether a text has nothing that Visible would write out.
func IsVisible(text string) bool { return !strings.ContainsFunc(text, unseenInJSON) }

// unseenInJSON leaves out white space between values; in them JSON has control characters
// written out by itself.
func unseenInJSON(r rune) bool { return unseen(r) && r != '\n' && r != '\t' && r != '\r' }

const (
	blankBraille = '\u2800' // a symbol without dots
	emoji        = '\ufe0f' // has the symbol before it shown in colours
)

func unseen(r rune) bool {
	if r < unicode.MaxASCII { // most are, and the tables take long
		return r < ' '
	}
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point) && r != emoji || r == blankBraille
}

func writtenOut(text string, which func(rune) bool, as func(rune) string) string {
	if !strings.ContainsFunc(text, which) {
		return text
	}
	var out strings.Builder
	for _, r := range text {
		if which(r) {
			out.WriteString(as(r))
			continue
		}
		out.WriteRune(r)
	}
	return out.String()
}

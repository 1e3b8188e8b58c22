package redact

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
)

// Visible escapes control characters, and characters that are invisible or change the direction or order of text: text
// of other people must not control the terminal that shows it, nor read as something else. It keeps newlines and tabs.
func Visible(text string) string {
	return writtenOut(text, func(r rune) bool { return unseen(r) && r != '\n' && r != '\t' }, func(r rune) string {
		quoted := strconv.QuoteRuneToASCII(r)
		return quoted[1 : len(quoted)-1]
	})
}

// VisibleName is like Visible, but on one line, because a name may contain newlines.
func VisibleName(name string) string {
	return strings.NewReplacer("\n", `\n`, "\t", `\t`).Replace(Visible(name))
}

// VisibleJSON returns JSON of the same value, with these characters escaped.
func VisibleJSON(text string) string {
	return writtenOut(text, unseenInJSON, func(r rune) string {
		var out strings.Builder
		for _, unit := range utf16.Encode([]rune{r}) {
			fmt.Fprintf(&out, `\u%04x`, unit)
		}
		return out.String()
	})
}

// VisibleFlow returns JSON of the same value for YAML, which has no surrogates.
func VisibleFlow(text string) string {
	return writtenOut(text, unseenInJSON, func(r rune) string { return fmt.Sprintf(`\U%08x`, r) })
}

// IsVisible reports whether a text contains nothing that Visible would escape.
func IsVisible(text string) bool { return !strings.ContainsFunc(text, unseenInJSON) }

// unseenInJSON ignores white space between values; within values, JSON already escapes control characters.
func unseenInJSON(r rune) bool { return unseen(r) && r != '\n' && r != '\t' && r != '\r' }

const (
	blankBraille = '\u2800' // a symbol without dots
	emoji        = '\ufe0f' // shows the symbol before it in color
)

func unseen(r rune) bool {
	if r < unicode.MaxASCII { // most are, and the tables are slow
		return r < ' '
	}
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Variation_Selector,
		unicode.Other_Default_Ignorable_Code_Point) && r != emoji || r == blankBraille
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

package recording

import (
	"encoding/xml"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"
)

// The dimensions of a picture, in pixels.
const (
	cellWidth, cellHeight = 8.4, 19
	fontSize, margin      = 14, 16
)

// styles returns the styles of the parameters of SGR (ECMA-48).
func styles() map[string]string {
	return map[string]string{
		"1": ` font-weight="bold"`, "2": ` fill="#8b949e"`,
		"31": ` fill="#ff7b72"`, "32": ` fill="#7ee787"`, "33": ` fill="#e3b341"`, "34": ` fill="#79c0ff"`, "35": ` fill="#d2a8ff"`, "36": ` fill="#76e3ea"`,
	}
}

// cells matches texts separated by more than one blank, which SVG would collapse.
var cells = regexp.MustCompile(`[^ ]+(?: [^ ]+)*`)

var sgr = regexp.MustCompile(`\x1b\[([0-9;]*)m`)

// SVG returns a picture of a coloured text, as a terminal of this width shows it.
func SVG(title, text string, columns int) (string, error) {
	if rest := sgr.ReplaceAllString(text, ""); strings.ContainsRune(rest, '\x1b') {
		return "", fmt.Errorf("the text does more than change colours: %q", rest)
	}
	lines := strings.Split(strings.TrimRight(strings.ReplaceAll(text, "\r", ""), "\n"), "\n")
	lines = fold(lines, columns)
	width, height := float64(columns)*cellWidth+2*margin, len(lines)*cellHeight+2*margin
	var out strings.Builder
	fmt.Fprintf(&out, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %d" width="%.0f" height="%d" role="img">`+"\n", width, height, width, height)
	fmt.Fprintf(&out, "<title>%s</title>\n", escaped(title))
	fmt.Fprintf(&out, `<rect width="100%%" height="100%%" rx="8" fill="#0d1117"/>`+"\n")
	fmt.Fprintf(&out, `<g font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace" font-size="%d" fill="#e6edf3">`+"\n", fontSize)
	style := ""
	for i, line := range lines {
		y, column := margin+i*cellHeight+fontSize, 0
		for _, part := range parts(line) {
			if part.style != nil {
				style = styles()[*part.style]
			}
			for _, at := range cells.FindAllStringIndex(part.text, -1) {
				before, shown := utf8.RuneCountInString(part.text[:at[0]]), part.text[at[0]:at[1]]
				fmt.Fprintf(&out, `<text x="%.1f" y="%d" textLength="%.1f"%s>%s</text>`+"\n",
					margin+float64(column+before)*cellWidth, y, float64(utf8.RuneCountInString(shown))*cellWidth, style, escaped(shown))
			}
			column += utf8.RuneCountInString(part.text)
		}
	}
	out.WriteString("</g>\n</svg>\n")
	return out.String(), nil
}

// part is text in one style; if style is set, it changes before the text.
type part struct {
	style *string
	text  string
}

func parts(line string) []part {
	var found []part
	at := 0
	for _, match := range sgr.FindAllStringSubmatchIndex(line, -1) {
		found = append(found, part{text: line[at:match[0]]})
		style := line[match[2]:match[3]]
		found = append(found, part{style: &style})
		at = match[1]
	}
	return append(found, part{text: line[at:]})
}

// fold wraps lines like a terminal.
func fold(lines []string, columns int) []string {
	var folded []string
	for _, line := range lines {
		for utf8.RuneCountInString(sgr.ReplaceAllString(line, "")) > columns && !sgr.MatchString(line) {
			runes := []rune(line)
			folded, line = append(folded, string(runes[:columns])), string(runes[columns:])
		}
		folded = append(folded, line)
	}
	return folded
}

func escaped(text string) string {
	var out strings.Builder
	_ = xml.EscapeText(&out, []byte(text)) // writing to a strings.Builder never fails
	return out.String()
}

package redact

import (
	"encoding/base64"
	"encoding/json"
	"net/url"
	"regexp"
	"strconv"
	"strings"
)

// minLine is the minimum length for hiding one line of a value, or its base64 within that of a longer text. A shorter
// one could be anything.
const minLine = 8

// encodings returns the encodings of a value in messages. A value of only the mask's character is not hidden, because
// it cannot be distinguished from the mask.
func encodings(value string) []string {
	if strings.Trim(value, "*") == "" {
		return nil
	}
	texts := []string{value, strings.Join(strings.Fields(value), " ")}
	for line := range strings.Lines(value) {
		if line = strings.TrimSpace(line); len(line) >= minLine && len(line) < len(value) {
			texts = append(texts, line)
		}
	}
	var all []string
	for _, text := range texts {
		all = append(all, escaped(text)...)
		all = append(all, base64s(text)...)
	}
	return all
}

// escaped returns the ways to write a text in quotes or in a URL, and each of these in quotes again.
func escaped(text string) []string {
	once := append(quoted(text), inURL(text)...)
	all := append([]string{text}, once...)
	for _, form := range once {
		if form != text {
			all = append(all, quoted(form)...)
		}
	}
	return all
}

// quoted returns the text as quoted in Go, JSON and YAML, without the quotes.
func quoted(text string) []string {
	forms := []string{strings.ReplaceAll(text, `'`, `''`)}
	for _, form := range []string{strconv.Quote(text), strconv.QuoteToASCII(text), jsonOf(text, true), jsonOf(text, false)} {
		if len(form) >= 2 {
			forms = append(forms, form[1:len(form)-1])
		}
	}
	return forms
}

// jsonOf returns a text as JSON; escape writes <, > and & as \u003c and so on, as Go does by default.
func jsonOf(text string, escape bool) string {
	var out strings.Builder
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(escape)
	if err := encoder.Encode(text); err != nil {
		return "" // a string can always be encoded
	}
	return strings.TrimSuffix(out.String(), "\n")
}

var percent = regexp.MustCompile(`%[0-9A-F]{2}`)

// inURL returns the escapes for a query, a path, a path segment and a user, with upper-case and lower-case hexadecimal
// digits.
func inURL(text string) []string {
	user := url.UserPassword("", text).String()
	forms := []string{url.QueryEscape(text), url.PathEscape(text), (&url.URL{Path: text}).EscapedPath(), user[1:]}
	for _, form := range forms {
		forms = append(forms, percent.ReplaceAllStringFunc(form, strings.ToLower))
	}
	return forms
}

// base64s returns a text in base64, in the standard and the URL alphabet, padded or not, both by itself and within the
// base64 of a longer text, where it may start at any of three offsets.
func base64s(text string) []string {
	var all []string
	for _, encoding := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding} {
		whole := encoding.EncodeToString([]byte(text))
		forms := []string{whole, strings.TrimRight(whole, "=")}
		for offset := range 3 {
			if core := within(encoding, text, offset); len(core) >= minLine {
				forms = append(forms, core)
			}
		}
		for _, form := range forms {
			all = append(all, form, url.QueryEscape(form))
		}
	}
	return all
}

// within returns those base64 characters that depend only on a text that starts offset bytes after a multiple of three:
// three bytes become four characters, and the first and last character may also contain bits of adjacent bytes.
func within(encoding *base64.Encoding, text string, offset int) string {
	code := encoding.WithPadding(base64.NoPadding).EncodeToString(append(make([]byte, offset), text...))
	first := (offset*8 + 5) / 6
	last := (offset + len(text)) * 8 / 6
	if first >= last {
		return ""
	}
	return code[first:last]
}

package redact

import (
	"encoding/base64"
	"encoding/json"
	"net/url"
	"regexp"
	"strconv"
	"strings"
)

// leastLine is the least length of a line of a value, or of its base64 within that of a longer
// text, that is hidden by itself. A shorter one may be anything.
const leastLine = 8

// encodings are the texts that stand for a value in messages. What is made of the mask's
// own character is not told from the mask.
func encodings(value string) []string {
	if strings.Trim(value, "*") == "" {
		return nil
	}
	texts := []string{value, strings.Join(strings.Fields(value), " ")}
	for line := range strings.Lines(value) {
		if line = strings.TrimSpace(line); len(line) >= leastLine && len(line) < len(value) {
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

// escaped are the ways to write a text between quotes or in a URL, and each of these
// between quotes once more.
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

// quoted are the quotations of Go, JSON and YAML, without the quotes.
func quoted(text string) []string {
	forms := []string{strings.ReplaceAll(text, `'`, `''`)}
	for _, form := range []string{strconv.Quote(text), strconv.QuoteToASCII(text), jsonOf(text, true), jsonOf(text, false)} {
		if len(form) >= 2 {
			forms = append(forms, form[1:len(form)-1])
		}
	}
	return forms
}

// jsonOf is a text as JSON; escape writes <, > and & as \u003c and the like, as Go does.
func jsonOf(text string, escape bool) string {
	var out strings.Builder
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(escape)
	if err := encoder.Encode(text); err != nil {
		return "" // a string has always an encoding
	}
	return strings.TrimSuffix(out.String(), "\n")
}

var percent = regexp.MustCompile(`%[0-9A-F]{2}`)

// inURL are the escapes of a query, a path, a part of a path and of a user, with upper and with
// lower hexadecimal digits.
func inURL(text string) []string {
	user := url.UserPassword("", text).String()
	forms := []string{url.QueryEscape(text), url.PathEscape(text), (&url.URL{Path: text}).EscapedPath(), user[1:]}
	for _, form := range forms {
		forms = append(forms, percent.ReplaceAllStringFunc(form, strings.ToLower))
	}
	return forms
}

// base64s are a text in base64, of the standard's and of the URL's alphabet, padded or not, by itself
// and within the base64 of a longer text, where it may begin at any of three offsets.
func base64s(text string) []string {
	var all []string
	for _, encoding := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding} {
		whole := encoding.EncodeToString([]byte(text))
		forms := []string{whole, strings.TrimRight(whole, "=")}
		for offset := range 3 {
			if core := within(encoding, text, offset); len(core) >= leastLine {
				forms = append(forms, core)
			}
		}
		for _, form := range forms {
			all = append(all, form, url.QueryEscape(form))
		}
	}
	return all
}

// within are the characters of base64 that stand only for a text where it begins offset bytes after
// a multiple of three: three bytes are four characters, and a character at either end may stand
// for bits of its neighbours, too.
func within(encoding *base64.Encoding, text string, offset int) string {
	code := encoding.WithPadding(base64.NoPadding).EncodeToString(append(make([]byte, offset), text...))
	first := (offset*8 + 5) / 6
	last := (offset + len(text)) * 8 / 6
	if first >= last {
		return ""
	}
	return code[first:last]
}

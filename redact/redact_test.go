package redact_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/plumbline-dev/plumbline/redact"
)

const secret = `hunter2 "is" <marked> at https://x/?y=1&z'`

func TestHide(t *testing.T) {
	pem := "-----BEGIN-----\nMIIBszCCAVmgAwIBAgIU\nc2Vjb25kIGxpbmU\n-----END-----\n"
	for name, c := range map[string]struct{ value, message, want string }{
		"as it is":          {secret, "it was " + secret + "!", "it was ***!"},
		"in one line":       {pem, "ca: " + strings.Join(strings.Fields(pem), " "), "ca: ***"},
		"a line of it":      {pem, "bad line MIIBszCCAVmgAwIBAgIU", "bad line ***"},
		"a line in base64":  {pem, "bad line " + base64.StdEncoding.EncodeToString([]byte("MIIBszCCAVmgAwIBAgIU")), "bad line ***"},
		"a short line":      {"secret-one\nabc\nsecret-two", "abc secret-two", "abc ***"},
		"within a word":     {"0123456789", "x0123456789x", "x***x"},
		"a short word":      {"info", "level info: more information, info", "level ***: more information, ***"},
		"three characters":  {"a-b", "a-b, xa-bx", "***, xa-bx"},
		"one character":     {"q", "q quit qq (q)", "*** quit qq (***)"},
		"a digit":           {"7", "7 of 70", "*** of 70"},
		"a repeated word":   {"aa", "aaaa aa", "aaaa ***"},
		"the mask":          {"*", "a * b", "a * b"},
		"nothing":           {"", "all is well", "all is well"},
		"blank":             {" \n", "all is well", "all is well"},
		"nothing of it":     {secret, "all is well", "all is well"},
		"with a line's end": {"password-of-a-file\n", "it was password-of-a-file", "it was ***"},
	} {
		t.Run(name, func(t *testing.T) {
			r := redact.Values(c.value)
			if got := r.Hide(c.message); got != c.want {
				t.Errorf("Hide(%q) = %q, want %q", c.message, got, c.want)
			}
			if twice := r.Hide(r.Hide(c.message)); twice != c.want {
				t.Errorf("hidden twice: %q", twice)
			}
		})
	}
}

// encoders returns the encodings that messages use.
func encoders() map[string]func(string) string {
	return map[string]func(string) string{
		"plain":  func(s string) string { return s },
		"quoted": strconv.Quote,
		"ascii":  strconv.QuoteToASCII,
		"json": func(s string) string {
			text, _ := json.Marshal(map[string]string{"value": s})
			return string(text)
		},
		"yaml":          func(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" },
		"query":         func(s string) string { return "https://x.example/?q=" + url.QueryEscape(s) },
		"path":          func(s string) string { return "https://x.example/" + url.PathEscape(s) },
		"user":          func(s string) string { return "https://" + url.UserPassword("git", s).String() + "@x.example" },
		"base64":        func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) },
		"raw base64":    func(s string) string { return base64.RawStdEncoding.EncodeToString([]byte(s)) },
		"url base64":    func(s string) string { return base64.URLEncoding.EncodeToString([]byte(s)) },
		"rawurl base64": func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) },
		"basic auth": func(s string) string {
			return "Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte("git:"+s))
		},
		"within base64": func(s string) string { return base64.StdEncoding.EncodeToString([]byte("ab" + s + "cde")) },
	}
}

// FuzzHide: for any value in any encoding, or one within quotes, nothing remains in a message that could be decoded.
func FuzzHide(f *testing.F) {
	for _, value := range []string{secret, "p@ss/word+more", "two\nlines of it", "ünïcödé&<>", "01234567", `back\slash'quote`} {
		f.Add(value)
	}
	f.Fuzz(func(t *testing.T, value string) {
		value = strings.TrimSpace(value)
		if len(value) < 8 || strings.Contains(value, "*") || strings.ToValidUTF8(value, "") != value {
			return
		}
		r := redact.Values(value)
		for name, encode := range encoders() {
			for message, plain := range map[string]string{encode(value): encode("X"), strconv.Quote(encode(value)): strconv.Quote(encode("X"))} {
				hidden := r.Hide("bad " + message + ".")
				if strings.Contains(hidden, message) || len(hidden) > len(plain)+len("bad .")+18 {
					t.Errorf("%s: Hide(%q) = %q", name, message, hidden)
				}
			}
		}
	})
}

func TestCredentials(t *testing.T) {
	r := redact.Credentials("s3cret").And(redact.Values("short"))
	if got, want := r.Hide("xs3cretx short shorter"), "x***x *** shorter"; got != want {
		t.Errorf("Hide: %q, want %q", got, want)
	}
}

func TestError(t *testing.T) {
	r := redact.Credentials("s3cret")
	below := fmt.Errorf("open s3cret: %w", fs.ErrNotExist)
	err := r.Error(below)
	if err.Error() != "open ***: file does not exist" || !errors.Is(err, fs.ErrNotExist) || errors.Unwrap(err) != nil {
		t.Errorf("redacted: %v", err)
	}
	if plain := errors.New("all is well"); reflect.TypeOf(r.Error(plain)) != reflect.TypeOf(plain) || r.Error(nil) != nil {
		t.Error("an error without a value is not the same any more")
	}
}

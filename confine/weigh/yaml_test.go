package weigh_test

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/plumbline-dev/plumbline/confine/weigh"
)

// billion is the billion laughs in YAML.
func billion(levels int) string {
	text := "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
	for i := 1; i < levels; i++ {
		text += fmt.Sprintf("a%d: &a%d [%s*a%d]\n", i, i, strings.Repeat(fmt.Sprintf("*a%d, ", i-1), 9), i-1)
	}
	return text
}

// tags returns directives, each of which a parser compares with all before it.
func tags(count int, end string) string {
	text := ""
	for i := range count {
		text += fmt.Sprintf("%%TAG !%x! x%s", i, end)
	}
	return text
}

// wide returns a text in little-endian UTF-16.
func wide(text string) string {
	wide := ""
	for _, c := range []byte(text) {
		wide += string([]byte{c, 0})
	}
	return wide
}

func TestYAML(t *testing.T) {
	for name, tc := range map[string]struct{ text, want string }{
		"nothing":                   {"", ""},
		"a list":                    {"a: [1, 2, 3]\n", ""},
		"an honest alias":           {"a: &a {cpu: 1, memory: 2}\nb: *a\nc: {<<: *a, d: 3}\n", ""},
		"a script":                  {"#!/bin/bash\nls *.sh && echo 'done' &\n", ""},
		"aliases in aliases":        {billion(9), "aliases make more"},
		"after a key that is twice": {"a: 1\na: 2\n" + billion(9), "aliases make more"},
		"in a second document":      {"a: 1\n---\n" + billion(9), "aliases make more"},
		"merged":                    {strings.NewReplacer("[", "{k: [", "]", "]}").Replace(billion(9)), "aliases make more"},
		"a long text again":         {"a: &a " + strings.Repeat("x", 10_000) + "\nb: [" + strings.Repeat("*a, ", 5000) + "]\n", "aliases make more"},
		"itself":                    {"a: &a [*a]\n", "part of"},
		"brackets":                  {strings.Repeat("[],", 1<<20), "more than 250000 values"},
		"open brackets":             {strings.Repeat("[", 1<<20), "more than 250000 values"},
		"dashes":                    {strings.Repeat("- ", 1<<20), "more than 250000 values"},
		"keys":                      {strings.Repeat("a:\n", 1<<20), "more than 250000 values"},
		"directives":                {tags(1000, "\n") + "---\na: 1\n", "more than 100 directives"},
		"directives on old Macs":    {tags(1000, "\r") + "---\ra: 1\r", "more than 100 directives"},
		"directives of Unicode":     {tags(1000, "\u2028") + "---\na: 1\n", "more than 100 directives"},
		"directives in UTF-16":      {"\xff\xfe" + wide(tags(1000, "\n")), "more than 100 directives"},
		"a few directives":          {"%YAML 1.1\n" + tags(5, "\n") + "---\na: 1\n", ""},
		"percent signs in a script": {"a: |\n" + strings.Repeat("  %% of\n", 1000) + "b: " + strings.Repeat("50% ", 1000) + "\n", ""},
		"unreadable with aliases":   {"a: &a [\nb: *a }\n", "not YAML"},
	} {
		t.Run(name, func(t *testing.T) {
			err := weigh.YAML([]byte(tc.text))
			var unfit *weigh.Error
			switch {
			case tc.want == "" && err != nil:
				t.Fatal(err)
			case tc.want != "" && (!errors.As(err, &unfit) || !strings.Contains(err.Error(), tc.want)):
				t.Fatalf("error %v, want %q", err, tc.want)
			}
		})
	}
}

// TestWeighingIsCheap: refusing a text does not expand it.
func TestWeighingIsCheap(t *testing.T) {
	for name, text := range map[string]string{"aliases": billion(60), "brackets": strings.Repeat("[],", 5<<20)} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := weigh.YAML([]byte(text))
		runtime.ReadMemStats(&after)
		if err == nil {
			t.Errorf("%s: weighed as nothing", name)
		}
		if taken := after.TotalAlloc - before.TotalAlloc; taken > 32<<20 {
			t.Errorf("%s: %d bytes were taken to refuse it", name, taken)
		}
	}
}

func FuzzYAML(f *testing.F) {
	f.Add("a: &a [1, 2]\nb: *a\n")
	f.Add(billion(4))
	f.Add("a: &a [*a]\n")
	f.Fuzz(func(_ *testing.T, text string) {
		_ = weigh.YAML([]byte(text)) // neither a panic nor an endless loop
	})
}

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

// TestWeighingIsCheap: what is refused is refused before it is made.
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

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestTheChartIsFresh: the files in the chart's folder match the base.
func TestTheChartIsFresh(t *testing.T) {
	made, err := renderChart("..")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range made.files {
		got, err := os.ReadFile(filepath.Join("../chart", filepath.FromSlash(name)))
		if err != nil {
			t.Errorf("make generate: %v", err)
		} else if diff := cmp.Diff(want, string(got)); diff != "" {
			t.Errorf("%s is stale: make generate (-want +got):\n%s", name, diff)
		}
	}
}

func TestEdits(t *testing.T) {
	for name, test := range map[string]struct {
		edit       edit
		text, want string // want begins with "error: " if the edit is refused
		defaults   map[string]string
	}{
		"after":              {edit: after("a\n", "b\n"), text: "a\nc\n", want: "a\nb\nc\n"},
		"after what is gone": {edit: after("a\n", "b\n"), text: "c\n", want: `error: "a\n" is there 0 times, want 1`},
		"after one of two":   {edit: after("a\n", "b\n"), text: "a\na\n", want: `error: "a\n" is there 2 times, want 1`},
		"only":               {edit: only("b\n", "if .x"), text: "a\nb\nc\n", want: "a\n{{- if .x }}\nb\n{{- end }}\nc\n"},
		"the rest":           {edit: fromHere("b\n", "if .x"), text: "a\nb\nc\n", want: "a\n{{- if .x }}\nb\nc\n{{- end }}\n"},
		"the rest of none":   {edit: fromHere("d\n", "if .x"), text: "a\n", want: `error: "d\n" is not there once`},
		"a number":           {edit: moved("n"), text: "a:\n  n: 2\n", want: "a:\n  n: {{ .Values.n }}\n", defaults: map[string]string{"n": "n: 2"}},
		"a block": {
			edit: moved("n"), text: "a:\n  n:\n    # why\n    k: 1\n  m: 2\n",
			want:     "a:\n  {{- with .Values.n }}\n  n:\n    {{- toYaml . | nindent 4 }}\n  {{- end }}\n  m: 2\n",
			defaults: map[string]string{"n": "n:\n  # why\n  k: 1"},
		},
		"no such field": {edit: moved("n"), text: "a: 1\n", want: "error: the field n is there 0 times, want 1"},
	} {
		t.Run(name, func(t *testing.T) {
			c := &chart{defaults: map[string]string{}}
			got, err := test.edit(c, test.text)
			if err != nil {
				got = "error: " + err.Error()
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if test.defaults == nil {
				test.defaults = map[string]string{}
			}
			if diff := cmp.Diff(test.defaults, c.defaults); diff != "" {
				t.Errorf("defaults (-want +got):\n%s", diff)
			}
		})
	}
}

// TestTheBaseIsNoTemplate: Helm would evaluate braces in the base.
func TestTheBaseIsNoTemplate(t *testing.T) {
	_, err := new(chart).template(chartFile{from: "x.yaml"}, "a: '{{ .b }}'\n")
	if err == nil || !strings.Contains(err.Error(), "{{") {
		t.Errorf("%v", err)
	}
}

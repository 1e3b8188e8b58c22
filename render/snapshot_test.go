package render_test

import (
	"testing"

	"github.com/plumbline-dev/plumbline/render"
)

func TestShortRevision(t *testing.T) {
	cases := map[string]string{
		"main@sha1:5ad4f348a1de2949cb9b07c7c00aa32458cc6cfa": "main@sha1:5ad4f348",
		"sha1:5ad4f348a1de2949cb9b07c7c00aa32458cc6cfa":      "sha1:5ad4f348",
		"main@sha1:5ad4": "main@sha1:5ad4",
		"folder":         "folder",
		"":               "",
	}
	for revision, want := range cases {
		if got := render.ShortRevision(revision); got != want {
			t.Errorf("%q: got %q, want %q", revision, got, want)
		}
	}
}

func TestCommitOf(t *testing.T) {
	for revision, want := range map[string]string{"main@sha1:5ad4": "5ad4", "sha1:5ad4": "5ad4", "folder": "", "": ""} {
		if got := render.CommitOf(revision); got != want {
			t.Errorf("%q: got %q, want %q", revision, got, want)
		}
	}
}

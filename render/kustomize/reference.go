package kustomize

import (
	"errors"
	"path"
	"regexp"
	"strings"

	"github.com/plumbline-dev/plumbline/confine/weigh"
)

// remote is anything that kustomize may take for something elsewhere. It is
// wider than kustomize's own rule (api/internal/git/repospec.go, and
// api/internal/loader/fileloader.go for plain URLs), which tries a clone before
// it looks for a folder of that name.
var remote = regexp.MustCompile(`(?i)^[a-z][a-z0-9+.-]*:|^[^/]*@|^github\.com[/:]|^git::|://|\?|_git/|\.git(/|$)`)

// checkReference says why a reference to a file or folder is refused, or "".
func checkReference(files *locked, folder, reference string) string {
	name := path.Join(folder, reference)
	switch {
	case remote.MatchString(reference):
		return quote(reference) + " is not in this repository: copy it in, or fetch it another way; a render opens no connection"
	case strings.HasPrefix(reference, "/"):
		return quote(reference) + " is an absolute path: write it from the folder of this file"
	case name == ".." || strings.HasPrefix(name, "../"):
		return quote(reference) + " leads out of the repository"
	}
	if !files.Exists(name) {
		return quote(reference) + " is not in the repository"
	}
	return ""
}

func quote(text string) string {
	if runes := []rune(text); len(runes) > 100 {
		text = string(runes[:99]) + "…"
	}
	return `"` + text + `"`
}

// readable refuses text that says something else than a person reads, and text that is more
// than there is memory for, once kustomize has written its aliases out.
func readable(name string, data []byte) error {
	var unreadable *weigh.Error
	if err := weigh.Breaks(data); errors.As(err, &unreadable) {
		return Refusal{File: name, Line: unreadable.Line, Field: "the file", Why: unreadable.Message}
	}
	if err := weigh.YAML(data); err != nil {
		return Refusal{File: name, Field: "the file", Why: err.Error()}
	}
	return nil
}

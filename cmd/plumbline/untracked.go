package main

import (
	"fmt"
	"strings"

	"github.com/plumbline-dev/plumbline/reconcile/source"
	"github.com/plumbline-dev/plumbline/redact"
)

// mostNamed is how many files a warning names.
const mostNamed = 5

// untracked warns of files below a folder that the daemon does not see, as no commit has them.
func untracked(root, name string) []string {
	names, err := source.Untracked(root, name)
	switch {
	case err != nil:
		return []string{"whether Git tracks all files here is not known: " + err.Error()}
	case len(names) == 0:
		return nil
	}
	for i := range names {
		names[i] = redact.VisibleName(names[i])
	}
	more := ""
	if n := len(names) - mostNamed; n > 0 {
		names, more = names[:mostNamed], fmt.Sprintf(" and %d more", n)
	}
	return []string{"the daemon sees only files that Git tracks, and not " + strings.Join(names, ", ") + more}
}

package render

import (
	"fmt"
	"io"
	"io/fs"
	"path"
	"regexp"
	"strings"

	"github.com/plumbline-dev/plumbline/redact"
)

const (
	// mostUnread is how many files that are not read a walk looks into, and unreadBytes how far.
	mostUnread  = 100
	unreadBytes = 256 << 10
	// hiddenDepth is how many folders below a hidden one are looked at.
	hiddenDepth = 3
)

// definitionIn finds a definition of nodes in a text.
var definitionIn = regexp.MustCompile(`(?m)^(?:- )? *apiVersion:\s*["']?karpenter\.(?:sh|k8s\.aws)/`)

// unread warns of a definition in a file that is passed over: in one whose name has another ending, such as
// class.yaml.tpl, and in hidden files and folders. What it reads is no input: it changes nothing of the Set.
func (w *walk) unread(name string, entry fs.DirEntry, depth int) {
	switch hidden := strings.HasPrefix(path.Base(name), "."); {
	case !hidden && !entry.IsDir() && !isDefinition(name) && endsOtherwise(name):
		w.look(name, "its name does not end in .yaml, .yml or .json")
	case hidden && entry.IsDir():
		w.hidden(name, depth)
	case hidden && isDefinition(name):
		w.look(name, "its name begins with a dot")
	}
}

// hidden looks at a folder whose name begins with a dot, and at those below it.
func (w *walk) hidden(folder string, depth int) {
	if depth >= hiddenDepth || w.looked >= mostUnread {
		return
	}
	entries, err := fs.ReadDir(w.snap.FS, folder)
	if err != nil {
		return // nothing of it counts
	}
	for _, entry := range entries {
		name := path.Join(folder, entry.Name())
		switch {
		case entry.IsDir():
			w.hidden(name, depth+1)
		case isDefinition(name):
			w.look(name, "it is in a folder whose name begins with a dot")
		}
	}
}

// endsOtherwise reports whether a name has the ending of a definition before another one.
func endsOtherwise(name string) bool { return isDefinition(strings.TrimSuffix(name, path.Ext(name))) }

// look warns of a file that has a definition, and is passed over.
func (w *walk) look(name, why string) {
	if w.looked++; w.looked > mostUnread {
		return
	}
	file, err := w.snap.FS.Open(name)
	if err != nil {
		return // nothing of it counts
	}
	defer func() { _ = file.Close() }() // it was read
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		return
	}
	text, err := io.ReadAll(io.LimitReader(file, unreadBytes))
	if err != nil || !definitionIn.Match(text) {
		return
	}
	w.warnings = append(w.warnings, fmt.Sprintf("%s has definitions of nodes and is not read: %s", redact.VisibleName(name), why))
}

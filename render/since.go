package render

import (
	"io/fs"
	"slices"
	"strings"
)

// Compared is implemented by a file system that knows where it differs from an earlier one.
type Compared interface {
	Identified
	// Since says where it may differ from an earlier file system, links apart; false where
	// that is not known.
	Since(before fs.FS) (Difference, bool)
	// Direct says whether a name leads over no symlink, whether or not anything stands there.
	Direct(name string) bool
}

// Difference is where two file systems may differ. Everything else is the same in both, where
// no symlink leads to it.
type Difference struct {
	// At are names: that of a file stands for its content, that of a folder for its listing.
	At []string
	// Below are names below which anything may differ.
	Below []string
}

// below says whether a name is below one of those.
func (d Difference) below(name string) bool {
	for _, folder := range d.Below {
		if rest, found := strings.CutPrefix(name, folder); found && strings.HasPrefix(rest, "/") {
			return true
		}
	}
	return false
}

// Among are the inputs that may differ. linked are those that symlinks lead to.
func (d Difference) Among(in Inputs, linked []string) Inputs {
	some := Inputs{}
	add := func(name string) {
		if identity, is := in[name]; is {
			some[name] = identity
		}
	}
	for _, name := range d.At {
		add(name)
	}
	for _, name := range linked {
		add(name)
	}
	if len(d.Below) > 0 {
		for name := range in {
			if d.below(name) {
				add(name)
			}
		}
	}
	return some
}

// Read is what a Set was made of.
type Read struct {
	Inputs Inputs
	// Linked are the Inputs that symlinks lead to, where Known says so.
	Linked []string
	Known  bool
}

// Read is what the Set was made of.
func (s *Set) Read() Read { return Read{Inputs: s.Inputs, Linked: s.Linked, Known: s.LinksKnown} }

// differs says where a Snapshot may differ from earlier files; false where that is not known.
func (s Snapshot) differs(before fs.FS) (Difference, bool) {
	now, ok := s.FS.(Compared)
	if !ok || before == nil {
		return Difference{}, false
	}
	return now.Since(before)
}

// linked are the inputs that symlinks lead to; false where that is not known.
func (s Snapshot) linked(in Inputs) ([]string, bool) {
	files, ok := s.FS.(Compared)
	if !ok {
		return nil, false
	}
	var linked []string
	for name := range in {
		if !files.Direct(name) {
			linked = append(linked, name)
		}
	}
	slices.Sort(linked)
	return linked, true
}

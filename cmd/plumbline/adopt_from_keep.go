package main

import (
	"fmt"
	"path"

	"github.com/plumbline-dev/plumbline/reconcile/handover"
)

// applies names what applies the folder that an object leaves.
func (r *handoverReport) applies(o *handedObject) string {
	if r.back {
		return "NodeSync " + r.NodeSync
	}
	return o.owner.String()
}

// keeps says why a commit leaves a file in a folder that has no other; nothing where it leaves none.
func (r *handoverReport) keeps(after handover.Files) []string {
	for _, name := range differing(r.files, after) {
		if path.Base(name) == handover.KeepFile && r.files[name] == nil {
			return []string{"", fmt.Sprintf("Nothing else is left in %s, and Git has no empty folders: without %s, %s would fail, since its path is gone.",
				path.Dir(name), handover.KeepFile, r.applies(r.due()[0]))}
		}
	}
	return nil
}

// keepByHand says likewise what to do in a commit by hand.
func (r *handoverReport) keepByHand(o *handedObject) string {
	from, _ := o.folders(r)
	return fmt.Sprintf("Where it is the last file in %s, put an empty file %s there in the same commit: Git has no empty folders, and %s would fail, since its path is gone.",
		folderWord(from), handover.KeepFile, r.applies(o))
}

// Package handover says how a definition changes hands between plumbline and Flux or Argo CD.
//
// In go what the cluster has of it, who applies it, and the files of a clone where there is one; out
// come the step that is next, the files as they are after it, and the patch that releases fields. The
// steps are the same in both directions: the definition is marked, so that neither tool removes it;
// its file moves; the one lets it go and the other has it; what the first has left on it is taken off;
// the mark goes. Each is known by what the one before has changed, so that a hand-over that was interrupted
// goes on where it stands.
//
// It reads no cluster and writes no file, and never has a file move of a definition that is not marked
// in the cluster.
package handover

// Package handover determines how a definition is handed over between plumbline and Flux or Argo CD.
//
// The input is the state of the cluster, who applies the definition, and the files of a clone if there is one; the
// output is the next step, the files after it, and the patch that releases fields. The steps are the same in both
// directions: the definition is annotated with a mark, so that neither tool removes it; its file is moved; the old tool
// stops applying it and the new one starts; what the old tool left on it is removed; the mark is removed. Each step is
// determined from the result of the previous one, so an interrupted handover continues where it stopped.
//
// The package reads no cluster and writes no file, and never moves the file of a definition that is not marked in the
// cluster.
package handover

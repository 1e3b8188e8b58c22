package render

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Ref names one object of the kinds that are ours, all of them cluster-scoped.
type Ref struct {
	Kind string
	Name string
}

// String returns kind/name, as people write it.
func (r Ref) String() string { return r.Kind + "/" + r.Name }

// Origin is where an object was written.
type Origin struct {
	// File from the repository's root, with forward slashes.
	File string
	// Line of the object's first line, from 1; 0 where a kustomization made it.
	Line int
}

// String returns file:line.
func (o Origin) String() string {
	if o.Line == 0 {
		return o.File
	}
	return fmt.Sprintf("%s:%d", o.File, o.Line)
}

// Object is one definition of the Set. It is read only: Sets share what has not
// changed between them, so that the address of Defaulted stands for its content.
type Object struct {
	Ref    Ref
	Origin Origin
	// Desired is the object as Git has it, after kustomize and substitution
	// and with nothing added.
	Desired *unstructured.Unstructured
	// Defaulted is Desired with the defaults of the schema. It shares with Desired
	// what no default is in.
	Defaulted *unstructured.Unstructured
	// Ignored are the paths of fields that other clients may change: map keys only.
	Ignored [][]string
	// Warning is a sentence on it that a person should read; empty where there is none.
	Warning string
	// Text is how many bytes the texts of Desired have, its keys included.
	Text int
}

// Set is what a Snapshot renders to.
type Set struct {
	Revision  string
	Commit    string
	Karpenter Karpenter
	// Objects in the order of their Stages, then by name.
	Objects []Object
	// Inputs is everything that was read to make the Set.
	Inputs Inputs
	// Warnings are sentences a person should read; none of them stops anything.
	Warnings []string
	// Rescues are the EC2NodeClasses for which NodePools name a copy that is not in Git.
	Rescues []Rescue
	// Linked are the Inputs that symlinks lead to, where LinksKnown says that they were looked for.
	Linked     []string
	LinksKnown bool
	// Sum is the Fingerprint of the Inputs; empty where none was made.
	Sum string
}

// ChartsFingerprint is the Fingerprint of what Git has of Karpenter's charts: the charts, if its repository
// is a folder, and the files with values. config is the path of plumbline.yaml, which is no part of it;
// if it is empty, all Inputs count.
func (s *Set) ChartsFingerprint(k *Karpenter, config string) string {
	if config == "" { // nobody knows which files are which: all count
		return s.Inputs.Fingerprint()
	}
	folder := path.Dir(config)
	charts, inside := k.chartFolder(folder)
	values, read := k.valuesFiles(folder), Inputs{}
	for name, identity := range s.Inputs {
		ofCharts := inside && (charts == "." || name == charts || strings.HasPrefix(name, charts+"/"))
		if name != config && (ofCharts || slices.Contains(values, name)) {
			read[name] = identity
		}
	}
	return read.Fingerprint()
}

// Fingerprint is that of the Inputs, which Render makes once for each Set; empty where there is none.
func (s *Set) Fingerprint() string {
	switch {
	case s == nil:
		return ""
	case s.Sum != "":
		return s.Sum
	}
	return s.Inputs.Fingerprint()
}

// Rescue is an EC2NodeClass that was deleted while nodes are on it, and the copy of it that NodePools
// name instead.
type Rescue struct {
	Class, By Ref
	// Pools are the NodePools of Git that name Class.
	Pools []Ref
	// Origins are where Git has Class, and then each of these.
	Origins []Origin
}

// Equal says whether two of them are the same.
func (r Rescue) Equal(other Rescue) bool {
	return r.Class == other.Class && r.By == other.By && slices.Equal(r.Pools, other.Pools) && slices.Equal(r.Origins, other.Origins)
}

package charts

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Check says why what was found keeps the charts of a version from being brought.
// With Adopt it is taken over, unless another tool still reconciles it, or it is
// not where both releases are to be. Errors: *ReconciledError, *ElsewhereError,
// *OtherChartError, *NewerError, *ForeignReleaseError, *ForeignObjectsError.
func (f Found) Check(into Installation, version string) error {
	objects := slices.Concat(f.CRDs, f.Controllers)
	if err := reconciled(objects); err != nil {
		return err
	}
	for _, object := range objects {
		if err := elsewhere(object, into.Namespace); err != nil {
			return err
		}
	}
	for _, release := range f.Releases {
		if release.Chart != "" && release.Chart != release.Name {
			return &OtherChartError{Release: release.String(), Chart: release.Chart}
		}
	}
	if !into.Adopt {
		return f.foreign(into.Namespace)
	}
	_, held := f.Release(CRDChart, into.Namespace)
	if runs := f.Version(into.Namespace); !held && len(f.CRDs) > 0 && Ahead(runs, version) {
		return &NewerError{Runs: runs, Version: version}
	}
	return nil
}

// reconciled finds the first owner that would put back what is changed, and all
// that is its.
func reconciled(objects []FoundObject) error {
	var refusal *ReconciledError
	for _, object := range objects {
		switch {
		case !object.Owner.Reconciles():
		case refusal == nil:
			refusal = &ReconciledError{Owner: object.Owner, Objects: []string{object.String()}}
		case object.Owner == refusal.Owner:
			refusal.Objects = append(refusal.Objects, object.String())
		}
	}
	if refusal == nil {
		return nil // an interface that holds no pointer
	}
	return refusal
}

// elsewhere holds that an object is of one of our two releases, or of none, and
// that no controller runs in another namespace.
func elsewhere(object FoundObject, namespace string) error {
	owner := object.Owner
	of := owner.Kind == releaseKind
	name := !of || owner.Name == ControllerChart || owner.Name == CRDChart
	switch {
	case !name:
		return &ElsewhereError{Object: object.String(), Owner: owner}
	case of && owner.Namespace != namespace:
		return &ElsewhereError{Object: object.String(), Owner: owner, Namespace: owner.Namespace}
	case object.Kind == controllerKind && object.Namespace != namespace:
		return &ElsewhereError{Object: object.String(), Owner: owner, Namespace: object.Namespace}
	case object.Kind == controllerKind && object.Name != ControllerChart:
		return &ElsewhereError{Object: object.String(), Owner: owner}
	}
	return nil
}

// foreign refuses whatever was found, because nobody has asked for it.
func (f Found) foreign(namespace string) error {
	for _, name := range []string{CRDChart, ControllerChart} {
		if release, ok := f.Release(name, namespace); ok {
			return &ForeignReleaseError{Release: release.Name, Revision: release.Revision}
		}
	}
	if objects := slices.Concat(f.CRDs, f.Controllers); len(objects) > 0 {
		return newForeignObjectsError(objects)
	}
	return nil
}

// Besides are the values of a release that Git has not, or has otherwise, by their
// paths and in order. The cluster's name is filled in.
func (r FoundRelease) Besides(git map[string]any) []string {
	var paths []string
	var walk func(path string, has, git any)
	walk = func(path string, has, git any) {
		fields, ok := has.(map[string]any)
		if !ok {
			if plainly(has) != plainly(git) {
				paths = append(paths, path)
			}
			return
		}
		inGit, _ := git.(map[string]any)
		for key, value := range fields {
			walk(strings.TrimPrefix(path+"."+key, "."), value, inGit[key])
		}
	}
	walk("", r.Values, git)
	paths = slices.DeleteFunc(paths, func(path string) bool { return path == "settings.clusterName" })
	slices.Sort(paths)
	return paths
}

// plainly is a value as JSON has it, so that 1 is 1 whoever has read it.
func plainly(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		return fmt.Sprint(value)
	}
	return string(text)
}

// waysOut are the two things that can be done about what somebody else installed.
const waysOut = "set adopt: true in plumbline.yaml to take over what is there, as it is, " +
	"or management: External to leave the charts to whoever installed them"

// ReconciledError says that another tool still reconciles what the charts consist
// of: two would put it back and forth.
type ReconciledError struct {
	Owner   Owner
	Objects []string
}

// Error names the owner.
func (e *ReconciledError) Error() string {
	return fmt.Sprintf("%s reconciles %s, which is therefore not touched: set management: External in plumbline.yaml to leave the charts to it, "+
		"or have it let go of them first, without deleting anything", e.Owner, strings.Join(e.Objects, ", "))
}

// ElsewhereError says that Karpenter was installed under another name or in
// another namespace than both releases have here.
type ElsewhereError struct {
	Object string
	Owner  Owner
	// Namespace that would be right; empty where none would.
	Namespace string
}

// Error says what to set.
func (e *ElsewhereError) Error() string {
	text := fmt.Sprintf("%s (%s) is Karpenter's already, and a second one would be installed beside it: ", e.Object, e.Owner)
	if e.Namespace != "" {
		return text + fmt.Sprintf("set namespace: %s in plumbline.yaml, with adopt: true, or management: External", e.Namespace)
	}
	return text + fmt.Sprintf("releases are taken over by the names %s and %s alone: set management: External in plumbline.yaml", CRDChart, ControllerChart)
}

// OtherChartError says that a release of our name is of another chart: what else
// is in it, such as NodePools, would be deleted by an upgrade to ours.
type OtherChartError struct {
	Release, Chart string
}

// Error names the chart.
func (e *OtherChartError) Error() string {
	return fmt.Sprintf("helm release %s is of chart %s, which is not Karpenter's own: taking it over would delete what else is in it: "+
		"set management: External in plumbline.yaml", e.Release, e.Chart)
}

// NewerError says that CRDs of no release are those of a newer version than Git's,
// as far as can be told: they would go back.
type NewerError struct {
	Runs, Version string
}

// Error says what to do first.
func (e *NewerError) Error() string {
	return fmt.Sprintf("karpenter %s runs here, over CRDs of no helm release, and CRDs do not go back: set version: %s in plumbline.yaml to take them over, and go to %s in a later commit",
		e.Runs, e.Runs, e.Version)
}

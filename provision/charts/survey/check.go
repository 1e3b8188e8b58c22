package survey

import (
	"slices"

	"github.com/plumbline-dev/plumbline/provision/charts"
	"github.com/plumbline-dev/plumbline/provision/owners"
)

// Check says why what was found keeps the charts of a version from being installed in a
// namespace. With adopt it is adopted, unless another tool still reconciles it, or it is
// not where both releases are to be. Errors: *ReconciledError, *ElsewhereError,
// *OtherChartError, *NewerError, *ForeignReleaseError, *ForeignObjectsError.
func (f Found) Check(namespace, version string, adopt bool) error {
	objects := slices.Concat(f.CRDs, f.Controllers)
	if err := reconciled(objects); err != nil {
		return err
	}
	for _, object := range objects {
		if err := elsewhere(object, namespace); err != nil {
			return err
		}
	}
	for _, release := range f.Releases {
		if release.Chart != "" && release.Chart != release.Name {
			return &OtherChartError{Release: release.String(), Chart: release.Chart}
		}
	}
	if !adopt {
		return f.foreign(namespace)
	}
	_, released := f.Release(charts.CRDChart, namespace)
	if runs := f.Version(namespace); !released && len(f.CRDs) > 0 && charts.Ahead(runs, version) {
		return &NewerError{Runs: runs, Version: version}
	}
	return nil
}

// reconciled finds the first owner that would revert a change, and all its objects.
func reconciled(objects []Object) error {
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

// elsewhere checks that an object belongs to one of our two releases, or to none, and
// that no controller runs in another namespace.
func elsewhere(object Object, namespace string) error {
	owner := object.Owner
	of := owner.Kind == owners.ReleaseKind
	name := !of || owner.Name == charts.ControllerChart || owner.Name == charts.CRDChart
	switch {
	case !name:
		return &ElsewhereError{Object: object.String(), Owner: owner}
	case of && owner.Namespace != namespace:
		return &ElsewhereError{Object: object.String(), Owner: owner, Namespace: owner.Namespace}
	case object.Kind == controllerKind && object.Namespace != namespace:
		return &ElsewhereError{Object: object.String(), Owner: owner, Namespace: object.Namespace}
	case object.Kind == controllerKind && object.Name != charts.ControllerChart:
		return &ElsewhereError{Object: object.String(), Owner: owner}
	}
	return nil
}

// foreign refuses all that was found, since adoption was not asked for.
func (f Found) foreign(namespace string) error {
	for _, name := range []string{charts.CRDChart, charts.ControllerChart} {
		if release, ok := f.Release(name, namespace); ok {
			return &ForeignReleaseError{Release: release.Name, Revision: release.Revision}
		}
	}
	if objects := slices.Concat(f.CRDs, f.Controllers); len(objects) > 0 {
		return newForeignObjectsError(objects)
	}
	return nil
}

// CheckWrite says why a release must not write over objects that exist: because a tool
// reconciles them, or because they belong to another release or to none and adopt is
// not set. Errors: *ReconciledError, *ElsewhereError, *ForeignObjectsError.
func CheckWrite(existing []Object, release, namespace string, adopt bool) error {
	if err := reconciled(existing); err != nil {
		return err
	}
	var foreign []Object
	for _, object := range existing {
		if object.Owner.IsRelease(release, namespace) {
			continue
		}
		if err := elsewhere(object, namespace); adopt && err != nil {
			return err
		}
		foreign = append(foreign, object)
	}
	if len(foreign) > 0 && !adopt {
		return newForeignObjectsError(foreign)
	}
	return nil
}

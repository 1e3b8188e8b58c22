package survey

import (
	"fmt"
	"strings"

	"github.com/plumbline-dev/plumbline/provision/charts"
)

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
	return text + fmt.Sprintf("releases are taken over by the names %s and %s alone: set management: External in plumbline.yaml", charts.CRDChart, charts.ControllerChart)
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

// ForeignReleaseError says that a release was not made by plumbline.
type ForeignReleaseError struct {
	Release  string
	Revision int
}

// Error says what can be done about it.
func (e *ForeignReleaseError) Error() string {
	return fmt.Sprintf("helm release %s (revision %d) was installed by somebody else and is not touched: %s", e.Release, e.Revision, waysOut)
}

// ForeignObjectsError says that objects of the chart exist and are not this
// release's.
type ForeignObjectsError struct {
	Objects []string
}

func newForeignObjectsError(objects []Object) *ForeignObjectsError {
	e := &ForeignObjectsError{}
	for _, object := range objects {
		e.Objects = append(e.Objects, fmt.Sprintf("%s (%s)", object, object.Owner))
	}
	return e
}

// Error names them.
func (e *ForeignObjectsError) Error() string {
	return fmt.Sprintf("%s: made by something else than this helm release, and not taken over: %s", strings.Join(e.Objects, ", "), waysOut)
}

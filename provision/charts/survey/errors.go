package survey

import (
	"fmt"
	"strings"

	"github.com/plumbline-dev/plumbline/provision/charts"
	"github.com/plumbline-dev/plumbline/provision/owners"
)

// waysOut are the two things that can be done about what plumbline has not installed.
const waysOut = "set adopt: true in plumbline.yaml to adopt what exists, as it is, " +
	"or management: External to leave the charts to the tool that installed them"

// ReconciledError says that another tool still reconciles what the charts consist of:
// each would revert the other.
type ReconciledError struct {
	Owner   owners.Owner
	Objects []string
}

// Error names the owner.
func (e *ReconciledError) Error() string {
	return fmt.Sprintf("%s reconciles %s, which is left unchanged: set management: External in plumbline.yaml to leave the charts to it, "+
		"or make it release them first, without deleting anything, and set adopt: true; NodePools that it applies are handed over with %s, or left to it by taking them out of Git",
		e.Owner, strings.Join(e.Objects, ", "), e.handOver())
}

// handOver is the command that hands definitions over by the owner's tool.
func (e *ReconciledError) handOver() string {
	if e.Owner.Tool == "Argo CD" {
		return "plumbline adopt --from argocd"
	}
	return "plumbline adopt --from flux"
}

// ElsewhereError says that Karpenter was installed under another name or in
// another namespace than both releases have here.
type ElsewhereError struct {
	Object string
	Owner  owners.Owner
	// Namespace that would be right; empty where none would be.
	Namespace string
}

// Error says what to set.
func (e *ElsewhereError) Error() string {
	text := fmt.Sprintf("%s (%s) already belongs to Karpenter, and a second one would be installed beside it: ", e.Object, e.Owner)
	if e.Namespace != "" {
		return text + fmt.Sprintf("set namespace: %s in plumbline.yaml, with adopt: true, or management: External", e.Namespace)
	}
	return text + fmt.Sprintf("only releases named %s and %s can be adopted: set management: External in plumbline.yaml", charts.CRDChart, charts.ControllerChart)
}

// OtherChartError says that a release of our name was made from another chart: its other
// objects, such as NodePools, would be deleted by an upgrade to ours.
type OtherChartError struct {
	Release, Chart string
}

// Error names the chart.
func (e *OtherChartError) Error() string {
	return fmt.Sprintf("helm release %s was made from chart %s, which is not Karpenter's own: adopting it would delete its other objects: "+
		"set management: External in plumbline.yaml", e.Release, e.Chart)
}

// NewerError says that CRDs of no release are those of a newer version than Git's,
// as far as is known: they would be downgraded.
type NewerError struct {
	Runs, Version string
}

// Error says what to do first.
func (e *NewerError) Error() string {
	return fmt.Sprintf("karpenter %s runs here with CRDs of no helm release, and CRDs are never downgraded: set version: %s in plumbline.yaml to adopt them, and change it to %s in a later commit",
		e.Runs, e.Runs, e.Version)
}

// ForeignReleaseError says that a release was not made by plumbline.
type ForeignReleaseError struct {
	Release  string
	Revision int
}

// Error says what can be done about it.
func (e *ForeignReleaseError) Error() string {
	return fmt.Sprintf("helm release %s (revision %d) was not installed by plumbline and is left unchanged: %s", e.Release, e.Revision, waysOut)
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
	return fmt.Sprintf("%s: not part of this helm release, and left unchanged: %s", strings.Join(e.Objects, ", "), waysOut)
}

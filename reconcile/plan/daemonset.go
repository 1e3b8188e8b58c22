package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	podutil "sigs.k8s.io/karpenter/pkg/utils/pod"
)

// NodeDaemonSet is a DaemonSet that a node needs until its last pod has ended: that of a CSI
// driver, which unmounts its volumes, or that of a CNI plugin, which gives pods their network.
type NodeDaemonSet struct {
	Namespace, Name string
	// Drivers are the CSI drivers that it runs, sorted; CSI says that it runs one, maybe of a name
	// that is not known.
	Drivers  []string
	CSI, CNI bool
	// Tolerates says that its pods stay on a node that Karpenter drains: Karpenter evicts every
	// pod that does not tolerate karpenter.sh/disrupted:NoSchedule, those of DaemonSets last, and
	// no DaemonSet puts another pod on a node with that taint.
	Tolerates bool
	// bare says that it has no toleration at all, so that a patch cannot add to the list.
	bare bool
}

// DaemonSets are those of the cluster that nodes need until their last pod has ended.
type DaemonSets struct {
	Found []NodeDaemonSet
	// Unread is why they are not known; empty where they are.
	Unread string
}

// Intolerant are those whose pods Karpenter evicts.
func (d DaemonSets) Intolerant() []NodeDaemonSet {
	var found []NodeDaemonSet
	for _, one := range d.Found {
		if !one.Tolerates {
			found = append(found, one)
		}
	}
	return found
}

// NodeDaemonSets are those of some DaemonSets that are a CSI driver's or a CNI plugin's, by
// namespace and name. drivers are the names of the cluster's CSIDrivers. One that runs on no node
// is left out, and one that may not run on Karpenter's.
func NodeDaemonSets(all []appsv1.DaemonSet, drivers []string) []NodeDaemonSet {
	var found []NodeDaemonSet
	for i := range all {
		set := &all[i]
		spec := &set.Spec.Template.Spec
		idle := set.Status.DesiredNumberScheduled == 0 && set.Status.ObservedGeneration > 0
		names, csi := driversOf(spec, drivers)
		cni := runsCNI(spec)
		if idle || !csi && !cni || !mayRunOnKarpenters(spec) {
			continue
		}
		found = append(found, NodeDaemonSet{
			Namespace: set.Namespace, Name: set.Name, Drivers: names, CSI: csi, CNI: cni,
			Tolerates: podutil.ToleratesDisruptedNoScheduleTaint(&corev1.Pod{Spec: corev1.PodSpec{Tolerations: spec.Tolerations}}),
			bare:      len(spec.Tolerations) == 0,
		})
	}
	slices.SortFunc(found, func(a, b NodeDaemonSet) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return found
}

// String is its namespace and name, with what it is for.
func (d NodeDaemonSet) String() string {
	var serves []string
	switch {
	case len(d.Drivers) > 0:
		serves = append(serves, "CSI driver "+strings.Join(d.Drivers, ", "))
	case d.CSI:
		serves = append(serves, "a CSI driver")
	}
	if d.CNI {
		serves = append(serves, "a CNI plugin")
	}
	return fmt.Sprintf("DaemonSet %s/%s (%s)", d.Namespace, d.Name, strings.Join(serves, ", "))
}

// toleration is what is missing, as Karpenter's taint is
// (sigs.k8s.io/karpenter pkg/apis/v1/taints.go, DisruptedNoScheduleTaint).
const toleration = `{"key":"` + karpv1.DisruptedTaintKey + `","operator":"Exists","effect":"NoSchedule"}`

// Patch is the command that gives it the toleration.
func (d NodeDaemonSet) Patch() string {
	path, value := "/spec/template/spec/tolerations/-", toleration
	if d.bare {
		path, value = "/spec/template/spec/tolerations", "["+toleration+"]"
	}
	return fmt.Sprintf(`kubectl patch daemonset %s -n %s --type=json -p '[{"op":"add","path":"%s","value":%s}]'`, d.Name, d.Namespace, path, value)
}

// Doubt says that it is not known which lack the toleration; empty where it is.
func (d DaemonSets) Doubt() string {
	if d.Unread == "" {
		return ""
	}
	return "whether the DaemonSets of CSI drivers and CNI plugins tolerate a drain is not known: " + d.Unread
}

// Trouble is the warning about them: that nobody knows, or which lack the toleration. It is empty
// where none does.
func (d DaemonSets) Trouble() string { return cmp.Or(d.Doubt(), d.Untolerated()) }

// Untolerated says of DaemonSets that lack the toleration what follows and what to do; empty where
// there is none.
func (d DaemonSets) Untolerated() string {
	intolerant := d.Intolerant()
	if len(intolerant) == 0 {
		return ""
	}
	names, patches := make([]string, 0, len(intolerant)), make([]string, 0, len(intolerant))
	for _, one := range intolerant {
		names, patches = append(names, one.String()), append(patches, one.Patch())
	}
	does := "does not tolerate"
	if len(names) > 1 {
		does = "do not tolerate"
	}
	return fmt.Sprintf("%s %s %s:NoSchedule: Karpenter evicts their pods from a node that it drains, and volumes stay attached or pods lose their network; add the toleration where they are installed from, or by hand: %s",
		someOf(names), does, karpv1.DisruptedTaintKey, strings.Join(patches[:min(named, len(patches))], "; "))
}

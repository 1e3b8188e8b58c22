package plan

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	podutil "sigs.k8s.io/karpenter/pkg/utils/pod"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/render"
)

// NodeDaemonSet is a DaemonSet that a node needs until its last pod has terminated: that of a CSI driver, which
// unmounts its volumes, or of a CNI plugin, which provides the pod network.
type NodeDaemonSet struct {
	Namespace, Name string
	// Drivers are its CSI drivers, sorted; CSI reports whether it runs one, whose name may be unknown.
	Drivers  []string
	CSI, CNI bool
	// Tolerates reports whether its pods stay on a node that Karpenter drains: Karpenter evicts every pod that does not
	// tolerate karpenter.sh/disrupted:NoSchedule, pods of DaemonSets last, and a DaemonSet does not recreate its pod on
	// a node with that taint.
	Tolerates bool
	// bare reports whether it has no tolerations at all, so that a patch cannot append to the list.
	bare bool
}

// DaemonSets are those of the cluster that nodes need until their last pod has terminated.
type DaemonSets struct {
	Found []NodeDaemonSet
	// Unread is why they are unknown; empty if they are known.
	Unread string
}

// Intolerant returns those whose pods Karpenter evicts.
func (d DaemonSets) Intolerant() []NodeDaemonSet {
	var found []NodeDaemonSet
	for _, one := range d.Found {
		if !one.Tolerates {
			found = append(found, one)
		}
	}
	return found
}

// NodeDaemonSets returns the DaemonSets of a CSI driver or a CNI plugin, by namespace and name. drivers are the names
// of the cluster's CSIDrivers. DaemonSets that run on no node, or may not run on Karpenter's nodes, are omitted.
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

// String returns its namespace and name, and what it runs.
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

// toleration is the missing toleration for Karpenter's taint (sigs.k8s.io/karpenter pkg/apis/v1/taints.go,
// DisruptedNoScheduleTaint).
const toleration = `{"key":"` + karpv1.DisruptedTaintKey + `","operator":"Exists","effect":"NoSchedule"}`

// Patch returns the command that adds the toleration.
func (d NodeDaemonSet) Patch() string {
	path, value := "/spec/template/spec/tolerations/-", toleration
	if d.bare {
		path, value = "/spec/template/spec/tolerations", "["+toleration+"]"
	}
	return fmt.Sprintf(`kubectl patch daemonset %s -n %s --type=json -p '[{"op":"add","path":"%s","value":%s}]'`, d.Name, d.Namespace, path,
		value)
}

// Doubt returns the message that it is unknown which are missing the toleration; empty if it is known.
func (d DaemonSets) Doubt() string {
	if d.Unread == "" {
		return ""
	}
	return "unknown whether the DaemonSets of CSI drivers and CNI plugins tolerate a drain: " + d.Unread
}

// Trouble returns the warning about them: that it is unknown, or which are missing the toleration. It is empty if none
// is.
func (d DaemonSets) Trouble() string { return cmp.Or(d.Doubt(), d.Untolerated()) }

// Untolerated describes the consequence of missing tolerations, and what to do; empty if none is missing.
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
	return fmt.Sprintf("%s %s %s:NoSchedule: Karpenter evicts their pods from a node that it drains, so that volumes stay attached or pods lose their network; add the toleration in the chart or manifest that installs them, or by hand: %s",
		someOf(names), does, karpv1.DisruptedTaintKey, strings.Join(patches[:min(maxNamed, len(patches))], "; "))
}

// registrar is the image of the sidecar that registers a CSI driver with the kubelet
// (github.com/kubernetes-csi/node-driver-registrar).
const registrar = "csi-node-driver-registrar"

// driverImages maps the last part of an image to its CSI driver for AWS.
func driverImages() map[string]string {
	return map[string]string{
		"aws-ebs-csi-driver":           "ebs.csi.aws.com",
		"aws-efs-csi-driver":           "efs.csi.aws.com",
		"aws-fsx-csi-driver":           "fsx.csi.aws.com",
		"aws-mountpoint-s3-csi-driver": "s3.csi.aws.com",
	}
}

// pluginImages lists the last parts of the images of CNI plugins.
func pluginImages() []string {
	return []string{"amazon-k8s-cni", "cilium/cilium", "calico/node"}
}

// pluginFolders lists where a node's container runtime finds its CNI plugins (github.com/containernetworking/cni, and
// containerd's defaults).
func pluginFolders() []string { return []string{"/opt/cni/bin", "/etc/cni/net.d"} }

// driversOf returns the CSI drivers that pods run, if their names are known, and whether they run one. A driver is
// recognized by the folder of its socket, /var/lib/kubelet/plugins/DRIVER/csi.sock, which is mounted from the node; by
// the registrar; and by its image.
func driversOf(spec *corev1.PodSpec, known []string) (drivers []string, runs bool) {
	registers := false
	for i := range spec.Containers {
		image := repositoryOf(spec.Containers[i].Image)
		registers = registers || path.Base(image) == registrar
		if driver := driverImages()[path.Base(image)]; driver != "" {
			drivers = append(drivers, driver)
		}
	}
	for _, folder := range hostPaths(spec) {
		parts := strings.Split(folder, "/")
		for i, part := range parts {
			plugin := i > 0 && (parts[i-1] == "plugins" || parts[i-1] == "csi-plugins") && part != "" && part != "kubernetes.io"
			if slices.Contains(known, part) || registers && plugin {
				drivers = append(drivers, part)
			}
		}
	}
	slices.Sort(drivers)
	drivers = slices.Compact(drivers)
	return drivers, registers || len(drivers) > 0
}

// runsCNI reports whether pods install a CNI plugin on their node.
func runsCNI(spec *corev1.PodSpec) bool {
	for i := range spec.Containers {
		image := "/" + repositoryOf(spec.Containers[i].Image)
		if slices.ContainsFunc(pluginImages(), func(plugin string) bool { return strings.HasSuffix(image, "/"+plugin) }) {
			return true
		}
	}
	return slices.ContainsFunc(hostPaths(spec), func(folder string) bool { return slices.Contains(pluginFolders(), folder) })
}

// hostPaths returns the folders of the node that pods mount.
func hostPaths(spec *corev1.PodSpec) []string {
	var found []string
	for i := range spec.Volumes {
		if host := spec.Volumes[i].HostPath; host != nil {
			found = append(found, path.Clean(host.Path))
		}
	}
	return found
}

// repositoryOf returns an image without its tag and digest.
func repositoryOf(image string) string {
	image, _, _ = strings.Cut(image, "@")
	if colon := strings.LastIndex(image, ":"); colon > strings.LastIndex(image, "/") {
		return image[:colon]
	}
	return image
}

// nodegroupLabel is on the nodes of EKS' managed node groups.
const nodegroupLabel = "eks.amazonaws.com/nodegroup"

// mayRunOnKarpenters reports whether pods may run on a node that Karpenter launched: not if they are bound to managed
// node groups, or excluded from every NodePool.
func mayRunOnKarpenters(spec *corev1.PodSpec) bool {
	if _, bound := spec.NodeSelector[nodegroupLabel]; bound {
		return false
	}
	if spec.Affinity == nil || spec.Affinity.NodeAffinity == nil ||
		spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return true
	}
	terms := spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	return len(terms) == 0 || slices.ContainsFunc(terms, func(term corev1.NodeSelectorTerm) bool {
		return !slices.ContainsFunc(term.MatchExpressions, func(r corev1.NodeSelectorRequirement) bool {
			off := r.Key == karpv1.NodePoolLabelKey && r.Operator == corev1.NodeSelectorOpDoesNotExist
			bound := r.Key == nodegroupLabel && (r.Operator == corev1.NodeSelectorOpIn || r.Operator == corev1.NodeSelectorOpExists)
			return off || bound
		})
	})
}

// ReasonIntolerantDaemonSets is the reason to hold what would terminate nodes while a DaemonSet that they need until
// the end does not tolerate that.
const ReasonIntolerantDaemonSets = "IntolerantDaemonSets"

// holdIntolerant holds what would terminate nodes, if guard.intolerantDaemonSets is Hold, while a DaemonSet of a CSI
// driver or a CNI plugin is missing its toleration, or while that is unknown.
func (m *maker) holdIntolerant(p *Plan) {
	if m.policy.Guard.IntolerantDaemonSets != v1alpha1.IntolerantDaemonSetsHold || m.policy.Deleting {
		return
	}
	words := m.policy.DaemonSets.Trouble()
	if words == "" {
		return
	}
	words = "guard.intolerantDaemonSets is Hold: " + words
	for i := range p.Removals {
		c := &p.Removals[i]
		if c.Ref.Kind == render.NodePool && c.Nodes > 0 && !c.Terminating {
			c.holdUnlessApproved(ReasonIntolerantDaemonSets, words)
		}
	}
	for i := range p.Changes {
		if c := &p.Changes[i]; disrupts(c) {
			m.holdUnlessApproved(c)(ReasonIntolerantDaemonSets, words)
		}
	}
}

// Disrupts reports whether the Plan terminates or replaces nodes now.
func (p *Plan) Disrupts() bool {
	for i := range p.Changes {
		if proceedsAndCounts(&p.Changes[i]) {
			return true
		}
	}
	for _, c := range p.Removals {
		if !c.Held && c.Nodes > 0 {
			return true
		}
	}
	return false
}

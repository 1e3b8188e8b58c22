package plan

import (
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// registrar is the image of the sidecar that registers a CSI driver with the kubelet
// (github.com/kubernetes-csi/node-driver-registrar).
const registrar = "csi-node-driver-registrar"

// driverImages are CSI drivers for AWS by the last part of their image.
func driverImages() map[string]string {
	return map[string]string{
		"aws-ebs-csi-driver":           "ebs.csi.aws.com",
		"aws-efs-csi-driver":           "efs.csi.aws.com",
		"aws-fsx-csi-driver":           "fsx.csi.aws.com",
		"aws-mountpoint-s3-csi-driver": "s3.csi.aws.com",
	}
}

// pluginImages are CNI plugins by the last parts of their image.
func pluginImages() []string {
	return []string{"amazon-k8s-cni", "cilium/cilium", "calico/node"}
}

// pluginFolders are where a node's container runtime finds its CNI plugins
// (github.com/containernetworking/cni, and containerd's defaults).
func pluginFolders() []string { return []string{"/opt/cni/bin", "/etc/cni/net.d"} }

// driversOf are the CSI drivers that pods run, as far as their names are known, and whether they
// run one. A driver is known by its socket, /var/lib/kubelet/plugins/DRIVER/csi.sock, whose folder
// is mounted from the node; by the registrar, and by its image.
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

// runsCNI says whether pods install a CNI plugin on their node.
func runsCNI(spec *corev1.PodSpec) bool {
	for i := range spec.Containers {
		image := "/" + repositoryOf(spec.Containers[i].Image)
		if slices.ContainsFunc(pluginImages(), func(plugin string) bool { return strings.HasSuffix(image, "/"+plugin) }) {
			return true
		}
	}
	return slices.ContainsFunc(hostPaths(spec), func(folder string) bool { return slices.Contains(pluginFolders(), folder) })
}

// hostPaths are the folders of the node that pods mount.
func hostPaths(spec *corev1.PodSpec) []string {
	var found []string
	for i := range spec.Volumes {
		if host := spec.Volumes[i].HostPath; host != nil {
			found = append(found, path.Clean(host.Path))
		}
	}
	return found
}

// repositoryOf is an image without its tag and digest.
func repositoryOf(image string) string {
	image, _, _ = strings.Cut(image, "@")
	if colon := strings.LastIndex(image, ":"); colon > strings.LastIndex(image, "/") {
		return image[:colon]
	}
	return image
}

// nodegroupLabel is on the nodes of EKS' managed node groups.
const nodegroupLabel = "eks.amazonaws.com/nodegroup"

// mayRunOnKarpenters says whether pods may run on a node that Karpenter has launched: not those
// that are bound to managed node groups, or kept off every NodePool.
func mayRunOnKarpenters(spec *corev1.PodSpec) bool {
	if _, bound := spec.NodeSelector[nodegroupLabel]; bound {
		return false
	}
	if spec.Affinity == nil || spec.Affinity.NodeAffinity == nil || spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
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

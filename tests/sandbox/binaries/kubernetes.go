package binaries

import (
	"strconv"
	"strings"
)

// KubernetesOf returns the name of the program for a cluster that serves a minor version of Kubernetes, such as 1.33,
// and of its module's folder. Kubernetes serves its own version and emulates the three minor versions before it
// (kubeEffectiveVersionFloors in k8s.io/apiserver pkg/util/compatibility/version.go); OlderKubernetes emulates those that
// it no longer does.
func KubernetesOf(minor string) Name {
	if minorNumber(minor) < minorNumber(KubernetesVersion)-3 {
		return OlderKubernetes
	}
	return Kubernetes
}

// DefaultKubernetes returns the minor version of Kubernetes, such as 1.36, that a sandbox serves by default: the newest
// that KarpenterVersion supports.
func DefaultKubernetes() string { return newestKubernetes(KarpenterVersion) }

// newestKubernetes returns the newest minor version that a sandbox can serve and a version of Karpenter supports.
func newestKubernetes(karpenter string) string {
	newest := minorNumber(KubernetesVersion)
	for _, c := range controllers() {
		if c.version == karpenter {
			newest = min(newest, minorNumber(c.kubernetes))
		}
	}
	return "1." + strconv.Itoa(newest)
}

// minorNumber returns 36 for 1.36 and 1.36.3; 0 for what is no version, which no part of a control plane accepts.
func minorNumber(version string) int {
	_, after, _ := strings.Cut(version, ".")
	minor, _, _ := strings.Cut(after, ".")
	number, _ := strconv.Atoi(minor)
	return number
}

// kubernetesVersionFlags set the version that the API server reports: clients such as Helm reject the "v0.0.0-master"
// of an unset one.
func kubernetesVersionFlags(version string) []string {
	const pkg = "k8s.io/component-base/version."
	parts := strings.Split(version, ".")
	return []string{
		"-X", pkg + "gitVersion=v" + version,
		"-X", pkg + "gitMajor=" + parts[0],
		"-X", pkg + "gitMinor=" + parts[1],
	}
}

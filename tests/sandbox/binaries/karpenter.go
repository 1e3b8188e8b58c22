package binaries

import "slices"

// KarpenterReleases returns the versions of Karpenter with a module under tests/sandbox/bin, the oldest first: those of
// the provider that the Go module proxy has. Charts and CRDs are available for each.
func KarpenterReleases() []string {
	return append([]string{"1.0.8", "1.3.3"}, KarpenterControllers()...)
}

// KarpenterControllers returns those whose controller can be built. Older ones do not run on any Kubernetes version
// that the sandbox can emulate: at least 1.33, which requires Karpenter 1.5.
// https://karpenter.sh/docs/upgrading/compatibility
func KarpenterControllers() []string {
	var versions []string
	for _, c := range controllers() {
		versions = append(versions, c.version)
	}
	return versions
}

// controller is a version of Karpenter whose controller can be built, and the newest minor version of Kubernetes that
// it supports: MaxK8sVersion in its pkg/providers/version/version.go.
type controller struct{ version, kubernetes string }

// controllers returns them, the oldest first. A test of provision/karpenter compares them with its table.
func controllers() []controller {
	return []controller{
		{"1.6.3", "1.33"},
		{"1.8.6", "1.34"},
		{"1.9.3", "1.35"},
		{"1.12.1", "1.35"},
		{"1.14.1", "1.36"},
		{"1.14.3", "1.36"},
		{"1.15.0", "1.37"},
	}
}

// KarpenterOf returns the name of the controller of a version, and of its module's folder. Sandboxes build only
// Karpenter itself in advance, the others on demand.
func KarpenterOf(version string) Name {
	if version == KarpenterVersion {
		return Karpenter
	}
	return Karpenter + "-" + Name(version)
}

// controllerVersion returns the version of a controller; false for other programs.
func controllerVersion(name Name) (string, bool) {
	all := KarpenterControllers()
	i := slices.IndexFunc(all, func(version string) bool { return KarpenterOf(version) == name })
	if i < 0 {
		return "", false
	}
	return all[i], true
}

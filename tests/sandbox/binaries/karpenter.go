package binaries

import "slices"

// KarpenterReleases are the versions of Karpenter that have a module under
// tests/sandbox/bin, the oldest first: those of the provider that the Go
// module proxy has. Charts and CRDs can be had of each.
func KarpenterReleases() []string {
	return append([]string{"1.0.8", "1.3.3"}, KarpenterControllers()...)
}

// KarpenterControllers are those of them whose controller can be built. Older
// ones would run on no Kubernetes that the sandbox can play: 1.33 at the
// least, which wants Karpenter 1.5.
// https://karpenter.sh/docs/upgrading/compatibility
func KarpenterControllers() []string {
	return []string{"1.6.3", "1.8.6", "1.12.1", KarpenterVersion}
}

// KarpenterOf is the controller of a version, and the name of its module's
// folder. No sandbox builds one but Karpenter itself before it is asked for.
func KarpenterOf(version string) Name {
	if version == KarpenterVersion {
		return Karpenter
	}
	return Karpenter + "-" + Name(version)
}

// controllerVersion is the version of which a program is the controller.
func controllerVersion(name Name) (string, bool) {
	all := KarpenterControllers()
	i := slices.IndexFunc(all, func(version string) bool { return KarpenterOf(version) == name })
	if i < 0 {
		return "", false
	}
	return all[i], true
}

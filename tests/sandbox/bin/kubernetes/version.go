package main

import (
	"k8s.io/apimachinery/pkg/version"
	servercompatibility "k8s.io/apiserver/pkg/util/compatibility"
	serverfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/compatibility"
)

// emulation is the version of a part. An API server that emulates an older version reports that one at /version, as a
// cluster of that version does: upstream's reports its own, and Karpenter, which reads only major and minor, would
// resolve aliases of AMIs for a version that the cluster does not have.
type emulation struct {
	compatibility.MutableEffectiveVersion
}

// Info returns what /version reports.
func (e emulation) Info() *version.Info {
	info := e.MutableEffectiveVersion.Info()
	if info.EmulationMinor != info.Minor {
		info.Major, info.Minor = info.EmulationMajor, info.EmulationMinor
		info.GitVersion = "v" + info.Major + "." + info.Minor + ".0"
	}
	return info
}

// reportEmulation makes all parts report the version that they emulate. It precedes the creation of their commands.
func reportEmulation() error {
	registry := servercompatibility.DefaultComponentGlobalsRegistry
	registry.Reset()
	return registry.Register(compatibility.DefaultKubeComponent,
		emulation{servercompatibility.DefaultBuildEffectiveVersion()}, serverfeature.DefaultMutableFeatureGate)
}

package render

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/plumbline-dev/plumbline/render/legacy"
)

// classify finds the kind of an object, or says why it is refused.
func classify(apiVersion, kind string) (Kind, string) {
	group, err := schema.ParseGroupVersion(apiVersion)
	if err != nil {
		return Kind{}, fmt.Sprintf("apiVersion %q is not one: %v", apiVersion, err)
	}
	gvk := group.WithKind(kind)
	kinds := Kinds()
	if i := slices.IndexFunc(kinds, func(k Kind) bool { return k.GVK == gvk }); i >= 0 {
		return kinds[i], ""
	}
	if now, ok := legacy.SuccessorOf(gvk); ok {
		return Kind{}, fmt.Sprintf("%s %s became %s %s: %s", apiVersion, kind, now.APIVersion, now.Kind, now.Hint)
	}
	if why, ok := notYet[gvk.GroupKind()]; ok {
		return Kind{}, fmt.Sprintf("%s is refused: %s", kind, why)
	}
	if i := slices.IndexFunc(kinds, func(k Kind) bool { return k.GVK.GroupKind() == gvk.GroupKind() }); i >= 0 {
		return Kind{}, fmt.Sprintf("%s is not known in version %s: write %s", kind, gvk.Version, kinds[i].GVK.GroupVersion())
	}
	if misspelt(gvk.GroupKind()) {
		return Kind{}, fmt.Sprintf("%s (%s) is no kind of Karpenter's: definitions are %s", kind, apiVersion, names(kinds))
	}
	return Kind{}, fmt.Sprintf("%s (%s) is refused: plumbline is for %s; leave it to the tool that applies the rest, or name %[1]s under ignoreKinds in %[4]s to pass over it", kind, apiVersion, names(kinds), FileName)
}

// notYet are Karpenter's other kinds.
var notYet = map[schema.GroupKind]string{
	{Group: "karpenter.sh", Kind: "NodeOverlay"}:               "alpha and behind a feature gate in Karpenter, not supported yet",
	{Group: "autoscaling.x-k8s.io", Kind: "CapacityBuffer"}:    "alpha and behind a feature gate in Karpenter, not supported yet",
	{Group: "karpenter.sh", Kind: "NodeClaim"}:                 "Karpenter makes NodeClaims itself, from NodePools",
	{Group: "config.plumbline.dev", Kind: "Karpenter"}:         "it belongs into " + FileName + " in the folder of the path",
	{Group: "kustomize.config.k8s.io", Kind: "Kustomization"}:  "name its folder under nodes, not the file",
	{Group: "kustomize.config.k8s.io", Kind: "Component"}:      "a component is used by a kustomization, not by itself",
	{Group: "plumbline.dev", Kind: "NodeSync"}:                 "it lives in the cluster, where the repository that it guards cannot change it",
	{Group: "source.toolkit.fluxcd.io", Kind: "GitRepository"}: "plumbline fetches by itself: see source in NodeSync",
}

func names(kinds []Kind) string {
	var all []string
	for _, k := range slices.Backward(kinds) {
		all = append(all, k.GVK.Kind)
	}
	return strings.Join(all, " and ")
}

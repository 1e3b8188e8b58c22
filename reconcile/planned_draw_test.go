package reconcile

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/apply"
	"github.com/plumbline-dev/plumbline/reconcile/apply/applytest"
	"github.com/plumbline-dev/plumbline/render"
)

// drawPlanned draws a world.
func drawPlanned(t *testing.T, rt *rapid.T, shared *plannedShelf) *plannedWorld {
	w := &plannedWorld{server: applytest.New(t), files: fstest.MapFS{}}
	w.sync = nodeSync(func(n *v1alpha1.NodeSync) {
		n.Spec.Guard = drawGuard(rt)
		n.Spec.Policies = drawPolicies(rt)
		n.Spec.Removal.Strategy = rapid.SampledFrom([]v1alpha1.RemovalStrategy{"", v1alpha1.RemovalPaced, v1alpha1.RemovalOrphan}).Draw(rt, "strategy")
		n.Spec.Removal.Rescue = rapid.Bool().Draw(rt, "rescue")
		n.Spec.Adopt = rapid.SampledFrom([]v1alpha1.AdoptPolicy{v1alpha1.AdoptIfIdentical, v1alpha1.AdoptAlways, v1alpha1.AdoptNever}).Draw(rt, "adopt")
		n.Spec.Charts = drawAccess(rt)
		n.Spec.Drift = rapid.SampledFrom([]v1alpha1.DriftPolicy{v1alpha1.DriftCorrect, v1alpha1.DriftReport}).Draw(rt, "drift")
		n.Status.LastAppliedRevision = rapid.SampledFrom([]string{"", "main@sha1:0", "main@sha1:0", nextRevision}).Draw(rt, "applied before")
		n.Status.LastAttemptedRevision = n.Status.LastAppliedRevision
		if n.Status.LastAppliedRevision != "" && rapid.IntRange(0, 2).Draw(rt, "HEAD is older") == 0 {
			n.Status.Withheld = &v1alpha1.Withheld{Reason: v1alpha1.ReasonOlderRevision, Revision: nextRevision, From: "main@sha1:0"}
		}
	})
	w.drawInstalled(rt, shared.identity)
	w.drawKarpenter(rt)
	w.drawDefinitions(rt)
	w.drawCluster(t, rt)
	return w
}

func drawGuard(rt *rapid.T) v1alpha1.Guard {
	removed := rapid.Int32Range(0, 3).Draw(rt, "removed pools")
	guard := v1alpha1.Guard{MaxRemovedPools: &removed, AllowLastPool: rapid.Bool().Draw(rt, "last pool"), AllowUnverifiedAccount: true}
	if limit := rapid.SampledFrom([]string{"", "0", "100%"}).Draw(rt, "disrupted nodes"); limit != "" {
		parsed := intstr.Parse(limit)
		guard.MaxDisruptedNodes = &parsed
	}
	if limit := rapid.SampledFrom([]string{"", "", "1", "50%"}).Draw(rt, "disrupted nodes of a pool"); limit != "" {
		parsed := intstr.Parse(limit)
		guard.MaxDisruptedNodesPerPool = &parsed
	}
	return guard
}

// drawPolicies draws one that denies or holds, or none.
func drawPolicies(rt *rapid.T) []v1alpha1.Policy {
	expression := rapid.SampledFrom([]string{"", "", "", "change.effect == 'None'", "removal.nodes == 0", "plan.totals.disruptedNodes == 0 && plan.nodeSync != ''"}).Draw(rt, "policy")
	if expression == "" {
		return nil
	}
	return []v1alpha1.Policy{{Name: "p", Expression: expression, Action: rapid.SampledFrom([]v1alpha1.PolicyAction{v1alpha1.PolicyHold, v1alpha1.PolicyHold, v1alpha1.PolicyDeny}).Draw(rt, "its action")}}
}

// drawAccess draws which digests charts may have: any, those of both, or not those of one.
func drawAccess(rt *rapid.T) *v1alpha1.ChartAccess {
	const crds = "sha256:crds"
	lists := map[string][]string{
		"those of 1.14.1":   {crds, "sha256:1.14.1"},
		"those of 1.13.0":   {crds, "sha256:1.13.0"},
		"that of the CRDs":  {crds},
		"those of all":      {crds, "sha256:1.13.0", "sha256:1.14.1", "sha256:1.99.0"},
		"of the controller": {"sha256:1.13.0", "sha256:1.14.1"},
		"others":            {"sha256:another"},
	}
	if rapid.IntRange(0, 2).Draw(rt, "digests are listed") > 0 {
		return nil
	}
	name := rapid.SampledFrom(slices.Sorted(maps.Keys(lists))).Draw(rt, "digests that are allowed")
	return &v1alpha1.ChartAccess{Allow: &v1alpha1.ChartAllow{Digests: lists[name]}}
}

// drawInstalled draws how far Karpenter is.
func (w *plannedWorld) drawInstalled(rt *rapid.T, identity string) {
	how := rapid.SampledFrom([]string{"installed", "installed", "installed", "older", "rolled back", "none"}).Draw(rt, "Karpenter")
	if how == "none" {
		return
	}
	k := w.install(identity)
	if how != "installed" {
		k.Version, k.Identity, k.CRDs.Version, k.Controller.Version = "1.13.0", "older", "1.13.0", "1.13.0"
		w.inForce = k.Version
	}
	if how == "rolled back" {
		k.Target = &v1alpha1.ChartTarget{Version: "1.14.1", Identity: identity, Step: v1alpha1.ChartRolledBack, Message: "Karpenter 1.14.1 did not come up"}
	}
	k.ClusterARN = rapid.SampledFrom([]string{"", "arn:aws:eks:eu-west-1:1:cluster/prod-eu"}).Draw(rt, "verified before")
}

// drawKarpenter draws plumbline.yaml: right, or with one thing wrong.
func (w *plannedWorld) drawKarpenter(rt *rapid.T) {
	changed := func(from, to string) string { return strings.Replace(plannedYAML, from, to, 1) }
	texts := map[string]string{
		"right":                    plannedYAML,
		"no YAML":                  "kind: [",
		"unknown field":            plannedYAML + "nodez: []\n",
		"another cluster":          changed("prod-eu", "prod-us"),
		"another region":           changed("eu-west-1", "eu-west-2"),
		"another namespace":        plannedYAML + "namespace: karpenter\n",
		"External":                 changed("version: 1.14.1", "management: External"),
		"no such version":          changed("1.14.1", "1.14.9"),
		"older version":            changed("1.14.1", "1.13.0"),
		"untested version":         changed("1.14.1", "1.99.0"),
		"accepted version":         changed("1.14.1", "1.99.0") + "acceptUntested: [karpenter 1.99.0]\n",
		"open value":               plannedYAML + "values: {replicas: 3}\n",
		"misspelt value":           plannedYAML + "values: {replica: 3}\n",
		"closed value":             plannedYAML + "values: {hostNetwork: true}\n",
		"contradicting value":      plannedYAML + "values: {settings: {clusterName: other}}\n",
		"values file that is gone": plannedYAML + "valuesFiles: [./gone.yaml]\n",
		"values of no object":      plannedYAML + "valuesFrom: [{kind: ConfigMap, name: gone}]\n",
		"repository not allowed":   plannedYAML + "repository: oci://evil.example.com/karpenter\n",
		"digest not allowed":       plannedYAML + "digests: {karpenter: 'sha256:" + strings.Repeat("0", 64) + "'}\n",
		"nodes that are gone":      changed("./nodes", "./gone"),
		"substitution":             plannedYAML + "substitute: {TEAM: data}\n",
	}
	name := "right"
	if rapid.IntRange(0, 2).Draw(rt, "plumbline.yaml is changed") == 0 {
		name = rapid.SampledFrom(sortedKeys(texts)).Draw(rt, "plumbline.yaml")
	}
	w.files["prod/plumbline.yaml"] = &fstest.MapFile{Data: []byte(texts[name])}
	if rapid.IntRange(0, 30).Draw(rt, "plumbline.yaml is there") == 0 {
		delete(w.files, "prod/plumbline.yaml")
	}
	if name != "External" && rapid.IntRange(0, 10).Draw(rt, "another manager") == 0 {
		other := nodeSync(func(n *v1alpha1.NodeSync) {
			n.Name, n.UID = "other", "22"
			n.Status.Karpenter = &v1alpha1.KarpenterStatus{Management: "Managed", CRDs: &v1alpha1.ReleaseStatus{Revision: 1, Version: "1.14.1"}}
		})
		w.others = append(w.others, other)
	}
}

// drawDefinitions draws what the repository has.
func (w *plannedWorld) drawDefinitions(rt *rapid.T) {
	for _, class := range []string{"default", "other"} {
		if class == "default" || rapid.Bool().Draw(rt, "class "+class) {
			w.files["prod/nodes/class-"+class+".yaml"] = &fstest.MapFile{Data: []byte(classText(rt, class))}
		}
	}
	for _, pool := range []string{"a", "b", "c"} {
		if rapid.IntRange(0, 2).Draw(rt, "pool "+pool) > 0 {
			w.files["prod/nodes/pool-"+pool+".yaml"] = &fstest.MapFile{Data: []byte(drawPool(rt, pool))}
		}
	}
	if rapid.IntRange(0, 20).Draw(rt, "another kind") == 0 {
		w.files["prod/nodes/app.yaml"] = &fstest.MapFile{Data: []byte("apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\n")}
	}
}

func classText(rt *rapid.T, name string) string {
	alias := rapid.SampledFrom([]string{"al2023@latest", "al2023@v20251002"}).Draw(rt, "AMI")
	return fmt.Sprintf(`apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: %s}
spec:
  role: nodes
  amiSelectorTerms: [{alias: %s}]
  subnetSelectorTerms: [{tags: {karpenter.sh/discovery: demo}}]
  securityGroupSelectorTerms: [{tags: {karpenter.sh/discovery: demo}}]
`, name, alias)
}

// drawPool draws a NodePool, mostly a right one.
func drawPool(rt *rapid.T, name string) string {
	class, requirements, more := "default", "{key: karpenter.sh/capacity-type, operator: In, values: [spot]}", ""
	switch rapid.SampledFrom([]string{"right", "right", "right", "right", "limit", "static", "other class", "no class", "arch", "unknown field", "contradiction", "no arch", "substitution", "no YAML"}).Draw(rt, "pool "+name) {
	case "limit":
		more = "  limits: {cpu: 10}\n"
	case "static":
		more = "  replicas: 2\n"
	case "other class":
		class = "other"
	case "no class":
		class = "gone"
	case "arch":
		requirements += ", {key: kubernetes.io/arch, operator: In, values: [arm64]}"
	case "unknown field":
		more = "  nope: 1\n"
	case "contradiction":
		requirements += ", {key: kubernetes.io/arch, operator: In, values: [arm64]}, {key: kubernetes.io/arch, operator: NotIn, values: [arm64]}"
	case "no arch":
		requirements = "{key: kubernetes.io/arch, operator: In, values: [s390x]}"
	case "substitution":
		more = "  weight: ${WEIGHT}\n"
	case "no YAML":
		return "kind: ["
	}
	return poolText(name, class, requirements) + more
}

func poolText(name, class, requirements string) string {
	return fmt.Sprintf(`apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: %s}
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: %s}
      requirements: [%s]
`, name, class, requirements)
}

// drawCluster draws what lives: ours, another client's, and nodes.
func (w *plannedWorld) drawCluster(t *testing.T, rt *rapid.T) {
	texts := map[string]string{"default": classText(rt, "default")}
	for _, pool := range []string{"a", "b", "d"} {
		texts[pool] = drawRightPool(rt, pool)
	}
	for _, name := range sortedKeys(texts) {
		by := rapid.SampledFrom([]string{"plumbline", "plumbline", "plumbline", "kubectl", "argocd-controller", ""}).Draw(rt, "owner of "+name)
		if by == "" {
			continue
		}
		object := w.server.Definition(rt, texts[name]).Desired
		if by == v1alpha1.FieldManager {
			object.SetLabels(map[string]string{v1alpha1.OwnerLabel: namespace + ".prod"})
		}
		if err := w.server.ApplyAs(t.Context(), object, by, true); err != nil {
			rt.Fatal(err)
		}
	}
	if class := (render.Ref{Kind: render.EC2NodeClass, Name: "default"}); w.server.Object(class) != nil && rapid.IntRange(0, 3).Draw(rt, "the class is deleted") == 0 {
		w.server.Terminate(class)
	}
	w.drawRecord(rt)
	for _, pool := range []string{"a", "b", "d"} {
		live := w.server.Object(render.Ref{Kind: render.NodePool, Name: pool})
		if live == nil {
			continue
		}
		for i := range rapid.IntRange(0, 3).Draw(rt, "nodes of "+pool) {
			w.others = append(w.others, claimOf(pool, live.GetUID(), i))
		}
	}
}

// drawRecord draws what the record of what was applied has: all that lives, not the newest pool, no
// revision; or there is none.
func (w *plannedWorld) drawRecord(rt *rapid.T) {
	how := rapid.SampledFrom([]string{"whole", "whole", "whole", "of before", "no revision", "none"}).Draw(rt, "record")
	if how == "none" {
		return
	}
	w.recorded = &apply.Record{Objects: map[render.Ref]types.UID{}, Pools: map[string]bool{}, Revision: "main@sha1:0"}
	for ref, object := range w.server.Objects() {
		if newest := ref.Name == "d"; object.GetLabels()[v1alpha1.OwnerLabel] == "" || newest && how == "of before" {
			continue
		}
		w.recorded.Objects[ref] = object.GetUID()
		if ref.Kind == render.NodePool {
			w.recorded.Pools[ref.Name] = true
		}
	}
	if how == "no revision" {
		w.recorded.Revision = ""
	}
}

func drawRightPool(rt *rapid.T, name string) string {
	text := poolText(name, "default", "{key: karpenter.sh/capacity-type, operator: In, values: [spot]}")
	return text + rapid.SampledFrom([]string{"", "", "  limits: {cpu: 10}\n", "  replicas: 3\n"}).Draw(rt, "live "+name)
}

func claimOf(pool string, uid types.UID, i int) *karpv1.NodeClaim {
	name := fmt.Sprintf("%s-%d", pool, i)
	return &karpv1.NodeClaim{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, UID: types.UID("claim-" + name),
			Labels:          map[string]string{karpv1.NodePoolLabelKey: pool, "karpenter.sh/capacity-type": "spot", "kubernetes.io/arch": "amd64"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "karpenter.sh/v1", Kind: render.NodePool, Name: pool, UID: uid}},
		},
		Spec: karpv1.NodeClaimSpec{NodeClassRef: &karpv1.NodeClassReference{Group: "karpenter.k8s.aws", Kind: render.EC2NodeClass, Name: "default"}},
	}
}

func sortedKeys(texts map[string]string) []string { return slices.Sorted(maps.Keys(texts)) }

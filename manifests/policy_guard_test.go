package manifests

import (
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
)

// Users that may delete by accident, and those that do not.
var (
	person     = &user.DefaultInfo{Name: "kubernetes-admin", Groups: []string{"system:masters", "system:authenticated"}}
	collector  = &user.DefaultInfo{Name: "system:serviceaccount:kube-system:generic-garbage-collector", Groups: []string{"system:serviceaccounts"}}
	flux       = &user.DefaultInfo{Name: "system:serviceaccount:flux-system:kustomize-controller"}
	karpenter  = &user.DefaultInfo{Name: "system:serviceaccount:kube-system:karpenter"}
	elsewhere  = &user.DefaultInfo{Name: "system:serviceaccount:karpenter:karpenter"}
	impostor   = &user.DefaultInfo{Name: "system:serviceaccount:kube-system:not-karpenter"}
	glassBreak = &user.DefaultInfo{Name: "kubernetes-admin", Groups: []string{"plumbline:break-glass"}}
)

// guarded are objects that the deletion guard protects, and some that it does not.
const (
	guardedPool    = "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: general, labels: {plumbline.dev/nodesync: plumbline-system.prod}}"
	foreignPool    = "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: theirs}"
	guardedClass   = "apiVersion: karpenter.k8s.aws/v1\nkind: EC2NodeClass\nmetadata: {name: default, labels: {plumbline.dev/nodesync: plumbline-system.prod}, finalizers: [karpenter.k8s.aws/termination, example.com/hold]}"
	guardedClaim   = "apiVersion: karpenter.sh/v1\nkind: NodeClaim\nmetadata: {name: general-abcde, finalizers: [karpenter.sh/termination]}"
	autoModeClaim  = "apiVersion: karpenter.sh/v1\nkind: NodeClaim\nmetadata: {name: system-abcde, finalizers: [karpenter.sh/termination]}\nspec: {nodeClassRef: {group: eks.amazonaws.com, kind: NodeClass, name: default}}"
	guardedSync    = "apiVersion: plumbline.dev/v1alpha1\nkind: NodeSync\nmetadata: {name: prod, namespace: plumbline-system, finalizers: [plumbline.dev/nodesync]}\nspec: {}"
	guardedCRD     = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: nodepools.karpenter.sh}"
	foreignCRD     = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: widgets.example.com}"
	guardedHome    = "apiVersion: v1\nkind: Namespace\nmetadata: {name: plumbline-system}"
	karpentersHome = "apiVersion: v1\nkind: Namespace\nmetadata: {name: kube-system}"
	foreignHome    = "apiVersion: v1\nkind: Namespace\nmetadata: {name: default}"
	guardedRecord  = "apiVersion: v1\nkind: Secret\ntype: helm.sh/release.v1\nmetadata: {name: sh.helm.release.v1.karpenter.v3, namespace: kube-system, labels: {owner: helm, name: karpenter}}"
	foreignRecord  = "apiVersion: v1\nkind: Secret\ntype: helm.sh/release.v1\nmetadata: {name: sh.helm.release.v1.web.v3, namespace: kube-system, labels: {owner: helm, name: web}}"
)

// TestTheDeletionGuard: who may delete what, and the messages for those who may not.
func TestTheDeletionGuard(t *testing.T) {
	p := compile(t)
	for name, c := range map[string]struct {
		resource, object string
		by               user.Info
		want             string
	}{
		"a pool, by a person":                {"nodepools", guardedPool, person, "NodePool/general is managed by plumbline and must not be deleted: remove it from Git"},
		"a pool, by Flux's prune":            {"nodepools", guardedPool, flux, "NodePool/general is managed by plumbline"},
		"a pool, with an owner that went":    {"nodepools", guardedPool, collector, "NodePool/general is managed by plumbline"},
		"a pool, by Karpenter":               {"nodepools", guardedPool, karpenter, "NodePool/general is managed by plumbline"},
		"a pool, by plumbline":               {"nodepools", guardedPool, plumbline, ""},
		"a pool, by who breaks the glass":    {"nodepools", guardedPool, glassBreak, ""},
		"a pool that was released":           {"nodepools", annotated(guardedPool, "true"), person, ""},
		"a pool that was not":                {"nodepools", annotated(guardedPool, "false"), person, "NodePool/general is managed by plumbline"},
		"a class":                            {"ec2nodeclasses", guardedClass, person, "EC2NodeClass/default is managed by plumbline"},
		"a CRD":                              {"customresourcedefinitions", guardedCRD, person, "CRD nodepools.karpenter.sh must not be deleted: the API server would delete"},
		"a CRD, by plumbline":                {"customresourcedefinitions", guardedCRD, plumbline, "CRD nodepools.karpenter.sh must not be deleted"},
		"a CRD that was released":            {"customresourcedefinitions", annotated(guardedCRD, "true"), person, ""},
		"plumbline's namespace":              {"namespaces", guardedHome, person, "namespace plumbline-system must not be deleted: nodes are managed from it"},
		"Karpenter's namespace":              {"namespaces", karpentersHome, person, "namespace kube-system must not be deleted: nodes are managed from it"},
		"Karpenter's namespace, by Flux":     {"namespaces", karpentersHome, flux, "namespace kube-system must not be deleted: nodes are managed from it"},
		"Karpenter's namespace, released":    {"namespaces", annotated(karpentersHome, "true"), person, ""},
		"Karpenter's, by who breaks glass":   {"namespaces", karpentersHome, glassBreak, ""},
		"a release's record":                 {"secrets", guardedRecord, person, "Secret/sh.helm.release.v1.karpenter.v3 is the record"},
		"a release's record, by plumbline":   {"secrets", guardedRecord, plumbline, ""},
		"a release's record, released":       {"secrets", annotated(guardedRecord, "true"), person, ""},
		"a release's record, by break-glass": {"secrets", guardedRecord, glassBreak, ""},
	} {
		t.Run(name, func(t *testing.T) {
			p := policies{t, p.byOf}
			old := parse(t, c.object)
			expect(t, p.denied(write{operation: admission.Delete, resource: c.resource, old: old, by: c.by}), c.want)
		})
	}
}

// TestTheDeletionGuardKeepsNamespacesOfTheChart: it protects the namespaces in the values, and no others.
func TestTheDeletionGuardKeepsNamespacesOfTheChart(t *testing.T) {
	p := compileOf(t, rendered(t, "nodes", "karpenterNamespace: karpenter"))
	for name, kept := range map[string]bool{"nodes": true, "karpenter": true, "plumbline-system": false, "kube-system": false} {
		t.Run(name, func(t *testing.T) {
			w := write{operation: admission.Delete, resource: "namespaces", old: parse(t, "apiVersion: v1\nkind: Namespace\nmetadata: {name: "+name+"}"), by: person}
			if kept {
				expect(t, policies{t, p.byOf}.denied(w), "namespace "+name+" must not be deleted")
				return
			}
			for _, c := range p.byOf {
				if c.matches(w) {
					t.Errorf("policy %s is about the deletion of namespace %s", c.policy.Name, name)
				}
			}
		})
	}
}

// TestTheDeletionGuardKnowsKarpentersAccount: the chart's values name the only account that removes Karpenter's
// finalizers.
func TestTheDeletionGuardKnowsKarpentersAccount(t *testing.T) {
	p := compileOf(t, rendered(t, "nodes", "karpenterNamespace: karpenter\nkarpenterServiceAccount: blue"))
	for account, want := range map[string]string{
		"karpenter:blue": "", "karpenter:karpenter": "the finalizer karpenter.sh/termination", "kube-system:karpenter": "the finalizer karpenter.sh/termination",
	} {
		by := &user.DefaultInfo{Name: "system:serviceaccount:" + account}
		old := parse(t, guardedClaim)
		w := write{operation: admission.Update, resource: "nodeclaims", old: old, object: patched(t, old, "[{op: remove, path: /metadata/finalizers}]"), by: by}
		expect(t, policies{t, p.byOf}.denied(w), want)
	}
}

// TestTheDeletionGuardLetsOthersBe: objects of other owners may be deleted.
func TestTheDeletionGuardLetsOthersBe(t *testing.T) {
	p := compile(t)
	for resource, object := range map[string]string{
		"nodepools": foreignPool, "customresourcedefinitions": foreignCRD, "namespaces": foreignHome, "secrets": foreignRecord,
	} {
		for _, c := range p.byOf {
			w := write{operation: admission.Delete, resource: resource, old: parse(t, object), by: person}
			if c.matches(w) && c.applies(t, w) {
				t.Errorf("policy %s is about the deletion of %s", c.policy.Name, object)
			}
		}
	}
}

// TestTheDeletionGuardKeepsTheChart: it protects each object of Karpenter's main chart, as labelled by Helm.
func TestTheDeletionGuardKeepsTheChart(t *testing.T) {
	p := compile(t)
	for name, object := range realChart(t) {
		resource, known := resources[object.GetKind()]
		if !known || object.GetKind() == "ServiceMonitor" {
			continue
		}
		for _, by := range []user.Info{person, glassBreak, plumbline} {
			kept := false
			for _, message := range p.denied(write{operation: admission.Delete, resource: resource, old: object, by: by}) {
				kept = kept || strings.Contains(message, "belongs to Karpenter: it must not be deleted")
			}
			if want := by == person; kept != want {
				t.Errorf("%s, deleted by %s %v: kept %v, want %v", name, by.GetName(), by.GetGroups(), kept, want)
			}
			for label, want := range map[string]bool{"app.kubernetes.io/managed-by": by != glassBreak, "app.kubernetes.io/version": false} {
				changed := object.DeepCopy()
				labels := changed.GetLabels()
				delete(labels, label)
				changed.SetLabels(labels)
				denied := p.denied(write{operation: admission.Update, resource: resource, old: object, object: changed, by: by})
				if kept := len(denied) > 0; kept != want {
					t.Errorf("%s without its label %s, by %s %v: kept %v, want %v", name, label, by.GetName(), by.GetGroups(), kept, want)
				}
			}
		}
	}
}

// changedLabel changes the NodeSync that an object belongs to.
const changedLabel = "[{op: replace, path: /metadata/labels/plumbline.dev~1nodesync, value: plumbline-system.test}]"

// TestTheDeletionGuardOnUpdates: finalizers of Karpenter and of plumbline stay, and so does the label by which
// plumbline and the guard identify an object; a release cannot be marked as uninstalling.
func TestTheDeletionGuardOnUpdates(t *testing.T) {
	p := compile(t)
	for name, c := range map[string]struct {
		resource, object, patch string
		by                      user.Info
		want                    string
	}{
		"of a NodeClaim, by a person":        {"nodeclaims", guardedClaim, "[{op: remove, path: /metadata/finalizers}]", person, "the finalizer karpenter.sh/termination of NodeClaim/general-abcde must not be removed by hand"},
		"of a NodeClaim, by Karpenter":       {"nodeclaims", guardedClaim, "[{op: remove, path: /metadata/finalizers}]", karpenter, ""},
		"of Auto Mode's, by AWS":             {"nodeclaims", autoModeClaim, "[{op: remove, path: /metadata/finalizers}]", elsewhere, ""},
		"said to be Auto Mode's":             {"nodeclaims", guardedClaim, "[{op: remove, path: /metadata/finalizers}, {op: add, path: /spec, value: {nodeClassRef: {group: eks.amazonaws.com}}}]", person, "the finalizer karpenter.sh/termination"},
		"by Karpenter of another namespace":  {"nodeclaims", guardedClaim, "[{op: remove, path: /metadata/finalizers}]", elsewhere, "the finalizer karpenter.sh/termination"},
		"by an account of such a name":       {"nodeclaims", guardedClaim, "[{op: remove, path: /metadata/finalizers}]", impostor, "the finalizer karpenter.sh/termination"},
		"of a class, by a person":            {"ec2nodeclasses", guardedClass, "[{op: replace, path: /metadata/finalizers, value: []}]", person, "the finalizer karpenter.k8s.aws/termination"},
		"another's of a class":               {"ec2nodeclasses", guardedClass, "[{op: remove, path: /metadata/finalizers/1}]", person, ""},
		"of a NodeSync, by a person":         {"nodesyncs", guardedSync, "[{op: remove, path: /metadata/finalizers}]", person, "the finalizer plumbline.dev/nodesync of NodeSync/prod"},
		"of a NodeSync, by plumbline":        {"nodesyncs", guardedSync, "[{op: remove, path: /metadata/finalizers}]", plumbline, ""},
		"of a class, by plumbline":           {"ec2nodeclasses", guardedClass, "[{op: remove, path: /metadata/finalizers/0}]", plumbline, "plumbline must not remove finalizers other than its own"},
		"another's of a class, by plumbline": {"ec2nodeclasses", guardedClass, "[{op: remove, path: /metadata/finalizers/1}]", plumbline, "plumbline must not remove finalizers other than its own"},
		"released, by plumbline":             {"ec2nodeclasses", annotated(guardedClass, "true"), "[{op: remove, path: /metadata/finalizers}]", plumbline, "plumbline must not remove finalizers other than its own"},
		"none, by plumbline":                 {"ec2nodeclasses", guardedClass, "[{op: add, path: /metadata/annotations, value: {a: b}}]", plumbline, ""},
		"of one that was released":           {"nodeclaims", annotated(guardedClaim, "true"), "[{op: remove, path: /metadata/finalizers}]", person, ""},
		"released in the same write":         {"nodeclaims", guardedClaim, "[{op: remove, path: /metadata/finalizers}, {op: add, path: /metadata/annotations, value: {plumbline.dev/allow-deletion: 'true'}}]", person, "the finalizer karpenter.sh/termination"},
		"a release that is uninstalled":      {"secrets", guardedRecord, "[{op: add, path: /metadata/labels/status, value: uninstalling}]", person, "Secret/sh.helm.release.v1.karpenter.v3 is the record"},
		"a release that loses its owner":     {"secrets", guardedRecord, "[{op: replace, path: /metadata/labels/owner, value: me}]", person, "Secret/sh.helm.release.v1.karpenter.v3 is the record"},
		"a release that loses its name":      {"secrets", guardedRecord, "[{op: remove, path: /metadata/labels/name}]", person, "Secret/sh.helm.release.v1.karpenter.v3 is the record"},
		"another's release":                  {"secrets", foreignRecord, "[{op: remove, path: /metadata/labels}]", person, ""},
		"a release that is upgraded":         {"secrets", guardedRecord, "[{op: add, path: /metadata/labels/status, value: superseded}]", person, ""},
		"the label of a pool":                {"nodepools", guardedPool, "[{op: remove, path: /metadata/labels}]", person, "the label plumbline.dev/nodesync of NodePool/general must not be removed or changed"},
		"the label of a pool, by Flux":       {"nodepools", guardedPool, changedLabel, flux, "the label plumbline.dev/nodesync of NodePool/general"},
		"the label of a pool, by Karpenter":  {"nodepools", guardedPool, changedLabel, karpenter, "the label plumbline.dev/nodesync of NodePool/general"},
		"the label of a class":               {"ec2nodeclasses", guardedClass, changedLabel, person, "the label plumbline.dev/nodesync of EC2NodeClass/default"},
		"the label, by plumbline":            {"nodepools", guardedPool, "[{op: remove, path: /metadata/labels}]", plumbline, ""},
		"the label, by who breaks the glass": {"nodepools", guardedPool, "[{op: remove, path: /metadata/labels}]", glassBreak, ""},
		"the label of one that was released": {"nodepools", annotated(guardedPool, "true"), changedLabel, person, ""},
		"the label, released in that write":  {"nodepools", guardedPool, "[{op: remove, path: /metadata/labels}, {op: add, path: /metadata/annotations, value: {plumbline.dev/allow-deletion: 'true'}}]", person, "the label plumbline.dev/nodesync of NodePool/general"},
		"another label of a pool":            {"nodepools", guardedPool, "[{op: add, path: /metadata/labels/team, value: a}]", person, ""},
		"the label, where there was none":    {"nodepools", foreignPool, "[{op: add, path: /metadata/labels, value: {plumbline.dev/nodesync: plumbline-system.prod}}]", person, ""},
		"none, by a person":                  {"nodeclaims", guardedClaim, "[{op: add, path: /metadata/annotations, value: {a: b}}]", person, ""},
		"by who breaks the glass":            {"nodeclaims", guardedClaim, "[{op: remove, path: /metadata/finalizers}]", glassBreak, ""},
	} {
		t.Run(name, func(t *testing.T) {
			p := policies{t, p.byOf}
			old := parse(t, c.object)
			expect(t, p.denied(write{operation: admission.Update, resource: c.resource, old: old, object: patched(t, old, c.patch), by: c.by}), c.want)
		})
	}
}

// expect fails unless there is one message that begins with want, or none if want is empty.
func expect(t *testing.T, messages []string, want string) {
	t.Helper()
	if want == "" && len(messages) > 0 || want != "" && (len(messages) != 1 || !strings.HasPrefix(messages[0], want)) {
		t.Errorf("denied %q, want %q", messages, want)
	}
}

// annotated returns the text of an object with the annotation that allows its deletion.
func annotated(object, value string) string {
	return strings.Replace(object, "metadata: {", "metadata: {annotations: {plumbline.dev/allow-deletion: '"+value+"'}, ", 1)
}

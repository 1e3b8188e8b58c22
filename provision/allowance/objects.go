package allowance

import (
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/plumbline-dev/plumbline/contradiction"
)

// dnsNamespace is where the charts put a Role for the cluster's DNS, wherever
// Karpenter itself goes.
const dnsNamespace = "kube-system"

// account is the name of Karpenter's ServiceAccount, of its Deployment, and of most else.
const account = "karpenter"

// Rendered are the objects that a chart renders to.
type Rendered struct {
	// Namespace of the release, and Version of the chart.
	Namespace, Version string
	// CRDs says that it is the CRD chart, and InGit that a commit can change it.
	CRDs, InGit bool
	// Digest of the chart, or its beginning; empty where it is not known.
	Digest string
	// Cluster is what the controller is to run for; what is empty contradicts nothing.
	Cluster contradiction.Cluster
	Objects []*unstructured.Unstructured
}

// CheckObjects says which objects are none of Karpenter's charts, or more than what
// the real charts have. Values that the NodeSync allows are allowed to have their
// effect.
func (a Allowance) CheckObjects(r Rendered) []Refusal {
	c := &check{allowance: a, rendered: r, charts: FromCharts()}
	for _, object := range r.Objects {
		c.object = object
		if c.known() {
			c.metadata()
			c.look()
		}
	}
	c.complete()
	for i := range c.found {
		c.found[i].Rendered = true
	}
	return c.found
}

// complete checks that a chart has what it is installed for: Helm deletes what a release
// has no more, and without a CRD that every release has neither Karpenter nor plumbline works.
func (c *check) complete() {
	has := func(kind, name string) bool {
		return slices.ContainsFunc(c.rendered.Objects, func(o *unstructured.Unstructured) bool {
			return o.GetKind() == kind && (name == "" || o.GetName() == name)
		})
	}
	lacks := func(chart, what, why string) {
		c.found = append(c.found, Refusal{What: "chart " + chart, Why: "renders to no " + what + ", " + why})
	}
	const deleted = "and what is installed would be deleted with it"
	switch {
	case !c.rendered.CRDs && !has("Deployment", ""):
		lacks("karpenter", "Deployment", deleted)
	case c.rendered.CRDs && !has(crdKind, ""):
		lacks("karpenter-crd", crdKind, deleted)
	case c.rendered.CRDs:
		for _, name := range c.charts.CRDs {
			if len(c.charts.Kinds[name].Serves) > 0 && !has(crdKind, name) {
				lacks("karpenter-crd", crdKind+" "+name, "which every release of Karpenter has")
			}
		}
	}
}

// crdKind is the kind of the CRD chart's objects.
const crdKind = "CustomResourceDefinition"

type check struct {
	allowance Allowance
	rendered  Rendered
	charts    Charted
	object    *unstructured.Unstructured
	found     []Refusal
}

// groups of the kinds that the charts have.
var groups = map[string]string{
	"ClusterRole": rbacv1.GroupName, "ClusterRoleBinding": rbacv1.GroupName, "Role": rbacv1.GroupName, "RoleBinding": rbacv1.GroupName,
	"Deployment": "apps", "PodDisruptionBudget": "policy", "Service": "", "ServiceAccount": "", "ServiceMonitor": "monitoring.coreos.com",
	crdKind: "apiextensions.k8s.io",
}

// name is the object's in messages.
func (c *check) name() string { return c.object.GetKind() + " " + c.object.GetName() }

// refuse refuses something of the object that no setting allows.
func (c *check) refuse(format string, args ...any) {
	c.found = append(c.found, Refusal{What: c.name(), Why: fmt.Sprintf(format, args...)})
}

// unless refuses something of the object that a value would make, unless the NodeSync
// allows that value.
func (c *check) unless(value, why string) {
	if !c.allowance.allows(value) {
		c.found = append(c.found, Refusal{What: c.name(), Why: why, Field: fieldValues, Entry: value})
	}
}

// known says that the object is one of the charts', by its kind, name and namespace.
func (c *check) known() bool {
	kind, name := c.object.GetKind(), c.object.GetName()
	names := c.charts.Objects[kind]
	if c.rendered.CRDs {
		names = nil
		if kind == crdKind {
			names = c.charts.CRDs
		}
	}
	if !slices.Contains(names, name) || c.object.GroupVersionKind().Group != groups[kind] {
		c.refuse("is no object of Karpenter's charts")
		return false
	}
	want := c.rendered.Namespace
	if strings.HasSuffix(name, "-dns") {
		want = dnsNamespace
	}
	if is := c.object.GetNamespace(); is != "" && is != want {
		c.refuse("is in namespace %s, and Karpenter's charts have none there", is)
		return false
	}
	return true
}

// look goes by the kind. An object whose fields have types of their own is no object
// that the API server would take either; one with a field that is not known here may be
// more to an API server that is newer.
func (c *check) look() {
	var err error
	switch c.object.GetKind() {
	case "ClusterRole", "Role":
		err = c.role()
	case "ClusterRoleBinding", "RoleBinding":
		err = c.binding()
	case "Deployment":
		err = c.deployment()
	case "ServiceAccount":
		err = c.serviceAccount()
	case "Service":
		err = c.service()
	case "PodDisruptionBudget":
		err = c.budget()
	case "ServiceMonitor":
		c.monitor()
	case crdKind:
		err = c.crd()
	}
	switch {
	case runtime.IsStrictDecodingError(err):
		c.refuse("has a field that this plumbline does not know")
	case err != nil:
		c.refuse("is no such object")
	}
}

// into reads the object as one of a type, with all of its fields.
func (c *check) into(typed any) error {
	return runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(c.object.Object, typed, true)
}

package allowance

import (
	"crypto/sha256"
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/plumbline-dev/plumbline/contradiction"
)

// dnsNamespace is where the charts create a Role for the cluster's DNS, whatever namespace Karpenter is in.
const dnsNamespace = "kube-system"

// account is the name of Karpenter's ServiceAccount, its Deployment, and most other objects.
const account = "karpenter"

// Rendered contains the rendered objects of a chart.
type Rendered struct {
	// Namespace of the release, and Version of the chart.
	Namespace, Version string
	// CRDs reports whether it is the CRD chart, and InGit whether a commit can change it.
	CRDs, InGit bool
	// Digest of the chart, or the first part of it; empty if unknown.
	Digest string
	// Cluster is the cluster of the controller; an empty field contradicts nothing.
	Cluster contradiction.Cluster
	Objects []*unstructured.Unstructured
	// LeftToEKS are the CRDs that are not among Objects because EKS keeps them up to date.
	LeftToEKS []string
}

// CheckObjects returns the objects that are not from Karpenter's charts, or differ from the real ones. Values that the
// NodeSync allows may have their effect.
func (a Allowance) CheckObjects(r Rendered) []Refusal {
	c := &check{allowance: a, rendered: r, charts: FromCharts()}
	for _, object := range r.Objects {
		c.object = object
		if c.known() {
			c.metadata()
			c.checkKind()
		}
	}
	c.complete()
	for i := range c.found {
		c.found[i].Rendered = true
	}
	return c.found
}

// complete checks that a chart contains what it is installed for: Helm deletes objects that a release no longer has,
// and neither Karpenter nor plumbline works without a CRD that every release has.
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
			if len(c.charts.Kinds[name].Serves) > 0 && !has(crdKind, name) && !slices.Contains(c.rendered.LeftToEKS, name) {
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

// groups are the API groups of the charts' kinds.
var groups = map[string]string{
	"ClusterRole": rbacv1.GroupName, "ClusterRoleBinding": rbacv1.GroupName, "Role": rbacv1.GroupName, "RoleBinding": rbacv1.GroupName,
	"Deployment": "apps", "PodDisruptionBudget": "policy", "Service": "", "ServiceAccount": "", "ServiceMonitor": "monitoring.coreos.com",
	crdKind: "apiextensions.k8s.io",
}

// name returns the object's name for messages.
func (c *check) name() string { return c.object.GetKind() + " " + c.object.GetName() }

// refuse refuses something in the object that no setting allows.
func (c *check) refuse(format string, args ...any) {
	c.found = append(c.found, Refusal{What: c.name(), Why: fmt.Sprintf(format, args...)})
}

// unless refuses something in the object that a value would create, unless the NodeSync allows that value.
func (c *check) unless(value, why string) {
	if !c.allowance.allows(value) {
		c.found = append(c.found, Refusal{What: c.name(), Why: why, Field: fieldValues, Entry: value})
	}
}

// known reports whether the object is one of the charts'.
func (c *check) known() bool {
	kind := c.object.GroupVersionKind().GroupKind()
	why := c.charts.Foreign(Named{Kind: kind, Namespace: c.object.GetNamespace(), Name: c.object.GetName()}, c.rendered.Namespace,
		c.rendered.CRDs)
	if why != "" {
		c.refuse("%s", why)
	}
	return why == ""
}

// Named identifies an object. Namespace is empty if the object has none, or that of its release.
type Named struct {
	Kind            schema.GroupKind
	Namespace, Name string
}

// Foreign returns why an object, by its kind, name and namespace, is not from Karpenter's charts; empty if it is.
// namespace is that of the release, and crds reports whether it is the CRD chart's.
func (c Charted) Foreign(o Named, namespace string, crds bool) string {
	names := c.Objects[o.Kind.Kind]
	if crds {
		names = nil
		if o.Kind.Kind == crdKind {
			names = c.CRDs
		}
	}
	if !slices.Contains(names, o.Name) || o.Kind.Group != groups[o.Kind.Kind] {
		return "is no object of Karpenter's charts"
	}
	want := namespace
	if strings.HasSuffix(o.Name, "-dns") {
		want = dnsNamespace
	}
	if o.Namespace != "" && o.Namespace != want {
		return fmt.Sprintf("is in namespace %s, and Karpenter's charts have none there", o.Namespace)
	}
	return ""
}

// checkKind checks the object by its kind. If fields have wrong types, the API server would not accept the object
// either; unknown fields are refused because a newer API server may know them.
func (c *check) checkKind() {
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

// decode decodes the object into a type, and refuses unknown fields.
func (c *check) decode(typed any) error {
	return runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(c.object.Object, typed, true)
}

// nameLabel is the label by which Karpenter's pods are selected.
const nameLabel = "app.kubernetes.io/name"

// serviceAccount checks that the account assumes only an allowed role.
func (c *check) serviceAccount() error {
	var account corev1.ServiceAccount
	if err := c.decode(&account); err != nil {
		return err
	}
	if len(account.Secrets) > 0 {
		c.refuse("names Secrets")
	}
	if len(account.ImagePullSecrets) > 0 {
		c.unless("imagePullSecrets", "names Secrets with credentials of registries")
	}
	if role, ok := account.Annotations[roleAnnotation]; ok && !slices.Contains(c.allowance.ControllerRoles, role) &&
		!c.allowance.allows(join("additionalAnnotations", roleAnnotation)) {
		c.unless(roleValue, "takes an IAM role that spec.charts.allow.controllerRoles does not name")
	}
	return nil
}

// service checks that it is accessible only inside the cluster, and selects Karpenter's pods.
func (c *check) service() error {
	var service corev1.Service
	if err := c.decode(&service); err != nil {
		return err
	}
	spec := service.Spec
	if spec.Type != "" && spec.Type != corev1.ServiceTypeClusterIP || len(spec.ExternalIPs) > 0 || spec.ExternalName != "" ||
		spec.LoadBalancerIP != "" {
		c.refuse("is reached from outside of the cluster")
	}
	if spec.Selector[nameLabel] != account {
		c.refuse("leads to other pods than Karpenter's")
	}
	return nil
}

// budget checks that it protects only Karpenter's pods.
func (c *check) budget() error {
	var budget policyv1.PodDisruptionBudget
	if err := c.decode(&budget); err != nil {
		return err
	}
	if budget.Spec.Selector == nil || budget.Spec.Selector.MatchLabels[nameLabel] != account {
		c.refuse("keeps other pods than Karpenter's from being evicted")
	}
	return nil
}

// monitorFields are the fields that every ServiceMonitor's endpoint may have.
var monitorFields = []string{"port", "path", "interval", "metricRelabelings"}

// monitor checks that Prometheus scrapes Karpenter's port, and sends no credentials.
func (c *check) monitor() {
	endpoints, _, err := unstructured.NestedSlice(c.object.Object, "spec", "endpoints")
	if err != nil {
		c.refuse("is no such object")
	}
	for _, one := range endpoints {
		endpoint, _ := one.(map[string]any)
		for _, field := range slices.Sorted(maps.Keys(endpoint)) {
			switch {
			case slices.Contains(monitorFields, field):
			case field == "relabelings":
				c.unless("serviceMonitor.relabelings", whyScrape)
			default:
				c.unless("serviceMonitor.endpointConfig."+field, whyScrape)
			}
		}
	}
	names, _, err := unstructured.NestedStringSlice(c.object.Object, "spec", "namespaceSelector", "matchNames")
	if err != nil || slices.ContainsFunc(names, func(name string) bool { return name != c.rendered.Namespace }) {
		c.refuse("selects Services of other namespaces")
	}
}

// crd checks that a CRD defines the same as the real one, in Git exactly the same, and that only Karpenter's own
// webhook, which 1.0 had, converts its objects.
func (c *check) crd() error {
	var crd apiextensionsv1.CustomResourceDefinition
	if err := c.decode(&crd); err != nil {
		return err
	}
	c.defines(&crd)
	if c.rendered.InGit {
		refused, err := c.allowance.checkReleased(c.rendered.Version, c.rendered.Digest, &crd)
		if err != nil {
			return err
		}
		c.found = append(c.found, refused...)
	}
	conversion := crd.Spec.Conversion
	if conversion == nil || conversion.Strategy == apiextensionsv1.NoneConverter {
		return nil
	}
	hook := conversion.Webhook
	if hook == nil || hook.ClientConfig == nil || hook.ClientConfig.URL != nil || hook.ClientConfig.Service == nil ||
		hook.ClientConfig.Service.Name != account || hook.ClientConfig.Service.Namespace != c.rendered.Namespace {
		c.refuse("has its objects converted by a webhook that is not Karpenter's")
	}
	return nil
}

// defines checks the names of a kind, and the versions: if a kind is no longer served, every watch of it ends, also
// Karpenter's, and the existing objects are hidden.
func (c *check) defines(crd *apiextensionsv1.CustomResourceDefinition) {
	want, names := c.charts.Kinds[crd.Name], crd.Spec.Names
	plural, group, _ := strings.Cut(crd.Name, ".")
	list := names.ListKind == "" || names.ListKind == want.Kind+"List"
	if crd.Spec.Group != group || names.Plural != plural || names.Kind != want.Kind || !list || string(crd.Spec.Scope) != want.Scope {
		c.refuse("defines another kind than Karpenter's %s %s of group %s", strings.ToLower(want.Scope), want.Kind, group)
		return
	}
	for _, version := range want.Serves {
		if !Serves(crd, version) {
			c.refuse("does not serve %s of %s, which Karpenter and plumbline ask for", version, want.Kind)
		}
	}
}

// Serves reports whether a CRD serves a version.
func Serves(crd *apiextensionsv1.CustomResourceDefinition, version string) bool {
	return slices.ContainsFunc(crd.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool {
		return v.Name == version && v.Served
	})
}

//go:generate go run ./generate charted.json

// Charted is the content of Karpenter's released charts.
type Charted struct {
	// CRDs are the names of those in the CRD chart.
	CRDs []string `json:"crds"`
	// Kinds are what each CRD defines, by its name.
	Kinds map[string]Defined `json:"kinds"`
	// Fingerprints of the CRDs, by the version of the chart and the CRD's name: see Fingerprint.
	Fingerprints map[string]map[string]string `json:"fingerprints"`
	// Objects are the names in the main chart, by kind.
	Objects map[string][]string `json:"objects"`
	// Variables are the names of the controller's variables.
	Variables []string `json:"variables"`
	// Rights are the permissions of each role, by its kind and name: see Rights.
	Rights map[string][]string `json:"rights"`
}

// Defined is the kind that a CRD of Karpenter defines.
type Defined struct {
	Kind  string `json:"kind"`
	Scope string `json:"scope"`
	// Serves are the versions that each released chart serves. None if some charts do not contain the CRD, because then
	// nothing requires it.
	Serves []string `json:"serves,omitempty"`
}

//go:embed charted.json
var chartedJSON []byte

// FromCharts returns the content of the released charts.
func FromCharts() Charted { return charted() }

var charted = sync.OnceValue(func() Charted {
	var c Charted
	if err := json.Unmarshal(chartedJSON, &c); err != nil {
		panic(fmt.Sprintf("read charted.json: %v", err))
	}
	return c
})

// Rights returns the permissions of a rule, one by one: "apps/daemonsets get", "coordination.k8s.io/leases[name]
// patch".
func Rights(rule rbacv1.PolicyRule) []string {
	var rights []string
	for _, one := range apart(rule) {
		rights = append(rights, one.is)
	}
	return rights
}

// right is one permission of a rule; over is the same permission for all objects.
type right struct{ is, over string }

func apart(rule rbacv1.PolicyRule) []right {
	var rights []right
	for _, verb := range rule.Verbs {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				over := fmt.Sprintf("%s/%s %s", group, resource, verb)
				for _, name := range rule.ResourceNames {
					rights = append(rights, right{is: fmt.Sprintf("%s/%s[%s] %s", group, resource, name, verb), over: over})
				}
				if len(rule.ResourceNames) == 0 {
					rights = append(rights, right{is: over, over: over})
				}
			}
		}
		for _, url := range rule.NonResourceURLs {
			rights = append(rights, right{is: url + " " + verb, over: url + " " + verb})
		}
	}
	return rights
}

// beyond returns the permissions of rules that a role of the real charts does not have.
func (c Charted) beyond(role string, rules []rbacv1.PolicyRule) []string {
	var found []string
	for _, rule := range rules {
		for _, one := range apart(rule) {
			if !slices.Contains(c.Rights[role], one.is) && !slices.Contains(c.Rights[role], one.over) {
				found = append(found, one.is)
			}
		}
	}
	return found
}

// image checks that a container runs Karpenter's image in the version of its chart, because all decisions about
// versions use the chart's. An image digest can belong to any version, whatever the tag says: this is accepted if the
// NodeSync allows the chart's digest, or if no commit can change the chart.
func (c *check) image(reference string) {
	tagged, digest, byDigest := strings.Cut(reference, "@")
	repository, tag, _ := strings.Cut(tagged, ":")
	if repository != publicImage {
		c.unless("controller.image", "runs another image than "+publicImage)
		return
	}
	if byDigest && !isDigest(digest) {
		c.refuse("names its image by a digest that is none: %q", digest)
	}
	if len(c.allowance.Digests) > 0 {
		return
	}
	switch version := c.rendered.Version; {
	case tag == "":
		c.unless("controller.image.tag", "has no tag in its image, where the chart's version "+version+" should be")
	case tag != version:
		c.unless("controller.image.tag",
			fmt.Sprintf("runs another version than its chart's: the image's tag is %s, and the chart's version %s", tag, version))
	}
	if byDigest && c.rendered.InGit && c.allowance.Versions != "" {
		c.found = append(c.found, Refusal{
			What: c.name(), Why: "names its image by digest in a chart in Git, which may be of a version outside of " + c.allowance.Versions,
			Field: fieldDigests, Entry: wholeDigest(c.rendered.Digest),
		})
	}
}

// isDigest reports whether a container runtime would accept this as the digest of an image.
var isDigest = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`).MatchString

// wholeDigest returns a digest as written in a NodeSync, or a placeholder if only its first part is known.
func wholeDigest(digest string) string {
	const prefix = "sha256:"
	if len(digest) < len(prefix)+sha256.Size*2 {
		return prefix + "…"
	}
	return digest
}

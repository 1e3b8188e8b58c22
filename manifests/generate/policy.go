package main

import (
	"bytes"
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/template"

	"github.com/plumbline-dev/plumbline/provision/allowance"
)

//go:embed policy.yaml.tmpl
var policyTemplate string

// policy is one ValidatingAdmissionPolicy, with its binding.
type policy struct {
	Name        string
	Resources   []matched
	Variables   []variable
	Validations []validation
}

// matched describes requests, each field in YAML.
type matched struct{ Group, Operations, Resources string }

type variable struct{ Name, Expression string }

// validation denies a request with the message if the expression is false.
type validation struct{ Message, Expression string }

// renderPolicies returns the text of the policies.
func renderPolicies() ([]byte, error) {
	parsed, err := template.New("policy").Parse(policyTemplate)
	if err != nil {
		return nil, err
	}
	charted := allowance.FromCharts()
	var out bytes.Buffer
	err = parsed.Execute(&out, map[string]any{"Policies": []policy{
		podPolicy(), metadataPolicy(), rolePolicy(charted), bindingPolicy(charted), objectPolicy(), identityPolicy(), crdPolicy(charted),
		secretPolicy(), handedOnPolicy(),
	}})
	return out.Bytes(), err
}

// writes are the operations that create or change an object.
const writes = "CREATE, UPDATE"

// quoted returns a list of strings in CEL.
func quoted(list []string) string {
	var all []string
	for _, one := range list {
		all = append(all, "'"+one+"'")
	}
	return "[" + strings.Join(all, ", ") + "]"
}

func rolePolicy(charted allowance.Charted) policy {
	var rights []string
	for _, role := range slices.Sorted(maps.Keys(charted.Rights)) {
		rights = append(rights, fmt.Sprintf("'%s': %s", role, quoted(charted.Rights[role])))
	}
	const given = "(g + '/' + x + ' ' + v) in variables.mine"
	return policy{
		Name:      "plumbline-charts-roles",
		Resources: []matched{{"rbac.authorization.k8s.io", writes, "roles, clusterroles"}},
		Variables: []variable{
			{"rights", "{" + strings.Join(rights, ",\n        ") + "}"},
			{"role", "request.kind.kind + ' ' + object.metadata.name"},
			{"mine", "variables.role in variables.rights ? variables.rights[variables.role] : []"},
			{"rules", "has(object.rules) ? object.rules : []"},
			// Rules that an administrator has added are accepted as long as plumbline does not change the rules.
			{"unchanged", "request.operation == 'UPDATE' && has(object.rules) && has(oldObject.rules) && object.rules == oldObject.rules"},
		},
		Validations: []validation{
			{"plumbline must not write roles other than those of Karpenter's charts", "variables.role in variables.rights"},
			{"plumbline must not grant a role permissions that are not in Karpenter's charts", "variables.unchanged || variables.rules.all(r, !has(r.nonResourceURLs) && r.verbs.all(v, r.apiGroups.all(g, r.resources.all(x, " +
				given + " || (has(r.resourceNames) && r.resourceNames.size() > 0 && r.resourceNames.all(n, (g + '/' + x + '[' + n + '] ' + v) in variables.mine))))))"},
			{"plumbline must not write a role that aggregates the rules of other roles, or is aggregated into them", "!has(object.aggregationRule) && (!has(object.metadata.labels) || object.metadata.labels.all(l, " +
				"!l.startsWith('rbac.authorization.k8s.io/') || (l == 'rbac.authorization.k8s.io/aggregate-to-admin' && object.metadata.name == 'karpenter-admin')))"},
		},
	}
}

func bindingPolicy(charted allowance.Charted) policy {
	names := slices.Concat(charted.Objects["RoleBinding"], charted.Objects["ClusterRoleBinding"])
	slices.Sort(names)
	return policy{
		Name:      "plumbline-charts-bindings",
		Resources: []matched{{"rbac.authorization.k8s.io", writes, "rolebindings, clusterrolebindings"}},
		Variables: []variable{
			// Karpenter's namespace.
			{"home", "'kube-system'"},
			{"names", quoted(slices.Compact(names))},
		},
		Validations: []validation{
			{"plumbline must not bind roles other than those of Karpenter's charts", "object.metadata.name in variables.names && object.roleRef.name == object.metadata.name && object.roleRef.kind + 'Binding' == request.kind.kind"},
			{"plumbline must not grant permissions to subjects other than Karpenter's ServiceAccount", "!has(object.subjects) || object.subjects.all(s, s.kind == 'ServiceAccount' && s.name == 'karpenter' && has(s.namespace) && s.namespace == variables.home)"},
		},
	}
}

// metadataPolicy is for every object of the charts. The garbage collector deletes an object whose owner does not exist,
// and the deletion guard and Helm identify the objects by their labels: without these, Karpenter's ServiceAccount could
// be deleted and created again.
func metadataPolicy() policy {
	labels, identity := allowance.ChartLabels()
	before := func(field, none string) string {
		return "request.operation == 'UPDATE' ? oldObject.metadata.?" + field + ".orValue(" + none + ") : " + none
	}
	same := func(field string) string {
		return "object.metadata.?" + field + ".orValue([]) == (" + before(field, "[]") + ")"
	}
	var annotations []validation
	for _, e := range allowance.AnnotationExpressions() {
		annotations = append(annotations, validation{e.Message, e.Unless + " || " + e.CEL})
	}
	return policy{
		Name: "plumbline-charts-metadata",
		Resources: []matched{
			{"apps", writes, "deployments"},
			{`""`, writes, "services, serviceaccounts"},
			{"policy", writes, "poddisruptionbudgets"},
			{"monitoring.coreos.com", writes, "servicemonitors"},
			{"rbac.authorization.k8s.io", writes, "roles, rolebindings, clusterroles, clusterrolebindings"},
			{"apiextensions.k8s.io", writes, "customresourcedefinitions"},
		},
		Variables: []variable{
			// Values of the chart that NodeSyncs may allow (spec.charts.allow.values).
			{"allowed", "[]"},
			{"labels", "object.metadata.?labels.orValue({})"},
			{"before", before("labels", "{}")},
			{"annotations", "object.metadata.?annotations.orValue({})"},
			{"annotationsBefore", before("annotations", "{}")},
		},
		Validations: append([]validation{
			{"plumbline must not add or remove owner references of objects of Karpenter's charts", same("ownerReferences")},
			{"plumbline must not add or remove finalizers of objects of Karpenter's charts", same("finalizers")},
			{"plumbline must not remove or change the labels that identify objects of Karpenter's charts", quoted(identity) + ".all(l, !(l in variables.before) || (l in variables.labels && (variables.labels[l] == variables.before[l] || " + labels + ")))"},
			{"plumbline must not set labels other than those of Karpenter's charts on their objects", "request.kind.kind == 'ServiceMonitor' || variables.labels.all(l, (l in variables.before && variables.labels[l] == variables.before[l]) || " +
				labels + " || (l == 'rbac.authorization.k8s.io/aggregate-to-admin' && object.metadata.name == 'karpenter-admin') || " +
				"['*', 'additionalLabels', 'additionalLabels.' + l, 'additionalLabels[' + l + ']'].exists(p, p in variables.allowed))"},
		}, annotations...),
	}
}

// objectPolicy is for the other objects of the main chart.
func objectPolicy() policy {
	const selects = "'app.kubernetes.io/name' in %[1]s && %[1]s['app.kubernetes.io/name'] == 'karpenter'"
	gives := func(field string) string { // a ServiceAccount has nothing new in a field
		return strings.ReplaceAll("request.kind.kind != 'ServiceAccount' || !has(object.FIELD) || (request.operation == 'UPDATE' && has(oldObject.FIELD) && object.FIELD == oldObject.FIELD)", "FIELD", field)
	}
	return policy{
		Name: "plumbline-charts-objects",
		Resources: []matched{
			{`""`, writes, "services, serviceaccounts"},
			{"policy", writes, "poddisruptionbudgets"},
			{"monitoring.coreos.com", writes, "servicemonitors"},
		},
		Validations: []validation{
			{"plumbline must not write objects other than those of Karpenter's charts", "object.metadata.name == 'karpenter'"},
			{"plumbline must not write a Service that is reachable from outside of the cluster, or that selects pods other than Karpenter's", "request.kind.kind != 'Service' || " +
				"(object.spec.type == 'ClusterIP' && !has(object.spec.externalIPs) && has(object.spec.selector) && " + fmt.Sprintf(selects, "object.spec.selector") + ")"},
			{"plumbline must not add Secrets to a ServiceAccount", gives("secrets")},
			{"plumbline must not add image pull secrets to a ServiceAccount", gives("imagePullSecrets")},
			{"plumbline must not write a ServiceMonitor that scrapes other namespaces, or sends credentials", "request.kind.kind != 'ServiceMonitor' || (" +
				"object.spec.endpoints.all(e, e.all(field, field in ['port', 'path', 'interval', 'metricRelabelings'])) && has(object.spec.namespaceSelector) && !has(object.spec.namespaceSelector.any) && " +
				"has(object.spec.namespaceSelector.matchNames) && object.spec.namespaceSelector.matchNames.all(n, n == object.metadata.namespace))"},
			{"plumbline must not write a PodDisruptionBudget for pods other than Karpenter's", "request.kind.kind != 'PodDisruptionBudget' || (has(object.spec.selector) && has(object.spec.selector.matchLabels) && " + fmt.Sprintf(selects, "object.spec.selector.matchLabels") + ")"},
		},
	}
}

// identityPolicy keeps the IAM role of Karpenter's ServiceAccount (IRSA): none, if plumbline creates the account. CEL
// has no access to a NodeSync that names another role. So the permission to set one is an RBAC rule for a resource that
// does not exist, with the role's ARN as resource name.
func identityPolicy() policy {
	const annotation = "eks.amazonaws.com/role-arn"
	role := func(of string) string { return of + ".metadata.?annotations[?'" + annotation + "'].orValue('')" }
	return policy{
		Name:      "plumbline-charts-identity",
		Resources: []matched{{`""`, writes, "serviceaccounts"}},
		Variables: []variable{
			{"role", role("object")},
			{"roleBefore", "request.operation == 'UPDATE' ? " + role("oldObject") + " : ''"},
		},
		Validations: []validation{
			{
				"plumbline must not set this IAM role on Karpenter's ServiceAccount, because RBAC does not allow it: grant plumbline the verb use on controllerroles of plumbline.dev with the ARN as resource name, or change the annotation by hand",
				"variables.role == variables.roleBefore || authorizer.group('plumbline.dev').resource('controllerroles').name(variables.role).check('use').allowed()",
			},
		},
	}
}

func crdPolicy(charted allowance.Charted) policy {
	return policy{
		Name:      "plumbline-charts-crds",
		Resources: []matched{{"apiextensions.k8s.io", writes, "customresourcedefinitions"}},
		Variables: []variable{
			// Karpenter's namespace.
			{"home", "'kube-system'"},
			{"names", quoted(charted.CRDs)},
		},
		Validations: []validation{
			{"plumbline must not write CRDs other than Karpenter's", "object.metadata.name in variables.names"},
			{"plumbline must not set a conversion webhook other than Karpenter's", "!has(object.spec.conversion) || object.spec.conversion.strategy == 'None' || " +
				"(has(object.spec.conversion.webhook.clientConfig.service) && object.spec.conversion.webhook.clientConfig.service.name == 'karpenter' && object.spec.conversion.webhook.clientConfig.service.namespace == variables.home)"},
			{"plumbline must not stop serving a version in which Karpenter's objects are stored", "request.operation != 'UPDATE' || !has(oldObject.status) || !has(oldObject.status.storedVersions) || " +
				"oldObject.spec.versions.all(o, !o.served || !(o.name in oldObject.status.storedVersions) || object.spec.versions.exists(v, v.name == o.name && v.served))"},
			{"plumbline must not remove, default or restrict the fields of NodeClaims by which Karpenter finds their instances and nodes, in any version", claimSchema()},
			{"plumbline must not allow the deletion of Karpenter's CRDs", "!('plumbline.dev/allow-deletion' in object.metadata.?annotations.orValue({})) || " +
				"(request.operation == 'UPDATE' && 'plumbline.dev/allow-deletion' in oldObject.metadata.?annotations.orValue({}))"},
		},
	}
}

// claimSchema returns the rule that each version of the CRD of NodeClaims stores their identity as Karpenter writes it.
// Without a field, with a default, or in another version, a NodeClaim would lose its instance or name another one.
func claimSchema() string {
	const free = "!has(p.default) && !has(p.enum) && !has(p.pattern) && !has(p.minLength) && !has(p.maxLength) && !has(p.format)"
	return "object.metadata.name != 'nodeclaims.karpenter.sh' || object.spec.versions.all(v, has(v.subresources) && has(v.subresources.status) && " +
		"!has(v.schema.openAPIV3Schema.default) && [v.schema.openAPIV3Schema.properties.status].all(s, !has(s.default) && " +
		"['nodeName', 'providerID'].all(f, f in s.properties && [s.properties[f]].all(p, p.type == 'string' && " + free + ")) && " +
		"'conditions' in s.properties && [s.properties['conditions']].all(c, c.type == 'array' && !has(c.default) && !has(c.maxItems) && has(c.items) && " +
		"['type', 'status', 'reason', 'message', 'lastTransitionTime'].all(f, f in c.items.properties && !has(c.items.properties[f].default)))))"
}

// secretPolicy restricts the Secrets that plumbline writes to Helm's releases: one of another type could contain a
// token of any ServiceAccount of the namespace.
func secretPolicy() policy {
	return policy{
		Name:      "plumbline-charts-secrets",
		Resources: []matched{{`""`, writes + ", DELETE", "secrets"}},
		Variables: []variable{{"secret", "request.operation == 'DELETE' ? oldObject : object"}},
		Validations: []validation{
			{"plumbline must not write or delete Secrets other than Helm's records of Karpenter's releases", "variables.secret.type == 'helm.sh/release.v1' && variables.secret.metadata.name.matches('^sh[.]helm[.]release[.]v1[.]karpenter(-crd)?[.]v[0-9]+$')"},
		},
	}
}

// handedOnPolicy is for permissions that plumbline holds because Karpenter's roles contain them. Writing a NodeClaim
// unchanged, to store it in another version, is allowed, but no change: its status determines which instance and node
// are terminated with it.
func handedOnPolicy() policy {
	same := func(field string) string {
		return "object." + field + ".orValue({}) == oldObject." + field + ".orValue({})"
	}
	const list = "object.metadata.?%[1]s.orValue([]) == oldObject.metadata.?%[1]s.orValue([])"
	return policy{
		Name: "plumbline-charts-handed-on",
		Resources: []matched{
			{`""`, "CREATE, UPDATE, DELETE", "nodes"},
			{`""`, "DELETE", "pods"},
			{`""`, "CREATE", "pods/eviction"},
			{"karpenter.sh", writes, "nodeclaims, nodeclaims/status, nodepools/status, nodeoverlays/status"},
			{"karpenter.k8s.aws", writes, "ec2nodeclasses/status"},
			{"autoscaling.x-k8s.io", writes, "capacitybuffers/status"},
			{"coordination.k8s.io", "CREATE, UPDATE, DELETE", "leases"},
		},
		Validations: []validation{
			{"plumbline must not use this permission, which it holds only to grant it to Karpenter", "(request.resource.resource == 'leases' && request.namespace == 'plumbline-system') || " +
				"(request.resource.resource == 'nodeclaims' && request.operation == 'UPDATE' && (!has(request.subResource) || request.subResource == '') && " +
				strings.Join([]string{
					same("?spec"), same("?status"), same("metadata.?labels"), same("metadata.?annotations"),
					fmt.Sprintf(list, "ownerReferences"), fmt.Sprintf(list, "finalizers"),
				}, " && ") + ")"},
		},
	}
}

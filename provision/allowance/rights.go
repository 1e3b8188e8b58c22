package allowance

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// aggregated is the only ClusterRole of the charts that is for others, and aggregatedLabel adds its rules to theirs.
const (
	aggregated      = "karpenter-admin"
	aggregatedLabel = "rbac.authorization.k8s.io/aggregate-to-admin"
)

// role checks that a role grants only permissions that the real one grants.
func (c *check) role() error {
	var role rbacv1.ClusterRole // a Role has its rules in the same field
	if err := c.decode(&role); err != nil {
		return err
	}
	if role.AggregationRule != nil {
		c.refuse("takes its rules from other roles")
	}
	beyond := c.charts.beyond(c.name(), role.Rules)
	if len(beyond) == 0 {
		return nil
	}
	more := beyond[:min(maxRefusals, len(beyond))]
	c.unless("additionalClusterRoleRules", "grants permissions that it does not have in any of Karpenter's charts: "+strings.Join(more, ", "))
	return nil
}

// binding checks that a role is bound only to Karpenter's ServiceAccount.
func (c *check) binding() error {
	var binding rbacv1.ClusterRoleBinding
	if err := c.decode(&binding); err != nil {
		return err
	}
	if want := strings.TrimSuffix(binding.Kind, "Binding"); binding.RoleRef.Kind != want || binding.RoleRef.Name != binding.Name {
		c.refuse("binds another role than %s %s", want, binding.Name)
	}
	others := slices.DeleteFunc(binding.Subjects, func(s rbacv1.Subject) bool {
		return s.Kind == rbacv1.ServiceAccountKind && s.Name == account && s.Namespace == c.rendered.Namespace
	})
	if len(others) > 0 {
		c.refuse("gives rights to others than ServiceAccount %s/%s", c.rendered.Namespace, account)
	}
	return nil
}

// How a value leaves the controller.
const (
	toNodes      = "goes into the user data of every node"
	toAWS        = "goes into names of hosts and requests to AWS"
	toLogs       = "goes into the controller's log where it is not valid"
	toPrometheus = "goes to Prometheus"
	compared     = "is compared with other values by the API server, whose answers everyone who can push reads"
)

// readableOutside are the open values whose content can be read outside of the controller and its objects: by root on a
// node, or by readers of its log or metrics. A committer chooses which labelled Secret is used for which value.
var readableOutside = map[string]string{
	"settings.clusterName":                       toNodes,
	"settings.clusterEndpoint":                   toNodes,
	"settings.clusterCABundle":                   toNodes,
	"settings.reservedENIs":                      toNodes,
	"settings.vmMemoryOverheadPercent":           toNodes,
	"settings.interruptionQueue":                 toAWS,
	"settings.preferencePolicy":                  toLogs,
	"settings.minValuesPolicy":                   toLogs,
	"controller.env[CLUSTER_NAME]":               toNodes,
	"controller.env[CLUSTER_ENDPOINT]":           toNodes,
	"controller.env[CLUSTER_CA_BUNDLE]":          toNodes,
	"controller.env[RESERVED_ENIS]":              toNodes,
	"controller.env[VM_MEMORY_OVERHEAD_PERCENT]": toNodes,
	"controller.env[INTERRUPTION_QUEUE]":         toAWS,
	"controller.env[AWS_REGION]":                 toAWS,
	"controller.env[AWS_DEFAULT_REGION]":         toAWS,
	"controller.env[AWS_STS_REGIONAL_ENDPOINTS]": toAWS,
	"controller.env[AWS_RETRY_MODE]":             toLogs,
	"controller.env[FEATURE_GATES]":              toLogs,
	"controller.env[GOGC]":                       toLogs,
	"controller.env[GOMEMLIMIT]":                 toLogs,
	"controller.env[PREFERENCE_POLICY]":          toLogs,
	"controller.env[MIN_VALUES_POLICY]":          toLogs,
	"service.annotations[prometheus.io/*]":       toPrometheus,
	"podAnnotations[prometheus.io/*]":            toPrometheus,
	"serviceMonitor.metricRelabelings":           toPrometheus,
	"topologySpreadConstraints":                  compared,
	"strategy":                                   compared,
	"controller.metrics.port":                    compared,
	"controller.healthProbe.port":                compared,
	"webhook.port":                               compared,
	"webhook.metrics.port":                       compared,

	"controller.resources.limits.cpu":                 compared,
	"controller.resources.limits.memory":              compared,
	"controller.resources.limits.ephemeral-storage":   compared,
	"controller.resources.requests.cpu":               compared,
	"controller.resources.requests.memory":            compared,
	"controller.resources.requests.ephemeral-storage": compared,
}

// CheckSecret returns the values from a Secret that leave the controller, which a commit must not set from there.
// values are those of the Secret by itself, even if others override them.
func (a Allowance) CheckSecret(values map[string]any) []Refusal {
	s := &secrets{allowance: a}
	s.checkValue("", values)
	return s.found
}

type secrets struct {
	allowance Allowance
	found     []Refusal
}

func (s *secrets) checkValue(at string, value any) {
	if value == nil || at != "" && s.allowance.allows(at) {
		return
	}
	if why, leaves := readableBy(at); leaves {
		s.refuse(at, why)
		return
	}
	switch value := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(value)) {
			s.checkValue(join(at, key), value[key])
		}
	case []any:
		if at == environment {
			s.variables(value)
		}
	}
}

// variables checks controller.env. A value without a name belongs to a variable that another source of values names.
func (s *secrets) variables(list []any) {
	for _, one := range list {
		variable, _ := one.(map[string]any)
		name, _ := variable["name"].(string)
		switch {
		case len(variable) == 0:
		case name == "":
			s.refuse(environment, "names no variable, and may be that of one that leaves the controller")
			return
		default:
			s.checkValue(variableAt(name), variable["value"])
		}
	}
}

func readableBy(at string) (why string, leaves bool) {
	if why, leaves = readableOutside[at]; leaves {
		return why, true
	}
	domain, _, _ := strings.Cut(at, "/")
	why, leaves = readableOutside[domain+"/*]"]
	return why, leaves
}

func (s *secrets) refuse(at, why string) {
	s.found = append(s.found, Refusal{What: "valuesFrom a Secret for values." + at, Why: why, Field: fieldValues, Entry: at})
}

// CheckCRDs returns the CRDs of a CRD chart in Git that are not those of Karpenter's release. Call it before anything
// compiles their schemas. A chart whose digest is allowed may have others: the author of the NodeSync vouches for it.
func (a Allowance) CheckCRDs(version, digest string, crds []*apiextensionsv1.CustomResourceDefinition) ([]Refusal, error) {
	var found []Refusal
	for _, crd := range crds {
		refusal, err := a.checkReleased(version, digest, crd)
		if err != nil {
			return nil, err
		}
		found = append(found, refusal...)
	}
	return found, nil
}

// checkReleased compares the whole spec of a CRD. The API server adds the defaults of a schema to all objects, drops
// fields that the schema does not have, and merges lists by their keys: each of these outlasts the commit, and no Plan
// restricts the objects of other NodeSyncs.
func (a Allowance) checkReleased(version, digest string, crd *apiextensionsv1.CustomResourceDefinition) ([]Refusal, error) {
	if a.names(digest) {
		return nil, nil
	}
	is, err := Fingerprint(crd)
	if err != nil {
		return nil, err
	}
	if FromCharts().Fingerprints[version][crd.Name] == is {
		return nil, nil
	}
	return []Refusal{{
		What:  crdKind + " " + crd.Name,
		Why:   fmt.Sprintf("of a chart in Git is not the one that this plumbline knows of Karpenter %s: a schema sets and drops fields in the objects of every NodeSync", version),
		Field: fieldDigests, Entry: wholeDigest(digest), Rendered: true,
	}}, nil
}

// Fingerprint returns a hash of everything that a CRD defines, independent of how it is written.
func Fingerprint(crd *apiextensionsv1.CustomResourceDefinition) (string, error) {
	typed, err := json.Marshal(crd.Spec)
	if err != nil {
		return "", fmt.Errorf("read crd %s: %w", crd.Name, err)
	}
	var plain any // decodes defaults, which are raw JSON, so that their keys are sorted
	if err := json.Unmarshal(typed, &plain); err != nil {
		return "", fmt.Errorf("read crd %s: %w", crd.Name, err)
	}
	canonical, err := json.Marshal(plain)
	if err != nil {
		return "", fmt.Errorf("read crd %s: %w", crd.Name, err)
	}
	return fmt.Sprintf("%x", sha256.Sum256(canonical)), nil
}

// featureGates is the variable with the controller's feature gates: Name=true,Name=false.
const featureGates = "FEATURE_GATES"

// closedGates returns the chart values for the feature gates that a list enables, but that a commit must not enable.
func (a Allowance) closedGates(list string) []string {
	var found []string
	for gate := range strings.SplitSeq(list, ",") {
		name, value, _ := strings.Cut(gate, "=")
		if name == "" || value != "true" {
			continue
		}
		path := "settings.featureGates." + strings.ToLower(name[:1]) + name[1:]
		if _, isClosed := closed[path]; isClosed && !a.allows(path) {
			found = append(found, path)
		}
	}
	return found
}

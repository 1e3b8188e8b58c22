package karpenter

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/plumbline-dev/plumbline/internal/nearest"
)

// Migration is what must be done with a CRD's objects before its new definition can be written: the API server rejects
// one that does not contain a version which status.storedVersions lists.
type Migration struct {
	CRD string `json:"crd"`
	// Drop are the versions to remove from status.storedVersions, once each object was written again and is stored as
	// Storage.
	Drop    []string `json:"drop"`
	Storage string   `json:"storage"`
}

// LostVersionError reports that a CRD would lose a version in which objects are stored, and that they cannot be stored
// in another one first.
type LostVersionError struct {
	CRD string
	// Versions would be lost; the new definition has only Has.
	Versions, Has []string
	// Storage is the current storage version.
	Storage string
}

// Error explains the problem, and names a solution.
func (e *LostVersionError) Error() string {
	return fmt.Sprintf("crd %s stores objects as %s, and the new one knows only %s: upgrade by way of a version of karpenter whose CRDs know both",
		e.CRD, strings.Join(e.Versions, " and "), strings.Join(e.Has, ", "))
}

// Migrations returns what must be done with the objects of live CRDs before the target's CRDs can be written, in the
// order of the target. CRDs that do not exist yet need nothing. Errors: *LostVersionError.
func Migrations(live, target []*apiextensionsv1.CustomResourceDefinition) ([]Migration, error) {
	var found []Migration
	for _, next := range target {
		now := named(live, next.Name)
		if now == nil {
			continue
		}
		has := versions(next)
		lost := without(now.Status.StoredVersions, has)
		if len(lost) == 0 {
			continue
		}
		storage := storageOf(now)
		if !slices.Contains(has, storage) {
			return nil, &LostVersionError{CRD: now.Name, Versions: lost, Has: has, Storage: storage}
		}
		found = append(found, Migration{CRD: now.Name, Drop: lost, Storage: storage})
	}
	return found, nil
}

// named returns a CRD by name; nil if there is none.
func named(crds []*apiextensionsv1.CustomResourceDefinition, name string) *apiextensionsv1.CustomResourceDefinition {
	for _, crd := range crds {
		if crd.Name == name {
			return crd
		}
	}
	return nil
}

// versions returns all versions of a CRD, served or not.
func versions(crd *apiextensionsv1.CustomResourceDefinition) []string {
	var names []string
	for _, v := range crd.Spec.Versions {
		names = append(names, v.Name)
	}
	return names
}

// served returns the versions that clients can use.
func served(crd *apiextensionsv1.CustomResourceDefinition) []string {
	var names []string
	for _, v := range crd.Spec.Versions {
		if v.Served {
			names = append(names, v.Name)
		}
	}
	return names
}

// storageOf returns the storage version.
func storageOf(crd *apiextensionsv1.CustomResourceDefinition) string {
	for _, v := range crd.Spec.Versions {
		if v.Storage {
			return v.Name
		}
	}
	return ""
}

// without returns what is in one list and not in the other.
func without(list, other []string) []string {
	var rest []string
	for _, one := range list {
		if !slices.Contains(other, one) {
			rest = append(rest, one)
		}
	}
	return rest
}

// shapes are the structural schemas of a set of CRDs, each built on first use.
type shapes struct {
	crds []*apiextensionsv1.CustomResourceDefinition
	made map[schema.GroupVersionKind]shape
}

// shape is one schema, or why there is none.
type shape struct {
	is  *structural.Structural
	err error
}

func newShapes(crds []*apiextensionsv1.CustomResourceDefinition) *shapes {
	return &shapes{crds: crds, made: map[schema.GroupVersionKind]shape{}}
}

func (s *shapes) of(gvk schema.GroupVersionKind) (*structural.Structural, error) {
	if known, ok := s.made[gvk]; ok {
		return known.is, known.err
	}
	is, err := s.make(gvk)
	s.made[gvk] = shape{is, err}
	return is, err
}

func (s *shapes) make(gvk schema.GroupVersionKind) (*structural.Structural, error) {
	for _, crd := range s.crds {
		if crd.Spec.Group != gvk.Group || crd.Spec.Names.Kind != gvk.Kind {
			continue
		}
		for _, version := range crd.Spec.Versions {
			if version.Name == gvk.Version && version.Schema != nil && version.Schema.OpenAPIV3Schema != nil {
				return newStructural(version.Schema.OpenAPIV3Schema)
			}
		}
	}
	return nil, fmt.Errorf("no CRD defines %s in %s", gvk.Kind, gvk.GroupVersion())
}

func newStructural(written *apiextensionsv1.JSONSchemaProps) (*structural.Structural, error) {
	internal := &apiextensions.JSONSchemaProps{}
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(written, internal, nil); err != nil {
		return nil, err
	}
	return structural.NewStructural(internal)
}

// UnknownValue is a value that the main chart does not have: Helm would accept and ignore it.
type UnknownValue struct {
	Path string `json:"path"`
	// Meant is the value that was most likely meant; empty if none is similar.
	Meant string `json:"meant,omitempty"`
	// Gone is set if an older chart had it.
	Gone *Setting `json:"gone,omitempty"`
}

// String describes what to do about it.
func (u UnknownValue) String() string {
	switch {
	case u.Meant != "":
		return fmt.Sprintf("%s: the chart has no such value; did you mean %s?", u.Path, u.Meant)
	case u.Gone != nil:
		return u.Gone.String()
	}
	return u.Path + ": the chart has no such value"
}

// Unknown returns the values that the main chart does not have, according to its values.yaml. Everything is known below
// a default that is empty (a map, a list, null) or a list, and below the maps that the chart passes to Kubernetes
// unchanged.
func Unknown(values, chart map[string]any) []UnknownValue {
	w := walk{chart: chart}
	w.into("", values, chart)
	return w.found
}

// wholesale are the maps with defaults that the chart passes to Kubernetes unchanged: KPA
// charts/karpenter/templates/deployment.yaml, toYaml.
var wholesale = []string{"affinity", "controller.securityContext", "nodeSelector", "podSecurityContext", "strategy"}

// global is Helm's own, for all charts.
const global = "global"

// CheckValues refuses values that the main chart of version to does not have, and settings that it no longer has. chart
// contains that chart's defaults; from is the installed version, empty if there is none.
func CheckValues(values, chart map[string]any, from, to string) error {
	var words []string
	for _, unknown := range Unknown(values, chart) {
		words = append(words, unknown.String())
	}
	if len(words) == 0 && from != "" {
		gone, err := Gone(values, from, to)
		if err != nil {
			return err
		}
		for _, setting := range gone {
			words = append(words, setting.String())
		}
	}
	if len(words) > 0 {
		return &ValuesError{Version: to, Words: words}
	}
	return nil
}

// ValuesError reports that values are not for a version of the main chart.
type ValuesError struct {
	Version string
	// Words describe what to do about each.
	Words []string
}

// Error names each of them.
func (e *ValuesError) Error() string {
	return fmt.Sprintf("values in plumbline.yaml that chart karpenter %s does not use: %s", e.Version, strings.Join(e.Words, "; "))
}

type walk struct {
	chart map[string]any
	found []UnknownValue
}

// into compares the values at a path with the defaults there.
func (w *walk) into(at string, values, defaults map[string]any) {
	for _, key := range slices.Sorted(maps.Keys(values)) {
		path := join(at, key)
		byDefault, known := defaults[key]
		below, isMap := values[key].(map[string]any)
		inside, defaultIsMap := byDefault.(map[string]any)
		switch {
		case path == global || slices.Contains(wholesale, path):
		case !known && isMap && hasPast(path):
			w.into(path, below, nil) // each of them may have been renamed separately
		case !known:
			w.report(path, key, defaults)
		case isMap && defaultIsMap && len(inside) > 0:
			w.into(path, below, inside)
		case isMap && !defaultIsMap && isScalar(byDefault):
			w.into(path, below, nil)
		}
	}
}

func (w *walk) report(path, key string, beside map[string]any) {
	u := UnknownValue{Path: path, Gone: past(path)}
	if u.Gone != nil {
		u.Meant = w.successor(*u.Gone)
	} else {
		u.Meant = w.meant(path, key, beside)
	}
	w.found = append(w.found, u)
}

// successor follows the renames of a setting to one that the chart has.
func (w *walk) successor(s Setting) string {
	for s.Now != "" {
		if w.has(s.Now) {
			return s.Now
		}
		next := past(s.Now)
		if next == nil {
			break
		}
		s = *next
	}
	return ""
}

// meant returns the sibling with the most similar name, or the only value elsewhere in the chart with the same name.
func (w *walk) meant(path, key string, beside map[string]any) string {
	if name := nearest.Name(key, slices.Sorted(maps.Keys(beside))); name != "" {
		at := strings.TrimSuffix(path, key)
		return at + name
	}
	if same := places(key, "", w.chart); len(same) == 1 {
		return same[0]
	}
	return ""
}

// has reports whether the chart has a value at this path.
func (w *walk) has(path string) bool {
	return Setting{Path: path}.in(w.chart)
}

// places returns the paths of all values of a name.
func places(key, at string, in map[string]any) []string {
	var found []string
	for _, name := range slices.Sorted(maps.Keys(in)) {
		path := join(at, name)
		if slices.Contains(wholesale, path) {
			continue
		}
		if strings.EqualFold(name, key) {
			found = append(found, path)
		}
		if below, ok := in[name].(map[string]any); ok {
			found = append(found, places(key, path, below)...)
		}
	}
	return found
}

// past returns what replaced a value of an older chart.
func past(path string) *Setting {
	for _, s := range settings {
		if s.Path == path {
			return &s
		}
	}
	return nil
}

// hasPast reports whether older charts had values below a path.
func hasPast(path string) bool {
	return slices.ContainsFunc(settings, func(s Setting) bool { return strings.HasPrefix(s.Path, path+".") })
}

func isScalar(value any) bool {
	switch value.(type) {
	case nil, []any, map[string]any:
		return false
	}
	return true
}

func join(at, key string) string {
	if at == "" {
		return key
	}
	return at + "." + key
}

// Unlike returns which of the wanted CRDs does not exist, or has other versions or schemas; empty if all match. A CRD
// does not contain the version of Karpenter, so its content must tell. The caller completes the sentence with whose CRD
// is wanted.
func Unlike(live, wanted []*apiextensionsv1.CustomResourceDefinition) string {
	for _, want := range wanted {
		has := named(live, want.Name)
		switch {
		case has == nil:
			return fmt.Sprintf("crd %s is not there yet: that", want.Name)
		case !alike(has.Spec.Versions, want.Spec.Versions):
			return fmt.Sprintf("crd %s is not that", want.Name)
		}
	}
	return ""
}

// alike compares everything that affects how an API server handles objects of each version.
func alike(a, b []apiextensionsv1.CustomResourceDefinitionVersion) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].Name != b[i].Name || a[i].Served != b[i].Served || a[i].Storage != b[i].Storage {
			return false
		}
		if !reflect.DeepEqual(plain(a[i].Schema), plain(b[i].Schema)) {
			return false
		}
	}
	return true
}

// plain returns a schema as decoded JSON: to an API server, empty and missing are the same. Defaults are raw JSON with
// their own white space.
func plain(schema *apiextensionsv1.CustomResourceValidation) any {
	raw, err := json.Marshal(schema)
	if err != nil {
		return err // no schema is equal to it
	}
	var fields any
	if err := json.Unmarshal(raw, &fields); err != nil {
		return err
	}
	return fields
}

// UntestedError reports that a change leads to a version that is newer than the tables, or that is no release of
// upstream: nothing is known about whether it works.
type UntestedError struct {
	// Names are what to accept in plumbline.yaml, such as "karpenter 1.16.0" or "karpenter 1.14.0+acme.3".
	Names []string
	// Unknown describes what is unknown about each.
	Unknown []string
	// Unreleased reports whether the only one is no release of upstream: no newer plumbline knows it.
	Unreleased bool
}

// Error names what is unknown, and the line that accepts it.
func (e *UntestedError) Error() string {
	instead := "use a newer plumbline"
	if e.Unreleased {
		instead = "use a release"
	}
	return fmt.Sprintf("%s; %s, or accept it in plumbline.yaml: acceptUntested: [%s]",
		strings.Join(e.Unknown, "; "), instead, strings.Join(e.Names, ", "))
}

// CheckTested reports whether the tables contain a version of Karpenter, and one that supports the cluster's
// Kubernetes, except for what is explicitly accepted. Errors: *VersionError, *UntestedError.
func CheckTested(kubernetesVersion, karpenter string, accepted []string) error {
	minor, err := KubernetesMinor(kubernetesVersion)
	if err != nil {
		return err
	}
	v, err := parse(karpenter)
	if err != nil {
		return err
	}
	found := &UntestedError{}
	add := func(name, unknown string) {
		if !slices.Contains(accepted, name) {
			found.Names, found.Unknown = append(found.Names, name), append(found.Unknown, unknown)
		}
	}
	if unknown := unknownOf(v); unknown != "" {
		add("karpenter "+v.String(), unknown)
		found.Unreleased = !isRelease(v)
	}
	if most := newestMinor(); minor > most {
		found.Unreleased = false
		add(fmt.Sprintf("kubernetes 1.%d", minor), fmt.Sprintf("the cluster's kubernetes 1.%d is newer than 1.%d, the newest that this plumbline knows: whether karpenter %s works with it is unknown", minor, most, v))
	}
	if len(found.Names) == 0 {
		return nil
	}
	return found
}

// newestMinor returns the newest minor number of Kubernetes that any known version supports.
func newestMinor() int {
	most := 0
	for _, r := range kubernetes {
		most = max(most, r.is.Newest)
	}
	return most
}

// change is a change in a version's own behaviour.
type change struct {
	text string
	// breaking reports whether a person has to act or decide before the upgrade.
	breaking bool
}

// changes are those that a person should know about in advance: KPA
// website/content/en/docs/upgrading/upgrade-guide.md at 1.14.1, and the defaults in charts/karpenter/values.yaml of the
// tags. Those of 1.15.0 are from the sources: KPA pkg/apis/v1/kubeletconfiguration_validation.go,
// pkg/controllers/nodeclass/validation.go and the settings in charts/karpenter, KC pkg/controllers/disruption/repair.go
// and pkg/apis/v1/nodepool.go.
var changes = []row[change]{
	{"0.33.0", change{text: "the feature gate drift is on by default: nodes that differ from their NodePool are replaced"}},
	{"0.34.0", change{text: "disruption budgets hold, 10% of a NodePool's nodes at a time by default"}},
	{"0.34.0", change{text: "dnsPolicy of the controller is ClusterFirst: where Karpenter's nodes run the cluster's DNS, set it to Default"}},
	{"1.0.0", change{text: "two replicas need two zones, or nodes: topologySpreadConstraints are required by default"}},
	{"1.0.0", change{text: "the metrics port is 8080 by default, and metrics have other names"}},
	{"1.6.0", change{text: "the feature gate reservedCapacity is on by default: open capacity reservations are used only where an EC2NodeClass has capacityReservationSelectorTerms"}},
	{
		"1.7.0",
		change{text: "new instance profiles have the path /karpenter/{region}/{cluster}/{uid}/: a policy that names them by path must allow it"},
	},
	{"1.10.0", change{text: "interruptible capacity reservations need one more EventBridge rule: EC2 Capacity Reservation Instance Interruption Warning"}},
	{"1.14.0", change{text: "karpenter-crd adds a fifth CRD, capacitybuffers.autoscaling.x-k8s.io"}},
	{"1.15.0", change{breaking: true, text: "with the feature gate nodeRepair, unhealthy nodes are replaced within the disruption budgets, before drifted ones: " +
		"a budget of 0 stops repair, unless its reasons leave out Unhealthy; settings.legacyNodeRepair keeps the old controller"}},
	{"1.15.0", change{breaking: true, text: "the API server does not check the fields of spec.kubelet any more: with an unknown field, or one that the AMI " +
		"family does not apply (podsPerCore with Bottlerocket, a second clusterDNS without AL2023), an EC2NodeClass is not Ready, and launches no node"}},
	{"1.15.0", change{text: "spec.disruption.consolidateAfter is optional in NodePools, 0s by default"}},
}

// MetricChange is a metric of the controller that has more labels, or more values of a label, than before.
type MetricChange struct {
	Metric string `json:"metric"`
	// Since is the first version with the change.
	Since string `json:"since"`
	// Labels are added to it.
	Labels []string `json:"labels,omitempty"`
	// Values are new, as label=value.
	Values []string `json:"values,omitempty"`
}

// String describes what is added.
func (m MetricChange) String() string {
	if len(m.Labels) > 0 {
		return fmt.Sprintf("%s has more labels since %s: %s", m.Metric, m.Since, strings.Join(m.Labels, ", "))
	}
	return fmt.Sprintf("%s has more values since %s: %s", m.Metric, m.Since, strings.Join(m.Values, ", "))
}

// metrics are those whose labels changed: the definitions of metrics in KC at each tag, compared. Queries that join or
// group by all labels have other results; the others stay as they are. The 1.0 names are in changes.
var metrics = metricRows(
	// pkg/metrics/metrics.go
	MetricChange{
		Metric: "karpenter_nodeclaims_disrupted_total", Since: "1.15.0", Labels: []string{"consolidation_policy", "termination_mode"},
	},
	// pkg/controllers/disruption/metrics.go and types.go; before in pkg/controllers/node/health/metrics.go
	MetricChange{Metric: "karpenter_nodeclaims_unhealthy_disrupted_total", Since: "1.15.0", Labels: []string{"termination_mode"}},
	MetricChange{
		Metric: "karpenter_voluntary_disruption_decisions_total", Since: "1.15.0",
		Values: []string{"decision=terminate-first", "decision=reboot"},
	},
	// pkg/cloudprovider/metrics/cloudprovider.go
	MetricChange{Metric: "karpenter_cloudprovider_errors_total", Since: "1.15.0", Labels: []string{"nodepool"}},
	// pkg/controllers/metrics/pod/controller.go
	MetricChange{Metric: "karpenter_pods_bound_duration_seconds", Since: "1.15.0", Labels: []string{"dynamic_resources"}},
	MetricChange{Metric: "karpenter_pods_unbound_time_seconds", Since: "1.15.0", Labels: []string{"dynamic_resources"}},
	MetricChange{Metric: "karpenter_pods_provisioning_bound_duration_seconds", Since: "1.15.0", Labels: []string{"dynamic_resources"}},
	MetricChange{Metric: "karpenter_pods_provisioning_unbound_time_seconds", Since: "1.15.0", Labels: []string{"dynamic_resources"}},
)

// metricRows builds the table from each MetricChange's Since.
func metricRows(all ...MetricChange) []row[MetricChange] {
	rows := make([]row[MetricChange], 0, len(all))
	for _, m := range all {
		rows = append(rows, row[MetricChange]{since: m.Since, is: m})
	}
	return rows
}

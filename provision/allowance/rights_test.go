package allowance

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

// TestSecretsThatWouldLeave: a committer chooses which labelled Secret is used for which value, and is root on the
// nodes that some values go to.
func TestSecretsThatWouldLeave(t *testing.T) {
	for name, c := range map[string]struct {
		values string
		allow  []string
		want   []string
	}{
		"user data": {"settings: {clusterEndpoint: a, clusterCABundle: b, clusterName: c, reservedENIs: 3, vmMemoryOverheadPercent: 0.1}", nil, []string{
			"settings.clusterCABundle", "settings.clusterEndpoint", "settings.clusterName", "settings.reservedENIs", "settings.vmMemoryOverheadPercent",
		}},
		"AWS": {"settings: {interruptionQueue: a}", nil, []string{"settings.interruptionQueue"}},
		"variables": {"controller: {env: [{name: CLUSTER_ENDPOINT, value: a}, {name: KUBE_CLIENT_QPS, value: 1}, {name: INTERRUPTION_QUEUE, value: b}]}", nil, []string{
			"controller.env[CLUSTER_ENDPOINT]", "controller.env[INTERRUPTION_QUEUE]",
		}},
		"the value of a variable that is named elsewhere": {"controller: {env: [null, {value: a}]}", nil, []string{"controller.env"}},
		"marks":   {"podAnnotations: {prometheus.io/path: a, checksum/token: b}", nil, []string{"podAnnotations[prometheus.io/path]"}},
		"a map":   {"settings: {clusterEndpoint: {a: b}}", nil, []string{"settings.clusterEndpoint"}},
		"metrics": {"serviceMonitor: {metricRelabelings: [{replacement: a}]}", nil, []string{"serviceMonitor.metricRelabelings"}},
		"what the API server compares": {"controller: {resources: {limits: {memory: 1Gi}, requests: {cpu: 1}}}\ntopologySpreadConstraints: [{topologyKey: a}]", nil, []string{
			"controller.resources.limits.memory", "controller.resources.requests.cpu", "topologySpreadConstraints",
		}},
		"ports": {"controller: {metrics: {port: 1}, healthProbe: {port: 2}}\nwebhook: {port: 3, metrics: {port: 4}}\nstrategy: {rollingUpdate: {maxSurge: 1}}", nil, []string{
			"controller.healthProbe.port", "controller.metrics.port", "strategy", "webhook.metrics.port", "webhook.port",
		}},
		"null":       {"settings: {clusterEndpoint: null}", nil, nil},
		"what stays": {"replicas: 2\nlogLevel: debug\nsettings: {batchIdleDuration: 2s, featureGates: {nodeRepair: true}}\npodLabels: {token: a}", nil, nil},
		"allowed":    {"settings: {clusterEndpoint: a, interruptionQueue: b}", []string{"settings.clusterEndpoint"}, []string{"settings.interruptionQueue"}},
		"all of it":  {"settings: {clusterEndpoint: a, interruptionQueue: b}", []string{"settings"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var values map[string]any
			if err := yaml.Unmarshal([]byte(c.values), &values); err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, refusal := range (Allowance{Values: c.allow}).CheckSecret(values) {
				got = append(got, refusal.Entry)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestWhatLeavesIsListed: a value that leaves the controller is listed as a variable as well, and each is one that a
// commit may set.
func TestWhatLeavesIsListed(t *testing.T) {
	for at := range readableOutside {
		if _, is := open[at]; !is && !closed[at].own {
			t.Errorf("%s is no open value", at)
		}
	}
	for at, is := range open {
		free := slices.Contains([]string{word.is, endpoint.is}, is.is)
		if _, leaves := readableOutside[at]; free && !leaves && (strings.HasPrefix(at, "settings.") || strings.HasPrefix(at, environment)) {
			t.Errorf("%s takes any text: say where it goes", at)
		}
	}
}

// typed converts objects to CRDs.
func typed(t *testing.T, objects []*unstructured.Unstructured) []*apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	var crds []*apiextensionsv1.CustomResourceDefinition
	for _, object := range objects {
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, crd); err != nil {
			t.Fatal(err)
		}
		crds = append(crds, crd)
	}
	return crds
}

// TestCRDsOfChartsInGit: a CRD in Git must be the released one, or its chart must be allowed by the NodeSync: what a
// schema sets, drops or merges affects the objects of every NodeSync, and outlasts the commit.
func TestCRDsOfChartsInGit(t *testing.T) {
	const (
		classes = "CustomResourceDefinition ec2nodeclasses.karpenter.k8s.aws"
		pools   = "CustomResourceDefinition nodepools.karpenter.sh"
		digest  = "sha256:0123456789012345678901234567890123456789012345678901234567890123"
		spec    = "/spec/versions/0/schema/openAPIV3Schema/properties/spec"
	)
	_, linked, _ := strings.Cut(module(t), "@v")
	for name, c := range map[string]struct{ crd, patch, version string }{
		"as released":                 {crd: classes, patch: "[]"},
		"another annotation":          {crd: classes, patch: "[{op: replace, path: /metadata/annotations/controller-gen.kubebuilder.io~1version, value: v0}]"},
		"a default":                   {classes, "[{op: add, path: " + spec + "/properties/userData/default, value: '#!/bin/sh evil'}]", linked},
		"another default":             {pools, "[{op: replace, path: " + spec + "/properties/disruption/default, value: {consolidateAfter: 1s}}]", linked},
		"no default":                  {pools, "[{op: remove, path: " + spec + "/properties/disruption/default}]", linked},
		"a field less":                {pools, "[{op: remove, path: " + spec + "/properties/limits}]", linked},
		"a field more":                {pools, "[{op: add, path: " + spec + "/properties/more, value: {type: string}}]", linked},
		"unknown fields that stay":    {pools, "[{op: add, path: " + spec + "/x-kubernetes-preserve-unknown-fields, value: true}]", linked},
		"an object within":            {pools, "[{op: add, path: " + spec + "/x-kubernetes-embedded-resource, value: true}]", linked},
		"nullable":                    {pools, "[{op: add, path: " + spec + "/properties/disruption/nullable, value: true}]", linked},
		"a list that merges":          {pools, "[{op: add, path: " + spec + "/properties/disruption/properties/budgets/x-kubernetes-list-type, value: set}]", linked},
		"a rule less":                 {pools, "[{op: remove, path: " + spec + "/x-kubernetes-validations}]", linked},
		"no status":                   {pools, "[{op: remove, path: /spec/versions/0/subresources/status}]", linked},
		"a version more":              {pools, "[{op: add, path: /spec/versions/-, value: {name: v2, served: true, storage: false}}]", linked},
		"short names":                 {pools, "[{op: add, path: /spec/names/shortNames, value: [pool]}]", linked},
		"another version's":           {pools, "[]", "1.12.1"},
		"a version that is not known": {pools, "[]", "1.999.0"},
	} {
		t.Run(name, func(t *testing.T) {
			r := Rendered{Namespace: "kube-system", Version: linked, Digest: digest, CRDs: true, InGit: true, Objects: patched(t, realCRDs(t), c.crd, c.patch)}
			if c.version != "" {
				r.Version = c.version
			}
			before, err := (Allowance{}).CheckCRDs(r.Version, digest, typed(t, r.Objects))
			if err != nil {
				t.Fatal(err)
			}
			for where, err := range map[string]error{"before it is compiled": Refuse(before), "before it is written": Refuse((Allowance{}).CheckObjects(r))} {
				want := c.crd + " of a chart in Git is not the one that this plumbline knows of Karpenter " + r.Version
				if (err == nil) != (c.version == "") || err != nil && (!strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), `spec.charts.allow.digests: ["`+digest+`"]`)) {
					t.Errorf("%s: refused: %v, want %q", where, err, want)
				}
			}
			named := Allowance{Digests: []string{digest}}
			if after, err := named.CheckCRDs(r.Version, digest, typed(t, r.Objects)); err != nil || len(after) > 0 {
				t.Errorf("with its digest: %v, %v", after, err)
			}
			if err := Refuse(named.CheckObjects(r)); err != nil {
				t.Errorf("with its digest: %v", err)
			}
			r.Digest = ""
			if err := Refuse(named.CheckObjects(r)); (err == nil) != (c.version == "") {
				t.Errorf("of an unknown digest: %v", err)
			}
			r.InGit = false
			if err := Refuse((Allowance{}).CheckObjects(r)); err != nil {
				t.Errorf("from a registry: %v", err)
			}
		})
	}
}

// TestClosedGates: enabling a feature gate with which Karpenter terminates more nodes, or gets more rights, requires the
// NodeSync's permission, however a commit does it; disabling one does not, nor do the other gates.
func TestClosedGates(t *testing.T) {
	for gate, isClosed := range map[string]bool{
		"NodeRepair": true, "SpotToSpotConsolidation": true, "TerminateFirstDrift": true, "TerminateFirstRepair": true,
		"PodDeletionCostManagement": true, "StaticCapacity": false, "NodeOverlay": false, "ReservedCapacity": false,
	} {
		path := "settings.featureGates." + strings.ToLower(gate[:1]) + gate[1:]
		value := fmt.Sprintf("settings: {featureGates: {%s: %%s}}", strings.ToLower(gate[:1])+gate[1:])
		variable := fmt.Sprintf("controller: {env: [{name: FEATURE_GATES, value: \"StaticCapacity=true,%s=%%s\"}]}", gate)
		for text, on := range map[string]bool{
			fmt.Sprintf(value, "true"): true, fmt.Sprintf(value, `"true"`): true, fmt.Sprintf(variable, "true"): true,
			fmt.Sprintf(value, "false"): false, fmt.Sprintf(value, "null"): false, fmt.Sprintf(variable, "false"): false,
		} {
			var got, want []string
			for _, r := range (Allowance{}).CheckValues(read(t, text)) {
				got = append(got, r.Field+" "+r.Entry)
			}
			if on && isClosed {
				want = []string{fieldValues + " " + path}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", text, diff)
			}
			if found := (Allowance{Values: []string{path}}).CheckValues(read(t, text)); len(found) > 0 {
				t.Errorf("%s, which the NodeSync allows: %v", text, found)
			}
		}
	}
}

// TestSettingsThatTerminateNodes: a setting with which Karpenter consolidates nodes that it keeps by default requires
// the NodeSync's permission, as a value, as a variable, and in a chart in Git; its default, and reverting to it, do
// not.
func TestSettingsThatTerminateNodes(t *testing.T) {
	for setting, c := range map[string]struct{ variable, loose, strict string }{
		"preferencePolicy": {"PREFERENCE_POLICY", "Ignore", "Respect"},
		"minValuesPolicy":  {"MIN_VALUES_POLICY", "BestEffort", "Strict"},
	} {
		path, at := "settings."+setting, "controller.env["+c.variable+"]"
		for text, entry := range map[string]string{
			fmt.Sprintf("settings: {%s: %s}", setting, c.loose):                             path,
			fmt.Sprintf("settings: {%s: %s}", setting, c.strict):                            "",
			fmt.Sprintf("settings: {%s: null}", setting):                                    "",
			fmt.Sprintf("controller: {env: [{name: %s, value: %s}]}", c.variable, c.loose):  at,
			fmt.Sprintf("controller: {env: [{name: %s, value: %s}]}", c.variable, c.strict): "",
		} {
			found := (Allowance{}).CheckValues(read(t, text))
			if entry == "" && len(found) > 0 || entry != "" && (len(found) != 1 || found[0].Entry != entry || found[0].Why != whyTerminates) {
				t.Errorf("%s: %v, want %q", text, found, entry)
			}
			if found := (Allowance{Values: []string{path, at}}).CheckValues(read(t, text)); len(found) > 0 {
				t.Errorf("%s, which the NodeSync allows: %v", text, found)
			}
		}
		objects := realChart(t, map[string]any{"settings": map[string]any{setting: c.loose}})
		rendered := Rendered{Namespace: "kube-system", Version: "1.14.1", InGit: true, Objects: objects}
		if found := (Allowance{}).CheckObjects(rendered); len(found) != 1 || found[0].Entry != path {
			t.Errorf("%s in a chart in Git: %v", setting, found)
		}
		if found := (Allowance{Values: []string{path}}).CheckObjects(rendered); len(found) > 0 {
			t.Errorf("%s in a chart in Git, which the NodeSync allows: %v", setting, found)
		}
	}
}

// TestGatesThatAChartInGitTurnsOn: its own values and templates require the same permission as values of a commit.
func TestGatesThatAChartInGitTurnsOn(t *testing.T) {
	const path = "settings.featureGates.spotToSpotConsolidation"
	objects := realChart(t, map[string]any{"settings": map[string]any{"featureGates": map[string]any{"spotToSpotConsolidation": true}}})
	for name, c := range map[string]struct {
		inGit   bool
		allowed []string
		refused bool
	}{
		"in Git": {inGit: true, refused: true}, "allowed": {inGit: true, allowed: []string{path}}, "released, by a value that was checked": {},
	} {
		rendered := Rendered{Namespace: "kube-system", Version: "1.14.1", InGit: c.inGit, Objects: objects}
		found := (Allowance{Values: c.allowed}).CheckObjects(rendered)
		if refused := len(found) == 1 && found[0].Entry == path; refused != c.refused || len(found) > 1 {
			t.Errorf("%s: %v", name, found)
		}
	}
}

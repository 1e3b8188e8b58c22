package karpenter

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

type crdList = []*apiextensionsv1.CustomResourceDefinition

// crd returns a CRD that stores its first version, and serves all except those that begin with a minus.
func crd(name string, versions ...string) *apiextensionsv1.CustomResourceDefinition {
	made := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: name}}
	for i, version := range versions {
		served := version[0] != '-'
		if !served {
			version = version[1:]
		}
		made.Spec.Versions = append(made.Spec.Versions, apiextensionsv1.CustomResourceDefinitionVersion{Name: version, Served: served, Storage: i == 0})
	}
	return made
}

// storing sets the stored versions of a CRD.
func storing(crd *apiextensionsv1.CustomResourceDefinition, versions ...string) *apiextensionsv1.CustomResourceDefinition {
	crd.Status.StoredVersions = versions
	return crd
}

// installed makes real CRDs live: each stores its storage version, and more.
func installed(crds crdList, more ...string) crdList {
	for _, crd := range crds {
		crd.Status.StoredVersions = append(slices.Clone(more), storageOf(crd))
	}
	return crds
}

func TestMigrations(t *testing.T) {
	cases := map[string]struct {
		live, target crdList
		want         []Migration
		lost         *LostVersionError
	}{
		"nothing lives":     {nil, crdList{crd("a", "v1")}, nil, nil},
		"as it was":         {crdList{storing(crd("a", "v1"), "v1")}, crdList{crd("a", "v1")}, nil, nil},
		"an old version":    {crdList{storing(crd("a", "v1", "v1beta1"), "v1beta1", "v1")}, crdList{crd("a", "v1")}, []Migration{{"a", []string{"v1beta1"}, "v1"}}, nil},
		"migrated already":  {crdList{storing(crd("a", "v1", "v1beta1"), "v1")}, crdList{crd("a", "v1")}, nil, nil},
		"kept, not served":  {crdList{storing(crd("a", "v1", "v1beta1"), "v1beta1", "v1")}, crdList{crd("a", "v1", "-v1beta1")}, nil, nil},
		"a new storage":     {crdList{storing(crd("a", "v1"), "v1")}, crdList{crd("a", "v2", "v1")}, nil, nil},
		"a version too far": {crdList{storing(crd("a", "v1beta1"), "v1beta1")}, crdList{crd("a", "v1")}, nil, &LostVersionError{CRD: "a", Versions: []string{"v1beta1"}, Has: []string{"v1"}, Storage: "v1beta1"}},
		"a downgrade":       {crdList{storing(crd("a", "v2", "v1"), "v1", "v2")}, crdList{crd("a", "v1")}, nil, &LostVersionError{CRD: "a", Versions: []string{"v2"}, Has: []string{"v1"}, Storage: "v2"}},
		"a CRD of others":   {crdList{storing(crd("b", "v1"), "v0")}, crdList{crd("a", "v1")}, nil, nil},
		"1.0 to 1.1, of old objects": {
			installed(crds(t, "1.0.8"), "v1beta1"), crds(t, "1.3.3"),
			[]Migration{{"ec2nodeclasses.karpenter.k8s.aws", []string{"v1beta1"}, "v1"}, {"nodeclaims.karpenter.sh", []string{"v1beta1"}, "v1"}, {"nodepools.karpenter.sh", []string{"v1beta1"}, "v1"}},
			nil,
		},
		"1.0 to 1.1, migrated": {installed(crds(t, "1.0.8")), crds(t, "1.3.3"), nil, nil},
		"1.8 to 1.14":          {installed(crds(t, "1.8.6")), crds(t, "1.14.3"), nil, nil},
		"back to 1.8":          {installed(crds(t, "1.14.3")), crds(t, "1.8.6"), nil, nil},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := Migrations(c.live, c.target)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
			var lost *LostVersionError
			if errors.As(err, &lost); err != nil && lost == nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.lost, lost); diff != "" {
				t.Error(diff)
			}
		})
	}
	lost := &LostVersionError{CRD: "a", Versions: []string{"v2"}, Has: []string{"v1"}}
	if want := "crd a stores objects as v2, and the new one knows only v1: upgrade by way of a version of karpenter whose CRDs know both"; lost.Error() != want {
		t.Errorf("says %s", lost)
	}
}

func TestWayBack(t *testing.T) {
	cases := map[string]struct {
		live, next, old crdList
		want            []string
	}{
		"the same":          {crdList{crd("a", "v1")}, crdList{crd("a", "v1")}, crdList{crd("a", "v1")}, nil},
		"old not served":    {crdList{crd("a", "v1")}, crdList{crd("a", "v2", "-v1")}, crdList{crd("a", "v1", "v2")}, []string{"crd a: the old controller asks for v1, which the new one no longer serves"}},
		"old left out":      {crdList{crd("a", "v1")}, crdList{crd("a", "v2")}, crdList{crd("a", "v1")}, []string{"crd a: the old controller asks for v1, which the new one no longer serves"}},
		"stored anew":       {crdList{crd("a", "v1")}, crdList{crd("a", "v2", "v1")}, crdList{crd("a", "v1")}, []string{"crd a: the new one stores objects as v2, which the old one does not serve"}},
		"stored, and known": {crdList{crd("a", "v1", "v2")}, crdList{crd("a", "v2", "v1")}, crdList{crd("a", "v1", "v2")}, nil},
		"a new kind":        {crdList{crd("a", "v1")}, crdList{crd("a", "v1"), crd("b", "v1")}, crdList{crd("a", "v1")}, nil},
		"does not live":     {nil, crdList{crd("a", "v2")}, crdList{crd("a", "v1")}, nil},
		"left as it is":     {crdList{crd("a", "v1")}, nil, crdList{crd("a", "v1")}, nil},
		"1.8 from 1.14":     {crds(t, "1.8.6"), crds(t, "1.14.3"), crds(t, "1.8.6"), nil},
		"1.0 from 1.3":      {crds(t, "1.0.8"), crds(t, "1.3.3"), crds(t, "1.0.8"), nil},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, blocker := range WayBack(c.live, c.next, c.old) {
				got = append(got, blocker.String())
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func values(t *testing.T, text string) map[string]any {
	t.Helper()
	var v map[string]any
	if err := yaml.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// TestUnknown uses Karpenter's own values.yaml.
func TestUnknown(t *testing.T) {
	cases := map[string]struct {
		version, values string
		want            []string
	}{
		"none":                  {"1.14.3", ``, nil},
		"usual ones":            {"1.14.3", "replicas: 1\nsettings: {clusterName: a, interruptionQueue: a, featureGates: {nodeRepair: true}}\nlogLevel: debug\n", nil},
		"free maps":             {"1.14.3", "additionalAnnotations: {a: b}\nadditionalLabels: {a: b}\npodLabels: {a: b}\npodAnnotations: {a: b}\nserviceAccount: {annotations: {eks.amazonaws.com/role-arn: x}}\ncontroller: {resources: {requests: {cpu: 1}}}\ndnsConfig: {options: [{name: ndots}]}\nserviceMonitor: {endpointConfig: {interval: 1m}}\n", nil},
		"free lists":            {"1.14.3", "tolerations: [{operator: Exists}]\nextraVolumes: [{name: a}]\ncontroller: {env: [{name: A, value: b}], envFrom: [{secretRef: {name: a}}]}\ntopologySpreadConstraints: []\nimagePullSecrets: [{name: a}]\n", nil},
		"handed on as they are": {"1.14.3", "nodeSelector: {role: system}\naffinity: {podAffinity: {}}\nstrategy: {type: Recreate, rollingUpdate: null}\npodSecurityContext: {runAsUser: 1}\ncontroller: {securityContext: {runAsNonRoot: true}}\n", nil},
		"null by default":       {"1.14.3", "terminationGracePeriodSeconds: 30\nserviceMonitor: {sampleLimit: 5}\n", nil},
		"a list as a map":       {"1.14.3", "initContainers: [{name: a}]\n", nil},
		"helm's own":            {"1.14.3", "global: {imageRegistry: a}\n", nil},
		"a letter":              {"1.14.3", "setings: {clusterName: a}\n", []string{"setings: the chart has no such value; did you mean settings?"}},
		"a letter, inside":      {"1.14.3", "settings: {interuptionQueue: a}\n", []string{"settings.interuptionQueue: the chart has no such value; did you mean settings.interruptionQueue?"}},
		"another place":         {"1.14.3", "clusterName: a\nresources: {}\n", []string{"clusterName: the chart has no such value; did you mean settings.clusterName?", "resources: the chart has no such value; did you mean controller.resources?"}},
		"another case":          {"1.14.3", "settings: {clustername: a}\n", []string{"settings.clustername: the chart has no such value; did you mean settings.clusterName?"}},
		"two places":            {"1.14.3", "port: 1\n", []string{"port: the chart has no such value"}},
		"nothing near":          {"1.14.3", "istio: {enabled: true}\npodDisruptionBudget: {minAvailable: 1}\n", []string{"istio: the chart has no such value", "podDisruptionBudget.minAvailable: the chart has no such value"}},
		"a map for one value":   {"1.14.3", "settings: {interruptionQueue: {name: a}}\n", []string{"settings.interruptionQueue.name: the chart has no such value"}},
		"renamed":               {"1.14.3", "settings: {aws: {clusterName: a, interruptionQueueName: b, enablePodENI: true}}\n", []string{"settings.aws.clusterName: the chart has no such value; did you mean settings.clusterName?", "settings.aws.enablePodENI is gone since 0.33.0: it is always on", "settings.aws.interruptionQueueName: the chart has no such value; did you mean settings.interruptionQueue?"}},
		"renamed twice":         {"1.14.3", "controller: {outputPaths: [stdout]}\n", []string{"controller.outputPaths: the chart has no such value; did you mean logOutputPaths?"}},
		"webhooks, of old":      {"1.14.3", "webhook: {enabled: false, metrics: {port: 1}}\n", []string{"webhook.enabled is gone since 1.1.0: the controller has no webhooks any more", "webhook.metrics.port is gone since 1.1.0: the controller has no webhooks any more"}},
		"webhooks, then":        {"1.0.8", "webhook: {enabled: false, metrics: {port: 1}}\n", nil},
		"a gate to come":        {"1.6.3", "settings: {featureGates: {nodeOverlay: true, reservedCapacity: false}}\n", []string{"settings.featureGates.nodeOverlay: the chart has no such value"}},
		"a gate that has come":  {"1.14.3", "settings: {featureGates: {nodeOverlay: true}}\n", nil},
		"a setting to come":     {"1.0.8", "settings: {eksControlPlane: true, preferencePolicy: Ignore}\n", []string{"settings.eksControlPlane: the chart has no such value", "settings.preferencePolicy: the chart has no such value"}},
		"drift":                 {"1.0.8", "settings: {featureGates: {drift: true}}\n", []string{"settings.featureGates.drift is gone since 1.0.0: drift is always on"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, u := range Unknown(values(t, c.values), chartValues(t, c.version)) {
				got = append(got, u.String())
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestGone(t *testing.T) {
	cases := map[string]struct {
		values, from, to string
		want             []string
	}{
		"none used":     {"replicas: 1\n", "1.0.8", "1.14.3", nil},
		"used":          {"webhook: {enabled: true}\n", "1.0.8", "1.14.3", []string{"webhook.enabled is gone since 1.1.0: the controller has no webhooks any more"}},
		"gone before":   {"webhook: {enabled: true}\n", "1.1.0", "1.14.3", nil},
		"not gone yet":  {"webhook: {enabled: true}\n", "1.0.3", "1.0.8", nil},
		"renamed":       {"settings: {aws: {clusterName: a}}\n", "0.32.0", "0.37.7", []string{"settings.aws.clusterName is settings.clusterName since 0.33.0"}},
		"a variable":    {"controller: {env: [{name: A}, {name: DISABLE_WEBHOOK, value: 'true'}]}\n", "1.0.8", "1.1.0", []string{"controller.env[DISABLE_WEBHOOK] is gone since 1.1.0: the controller has no webhooks any more"}},
		"of other form": {"webhook: yes\ncontroller: [1]\nsettings: null\n", "0.27.0", "1.14.3", nil},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			found, err := Gone(values(t, c.values), c.from, c.to)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, s := range found {
				got = append(got, s.String())
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestUnlike(t *testing.T) {
	with := func(changes ...func(*apiextensionsv1.CustomResourceDefinition)) crdList {
		c := crd("nodepools.karpenter.sh", "v1")
		c.Spec.Versions[0].Schema = &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
			Type: "integer", Default: &apiextensionsv1.JSON{Raw: []byte(`{"a": 1}`)},
		}}
		for _, change := range changes {
			change(c)
		}
		return crdList{c}
	}
	const differs = "crd nodepools.karpenter.sh is not that"
	for name, c := range map[string]struct {
		live crdList
		want string
	}{
		"the same": {live: with()},
		"JSON with other spaces": {live: with(func(c *apiextensionsv1.CustomResourceDefinition) {
			c.Spec.Versions[0].Schema.OpenAPIV3Schema.Default.Raw = []byte(`{"a":1}`)
		})},
		"with annotations": {live: with(func(c *apiextensionsv1.CustomResourceDefinition) { c.Annotations = map[string]string{"a": "b"} })},
		"beside another":   {live: append(with(), crd("nodeclaims.karpenter.sh", "v1"))},
		"not there":        {live: crdList{crd("nodeclaims.karpenter.sh", "v1")}, want: "crd nodepools.karpenter.sh is not there yet: that"},
		"another default": {live: with(func(c *apiextensionsv1.CustomResourceDefinition) {
			c.Spec.Versions[0].Schema.OpenAPIV3Schema.Default.Raw = []byte(`{"a":2}`)
		}), want: differs},
		"no schema":        {live: with(func(c *apiextensionsv1.CustomResourceDefinition) { c.Spec.Versions[0].Schema = nil }), want: differs},
		"another version":  {live: with(func(c *apiextensionsv1.CustomResourceDefinition) { c.Spec.Versions[0].Name = "v2" }), want: differs},
		"one more version": {live: crdList{crd("nodepools.karpenter.sh", "v1", "v1beta1")}, want: differs},
		"a version that is served": {live: with(func(c *apiextensionsv1.CustomResourceDefinition) {
			c.Spec.Versions[0].Served = !c.Spec.Versions[0].Served
		}), want: differs},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Unlike(c.live, with()); got != c.want {
				t.Errorf("Unlike() = %q, want %q", got, c.want)
			}
		})
	}
}

// TestCheckTested: versions newer than the tables are named, until exactly these are accepted.
func TestCheckTested(t *testing.T) {
	cases := map[string]struct {
		kubernetes, karpenter string
		accepted              []string
		want                  []string
	}{
		"known":                         {kubernetes: "v1.37.2", karpenter: newest},
		"a patch of the newest":         {kubernetes: "1.37", karpenter: "1.15.9"},
		"an older karpenter":            {kubernetes: "1.36", karpenter: "1.8.6"},
		"kubernetes":                    {kubernetes: "v1.99.0-eks-1", karpenter: newest, want: []string{"kubernetes 1.99"}},
		"kubernetes, accepted":          {kubernetes: "v1.99.0-eks-1", karpenter: newest, accepted: []string{"kubernetes 1.99"}},
		"another kubernetes, accepted":  {kubernetes: "v1.99.0", karpenter: newest, accepted: []string{"kubernetes 1.98"}, want: []string{"kubernetes 1.99"}},
		"karpenter":                     {kubernetes: "1.36", karpenter: "1.99.0", want: []string{"karpenter 1.99.0"}},
		"karpenter, accepted":           {kubernetes: "1.36", karpenter: "1.99.0", accepted: []string{"karpenter 1.99.0"}},
		"another patch, accepted":       {kubernetes: "1.36", karpenter: "1.99.1", accepted: []string{"karpenter 1.99.0"}, want: []string{"karpenter 1.99.1"}},
		"both":                          {kubernetes: "1.99", karpenter: "2.0.0", want: []string{"karpenter 2.0.0", "kubernetes 1.99"}},
		"a fork":                        {kubernetes: "1.36", karpenter: "1.14.0+acme.3", want: []string{"karpenter 1.14.0+acme.3"}},
		"a fork, accepted":              {kubernetes: "1.36", karpenter: "1.14.0+acme.3", accepted: []string{"karpenter 1.14.0+acme.3"}},
		"another fork, accepted":        {kubernetes: "1.36", karpenter: "1.14.0+acme.4", accepted: []string{"karpenter 1.14.0+acme.3"}, want: []string{"karpenter 1.14.0+acme.4"}},
		"its release, accepted":         {kubernetes: "1.36", karpenter: "1.14.0+acme.3", accepted: []string{"karpenter 1.14.0"}, want: []string{"karpenter 1.14.0+acme.3"}},
		"a fork, on another kubernetes": {kubernetes: "1.99", karpenter: "1.14.0+acme.3", want: []string{"karpenter 1.14.0+acme.3", "kubernetes 1.99"}},
		"both, one accepted":            {kubernetes: "1.99", karpenter: "2.0.0", accepted: []string{"karpenter 2.0.0"}, want: []string{"kubernetes 1.99"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			err := CheckTested(c.kubernetes, c.karpenter, c.accepted)
			var untested *UntestedError
			if err != nil && !errors.As(err, &untested) {
				t.Fatal(err)
			}
			var names []string
			if untested != nil {
				names = untested.Names
				if untested.Unreleased != (len(names) == 1 && strings.Contains(names[0], "+")) || untested.Unreleased == strings.Contains(err.Error(), "use a newer plumbline") {
					t.Errorf("unreleased: %t: %v", untested.Unreleased, err)
				}
				if line := "acceptUntested: [" + strings.Join(names, ", ") + "]"; !strings.Contains(err.Error(), line) {
					t.Errorf("%q does not say %q", err, line)
				}
			}
			if diff := cmp.Diff(c.want, names); diff != "" {
				t.Error(diff)
			}
		})
	}
	if err := CheckTested("main", newest, nil); err == nil {
		t.Error("no error for a Kubernetes without a version")
	}
}

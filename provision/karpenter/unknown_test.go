package karpenter

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

func values(t *testing.T, text string) map[string]any {
	t.Helper()
	var v map[string]any
	if err := yaml.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// TestUnknown against Karpenter's own values.yaml.
func TestUnknown(t *testing.T) {
	cases := map[string]struct {
		version, values string
		want            []string
	}{
		"none":                  {"1.14.1", ``, nil},
		"usual ones":            {"1.14.1", "replicas: 1\nsettings: {clusterName: a, interruptionQueue: a, featureGates: {nodeRepair: true}}\nlogLevel: debug\n", nil},
		"free maps":             {"1.14.1", "additionalAnnotations: {a: b}\nadditionalLabels: {a: b}\npodLabels: {a: b}\npodAnnotations: {a: b}\nserviceAccount: {annotations: {eks.amazonaws.com/role-arn: x}}\ncontroller: {resources: {requests: {cpu: 1}}}\ndnsConfig: {options: [{name: ndots}]}\nserviceMonitor: {endpointConfig: {interval: 1m}}\n", nil},
		"free lists":            {"1.14.1", "tolerations: [{operator: Exists}]\nextraVolumes: [{name: a}]\ncontroller: {env: [{name: A, value: b}], envFrom: [{secretRef: {name: a}}]}\ntopologySpreadConstraints: []\nimagePullSecrets: [{name: a}]\n", nil},
		"handed on as they are": {"1.14.1", "nodeSelector: {role: system}\naffinity: {podAffinity: {}}\nstrategy: {type: Recreate, rollingUpdate: null}\npodSecurityContext: {runAsUser: 1}\ncontroller: {securityContext: {runAsNonRoot: true}}\n", nil},
		"null by default":       {"1.14.1", "terminationGracePeriodSeconds: 30\nserviceMonitor: {sampleLimit: 5}\n", nil},
		"a list as a map":       {"1.14.1", "initContainers: [{name: a}]\n", nil},
		"helm's own":            {"1.14.1", "global: {imageRegistry: a}\n", nil},
		"a letter":              {"1.14.1", "setings: {clusterName: a}\n", []string{"setings: the chart has no such value; did you mean settings?"}},
		"a letter, inside":      {"1.14.1", "settings: {interuptionQueue: a}\n", []string{"settings.interuptionQueue: the chart has no such value; did you mean settings.interruptionQueue?"}},
		"another place":         {"1.14.1", "clusterName: a\nresources: {}\n", []string{"clusterName: the chart has no such value; did you mean settings.clusterName?", "resources: the chart has no such value; did you mean controller.resources?"}},
		"another case":          {"1.14.1", "settings: {clustername: a}\n", []string{"settings.clustername: the chart has no such value; did you mean settings.clusterName?"}},
		"two places":            {"1.14.1", "port: 1\n", []string{"port: the chart has no such value"}},
		"nothing near":          {"1.14.1", "istio: {enabled: true}\npodDisruptionBudget: {minAvailable: 1}\n", []string{"istio: the chart has no such value", "podDisruptionBudget.minAvailable: the chart has no such value"}},
		"a map for one value":   {"1.14.1", "settings: {interruptionQueue: {name: a}}\n", []string{"settings.interruptionQueue.name: the chart has no such value"}},
		"renamed":               {"1.14.1", "settings: {aws: {clusterName: a, interruptionQueueName: b, enablePodENI: true}}\n", []string{"settings.aws.clusterName: the chart has no such value; did you mean settings.clusterName?", "settings.aws.enablePodENI is gone since 0.33.0: it is always on", "settings.aws.interruptionQueueName: the chart has no such value; did you mean settings.interruptionQueue?"}},
		"renamed twice":         {"1.14.1", "controller: {outputPaths: [stdout]}\n", []string{"controller.outputPaths: the chart has no such value; did you mean logOutputPaths?"}},
		"webhooks, of old":      {"1.14.1", "webhook: {enabled: false, metrics: {port: 1}}\n", []string{"webhook.enabled is gone since 1.1.0: the controller has no webhooks any more", "webhook.metrics.port is gone since 1.1.0: the controller has no webhooks any more"}},
		"webhooks, then":        {"1.0.8", "webhook: {enabled: false, metrics: {port: 1}}\n", nil},
		"a gate to come":        {"1.6.3", "settings: {featureGates: {nodeOverlay: true, reservedCapacity: false}}\n", []string{"settings.featureGates.nodeOverlay: the chart has no such value"}},
		"a gate that has come":  {"1.14.1", "settings: {featureGates: {nodeOverlay: true}}\n", nil},
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
		"none used":     {"replicas: 1\n", "1.0.8", "1.14.1", nil},
		"used":          {"webhook: {enabled: true}\n", "1.0.8", "1.14.1", []string{"webhook.enabled is gone since 1.1.0: the controller has no webhooks any more"}},
		"gone before":   {"webhook: {enabled: true}\n", "1.1.0", "1.14.1", nil},
		"not gone yet":  {"webhook: {enabled: true}\n", "1.0.3", "1.0.8", nil},
		"renamed":       {"settings: {aws: {clusterName: a}}\n", "0.32.0", "0.37.7", []string{"settings.aws.clusterName is settings.clusterName since 0.33.0"}},
		"a variable":    {"controller: {env: [{name: A}, {name: DISABLE_WEBHOOK, value: 'true'}]}\n", "1.0.8", "1.1.0", []string{"controller.env[DISABLE_WEBHOOK] is gone since 1.1.0: the controller has no webhooks any more"}},
		"of other form": {"webhook: yes\ncontroller: [1]\nsettings: null\n", "0.27.0", "1.14.1", nil},
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

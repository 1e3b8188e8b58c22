package allowance

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

// TestSecretsThatWouldLeave: a committer chooses which labelled Secret goes into which value,
// and is root on the nodes that some of them go to.
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

// TestWhatLeavesIsListed: a value that leaves the controller leaves it as a variable as well,
// and each is one that a commit may set.
func TestWhatLeavesIsListed(t *testing.T) {
	for at := range leaving {
		if _, is := open[at]; !is && !closed[at].own {
			t.Errorf("%s is no open value", at)
		}
	}
	for at, is := range open {
		free := slices.Contains([]string{word.is, endpoint.is}, is.is)
		if _, leaves := leaving[at]; free && !leaves && (strings.HasPrefix(at, "settings.") || strings.HasPrefix(at, environment)) {
			t.Errorf("%s takes any text: say where it goes", at)
		}
	}
}

package allowance

import (
	"slices"
	"strings"
	"testing"

	"github.com/plumbline-dev/plumbline/contradiction"
)

// TestVariablesOfAChart: with any chart, the controller must run for the cluster of plumbline.yaml, and a chart in Git
// may set only variables that a released chart has or a value could set.
func TestVariablesOfAChart(t *testing.T) {
	const deployment, container = "Deployment karpenter", "/spec/template/spec/containers/0"
	set := func(variable string) string {
		return "[{op: add, path: " + container + "/env/0, value: " + variable + "}]"
	}
	real := realChart(t, nil)
	for name, c := range map[string]struct {
		patch string
		// anyChart reports whether it is refused in released charts, too.
		anyChart bool
		// want is in the error, entry is what allows it; empty if nothing does.
		want, entry string
	}{
		"another cluster":                {set("{name: CLUSTER_NAME, value: victim}"), true, `the variable CLUSTER_NAME is "victim" and cluster.name is "any"`, ""},
		"no cluster":                     {set("{name: CLUSTER_NAME}"), true, `CLUSTER_NAME is ""`, ""},
		"a cluster by reference":         {set("{name: CLUSTER_NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}"), true, `CLUSTER_NAME is "given by reference"`, ""},
		"another region":                 {set("{name: AWS_REGION, value: us-east-1}"), true, "where plumbline does not look for them", ""},
		"another queue":                  {set("{name: INTERRUPTION_QUEUE, value: other}"), true, "both cannot hold", ""},
		"no number of replicas":          {"[{op: add, path: /spec/replicas, value: 0}]", true, "no replica", "replicas"},
		"paused":                         {"[{op: add, path: /spec/paused, value: true}]", true, "is paused", ""},
		"a file in the status":           {"[{op: add, path: " + container + "/terminationMessagePath, value: /var/run/secrets/token}]", true, "shown in the status", ""},
		"the usual file":                 {"[{op: add, path: " + container + "/terminationMessagePath, value: /dev/termination-log}]", false, "", ""},
		"an endpoint of the wrong shape": {set("{name: CLUSTER_ENDPOINT, value: 'a b'}"), true, "which is not a URL", "controller.env[CLUSTER_ENDPOINT]"},
		"another variable's value":       {set("{name: LOG_LEVEL, value: $(TOKEN)}"), true, "which is not one of", "controller.env[LOG_LEVEL]"},
		"that of one of the charts'":     {set("{name: METRICS_PORT, value: $(TOKEN)}"), true, "which is not a word", "controller.env[METRICS_PORT]"},
		"a variable of no chart":         {set("{name: DISABLE_LEADER_ELECTION, value: 'true'}"), false, "no released chart has", "controller.env[DISABLE_LEADER_ELECTION]"},
		"a role":                         {set("{name: ASSUME_ROLE_ARN, value: x}"), true, "no released chart has", "controller.env[ASSUME_ROLE_ARN]"},
		"a host, of no chart":            {set("{name: WEBHOOK_HOST, value: evil.example.com}"), true, "no released chart has", "controller.env[WEBHOOK_HOST]"},
		"an annotation":                  {set("{name: CLUSTER_ENDPOINT, valueFrom: {fieldRef: {fieldPath: \"metadata.annotations['a']\"}}}"), true, "can send the controller's credentials", "controller.env[CLUSTER_ENDPOINT]"},
		"a value that is open":           {set("{name: BATCH_MAX_DURATION, value: 10s}"), false, "", ""},
		"the same cluster once more":     {set("{name: CLUSTER_NAME, value: any}"), false, "", ""},
	} {
		for _, inGit := range []bool{true, false} {
			r := Rendered{
				Namespace: "kube-system", Version: "1.14.1", InGit: inGit, Objects: patched(t, real, deployment, c.patch),
				Cluster: contradiction.Cluster{Name: "any", Region: "any", InterruptionQueue: "queue"},
			}
			err := Refuse(Allowance{}.CheckObjects(r))
			if c.want == "" || !inGit && !c.anyChart {
				if err != nil {
					t.Errorf("%s, in Git %t: %v", name, inGit, err)
				}
				continue
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s, in Git %t: %v, want %q", name, inGit, err, c.want)
			}
			if c.entry == "" {
				continue
			}
			if left := (Allowance{Values: []string{c.entry}}).CheckObjects(r); len(left) > 0 {
				t.Errorf("%s, in Git %t, allowed: %v", name, inGit, Refuse(left))
			}
		}
	}
}

// TestAVariableTwice: a variable that the chart has must not be in controller.env, too: nothing decides which of them
// stays. The refusal names the value to set instead, and no entry of the NodeSync allows it.
func TestAVariableTwice(t *testing.T) {
	for name, instead := range map[string]string{
		"FEATURE_GATES": "settings.featureGates", "LOG_LEVEL": "logLevel", "LOG_OUTPUT_PATHS": "logOutputPaths",
		"MEMORY_LIMIT": "controller.resources.limits.memory", "BATCH_MAX_DURATION": "settings.batchMaxDuration",
		"CLUSTER_ENDPOINT": "settings.clusterEndpoint", "CLUSTER_NAME": "settings.clusterName", "RESERVED_ENIS": "settings.reservedENIs", "AWS_REGION": "",
	} {
		env := []any{map[string]any{"name": name, "value": "any"}}
		if instead == "" {
			env = append(env, env[0], env[0])
		}
		found := CheckTwice(realChart(t, map[string]any{
			"logOutputPaths": []any{"stdout"},
			"settings":       map[string]any{"clusterName": "any", "clusterEndpoint": "https://a.eks.amazonaws.com", "reservedENIs": "1"},
			"controller":     map[string]any{"image": map[string]any{"tag": "1.14.1"}, "env": env},
		}))
		want := "Deployment karpenter has the variable " + name + " twice, of which the API server keeps only one: "
		if instead != "" {
			want += "set values." + instead + " instead of controller.env[" + name + "]"
		} else {
			want += "set it only once"
		}
		if len(found) != 1 || !strings.HasPrefix(found[0].String(), want) || found[0].Field != "" || !found[0].Rendered {
			t.Errorf("%s: %v, want %q", name, found, want)
		}
	}
	if found := CheckTwice(realChart(t, nil)); found != nil {
		t.Errorf("the chart itself: %v", found)
	}
	for _, name := range FromCharts().Variables {
		own := []string{"KARPENTER_SERVICE", "KUBERNETES_MIN_VERSION", "SYSTEM_NAMESPACE"}
		if settingOf(name) == "" && !slices.Contains(own, name) {
			t.Errorf("no value of the chart is known that sets %s", name)
		}
	}
}

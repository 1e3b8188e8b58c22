package allowance

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

func read(t *testing.T, text string) map[string]any {
	t.Helper()
	values := map[string]any{}
	if err := yaml.Unmarshal([]byte(text), &values); err != nil {
		t.Fatal(err)
	}
	return values
}

// whatOf returns the paths of Refusals.
func whatOf(refusals []Refusal) []string {
	var what []string
	for _, refusal := range refusals {
		what = append(what, strings.TrimPrefix(refusal.What, "values."))
	}
	return what
}

func TestValuesThatMayComeFromGit(t *testing.T) {
	for name, text := range map[string]string{
		"none":          "",
		"replicas":      "replicas: 10",
		"settings":      "settings: {interruptionQueue: karpenter-prod, isolatedVPC: true, batchIdleDuration: 2s, vmMemoryOverheadPercent: 0.05, featureGates: {staticCapacity: true}}",
		"resources":     "controller: {resources: {requests: {cpu: 1, memory: 1Gi}, limits: {cpu: 500m, memory: 1Gi}}}",
		"scheduling":    "tolerations: [{operator: Exists}]\nnodeSelector: {eks.amazonaws.com/nodegroup: system}\npriorityClassName: system-node-critical\ntopologySpreadConstraints: []\naffinity: {podAntiAffinity: {}}",
		"logs":          "logLevel: debug\nlogOutputPaths: [stdout]\nlogErrorOutputPaths: [stderr]",
		"known env":     "controller: {env: [{name: AWS_REGION, value: eu-west-1}, {name: KUBE_CLIENT_QPS, value: \"50\"}]}",
		"monitoring":    "serviceMonitor: {enabled: true, additionalLabels: {release: prometheus}, endpointConfig: {interval: 30s}}\nservice: {annotations: {prometheus.io/scrape: \"true\"}}",
		"as by default": "serviceAccount: {create: true, name: karpenter, annotations: {}}\nhostNetwork: false\nextraVolumes: []\nfullnameOverride: karpenter\npodSecurityContext: {}",
		// values.yaml of each chart contains it, and a commit may repeat the whole file.
		"node affinity": "affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: karpenter.sh/nodepool, operator: DoesNotExist}]}]}}}",
		"null":          "settings: {interruptionQueue: null}\ntopologySpreadConstraints: null",
		"a bundle":      "settings: {clusterEndpoint: \"https://ABC.gr7.eu-west-1.eks.amazonaws.com\"}",
	} {
		t.Run(name, func(t *testing.T) {
			if found := (Allowance{}).CheckValues(read(t, text)); len(found) > 0 {
				t.Errorf("refused: %v", found)
			}
		})
	}
}

// TestABundleOfAuthoritiesReplacesEveryNode: the CA bundle is part of Karpenter's hash of each EC2NodeClass, so only
// the cluster's own, which the controller uses anyway, may come from Git.
func TestABundleOfAuthoritiesReplacesEveryNode(t *testing.T) {
	const values = "settings: {clusterCABundle: %s}\ncontroller: {env: [{name: CLUSTER_CA_BUNDLE, value: %[1]s}]}"
	both := []string{"controller.env[CLUSTER_CA_BUNDLE]", "settings.clusterCABundle"}
	for name, c := range map[string]struct {
		allow  Allowance
		bundle string
		want   []string
	}{
		"none":                                 {Allowance{}, `""`, nil},
		"the cluster's own":                    {Allowance{CABundle: "b3du"}, "b3du", nil},
		"another":                              {Allowance{CABundle: "b3du"}, "b3RoZXI=", both},
		"one where nobody knows the cluster's": {Allowance{}, "b3du", both},
		"another that is allowed":              {Allowance{Values: both}, "b3RoZXI=", nil},
	} {
		t.Run(name, func(t *testing.T) {
			found := c.allow.CheckValues(read(t, fmt.Sprintf(values, c.bundle)))
			if diff := cmp.Diff(c.want, whatOf(found)); diff != "" {
				t.Errorf("refused (-want +got):\n%s", diff)
			}
			for _, refusal := range found {
				if !strings.Contains(refusal.String(), "replaces every node") {
					t.Error(refusal)
				}
			}
		})
	}
}

func TestValuesThatMayNot(t *testing.T) {
	for name, c := range map[string]struct {
		values string
		want   []string
	}{
		"a privileged sidecar":                {"controller: {sidecarContainer: [{name: root, image: evil, securityContext: {privileged: true}}]}", []string{"controller.sidecarContainer"}},
		"the node's root":                     {"extraVolumes: [{name: host, hostPath: {path: /}}]\ncontroller: {extraVolumeMounts: [{name: host, mountPath: /host}]}", []string{"controller.extraVolumeMounts", "extraVolumes"}},
		"another image":                       {"controller: {image: {repository: evil/karpenter, tag: x, digest: \"\"}}", []string{"controller.image.digest", "controller.image.repository", "controller.image.tag"}},
		"an image by map":                     {"controller: {image: evil}", []string{"controller.image"}},
		"another identity":                    {"serviceAccount: {create: false, name: clusterrole-aggregation-controller}", []string{"serviceAccount.create", "serviceAccount.name"}},
		"no service account by an empty text": {"serviceAccount: {create: \"\"}", []string{"serviceAccount.create"}},
		"no service account by an empty list": {"serviceAccount: {create: []}", []string{"serviceAccount.create"}},
		"another role":                        {"serviceAccount: {annotations: {eks.amazonaws.com/role-arn: \"arn:aws:iam::1:role/admin\"}}", []string{"serviceAccount.annotations[eks.amazonaws.com/role-arn]"}},
		"a role by annotations of all":        {"additionalAnnotations: {eks.amazonaws.com/role-arn: \"arn:aws:iam::1:role/admin\"}", []string{"additionalAnnotations[eks.amazonaws.com/role-arn]"}},
		"a role by kube2iam":                  {"podAnnotations: {iam.amazonaws.com/role: admin, prometheus.io/scrape: \"true\"}", []string{"podAnnotations[iam.amazonaws.com/role]"}},
		"an injector":                         {"podAnnotations: {sidecar.istio.io/proxyImage: evil}\npodLabels: {sidecar.istio.io/inject: \"true\"}", []string{"podAnnotations[sidecar.istio.io/proxyImage]", "podLabels[sidecar.istio.io/inject]"}},
		"aggregation":                         {"additionalLabels: {rbac.authorization.k8s.io/aggregate-to-view: \"true\"}", []string{"additionalLabels[rbac.authorization.k8s.io/aggregate-to-view]"}},
		"a Secret":                            {"controller: {envFrom: [{secretRef: {name: theirs}}]}", []string{"controller.envFrom"}},
		"a Secret in a known variable":        {"controller: {env: [{name: AWS_REGION, valueFrom: {secretKeyRef: {name: theirs, key: k}}}]}", []string{"controller.env[AWS_REGION]"}},
		"another STS":                         {"controller: {env: [{name: AWS_ENDPOINT_URL_STS, value: \"https://evil\"}, {name: KUBERNETES_SERVICE_HOST, value: evil}]}", []string{"controller.env[AWS_ENDPOINT_URL_STS]", "controller.env[KUBERNETES_SERVICE_HOST]"}},
		"a variable twice":                    {"controller: {env: [{name: AWS_REGION, value: a}, {name: HTTPS_PROXY, value: b}]}", []string{"controller.env[HTTPS_PROXY]"}},
		"a nameless variable":                 {"controller: {env: [{value: a}, evil]}", []string{"controller.env", "controller.env"}},
		"more rules":                          {"additionalClusterRoleRules: [{apiGroups: [\"*\"], resources: [\"*\"], verbs: [\"*\"]}]", []string{"additionalClusterRoleRules"}},
		"the node's network":                  {"hostNetwork: true", []string{"hostNetwork"}},
		"the security context":                {"podSecurityContext: {runAsUser: 0}\ncontroller: {securityContext: {seLinuxOptions: {type: spc_t}}}", []string{"controller.securityContext.seLinuxOptions", "podSecurityContext"}},
		"no security context":                 {"podSecurityContext: null", []string{"podSecurityContext"}},
		"other names":                         {"nameOverride: coredns\nfullnameOverride: coredns\npodDisruptionBudget: {name: coredns}", []string{"fullnameOverride", "nameOverride", "podDisruptionBudget.name"}},
		"init containers":                     {"initContainers: [{name: a, image: b}]", []string{"initContainers"}},
		"a device":                            {"controller: {resources: {limits: {smarter-devices/fuse: 1}}}", []string{"controller.resources.limits[smarter-devices/fuse]"}},
		"claims of devices":                   {"controller: {resources: {claims: [{name: a}]}}", []string{"controller.resources.claims"}},
		"a resolver":                          {"dnsPolicy: None\ndnsConfig: {nameservers: [6.6.6.6]}", []string{"dnsConfig.nameservers", "dnsPolicy"}},
		"Prometheus's token":                  {"serviceMonitor: {relabelings: [{targetLabel: __address__, replacement: evil}], endpointConfig: {proxyUrl: \"http://evil\"}}", []string{"serviceMonitor.endpointConfig.proxyUrl", "serviceMonitor.relabelings"}},
		"a node of its own":                   {"affinity: null\n", []string{"affinity"}},
		"Karpenter's own nodes":               {"affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: karpenter.sh/nodepool, operator: Exists}]}]}}}", []string{"affinity.nodeAffinity"}},
		"all settings away":                   {"settings: null", []string{"settings"}},
		"a template":                          {"settings: {interruptionQueue: '{{ .Values | toYaml }}'}", []string{"settings.interruptionQueue"}},
		"YAML in a text":                      {"settings: {batchIdleDuration: \"1s\\\"\\n          envFrom: [{secretRef: {name: theirs}}]\\n#\"}", []string{"settings.batchIdleDuration"}},
		"more pods than there is room for":    {"replicas: 11", []string{"replicas"}},
		"fewer pods than none":                {"replicas: -1", []string{"replicas"}},
		"YAML in a number":                    {"replicas: \"1\\n  template: {}\"", []string{"replicas"}},
		"YAML in a word":                      {"dnsPolicy: \"Default\\n      hostPID: true\"\ncontroller: {containerName: \"a\\n          securityContext: {privileged: true}\"}", []string{"controller.containerName", "dnsPolicy"}},
		"a log in a file":                     {"logOutputPaths: [/host/etc/cron.d/evil]", []string{"logOutputPaths"}},
		"a quantity with a large exponent":    {"controller: {resources: {limits: {cpu: \"1e1000000000\"}}}", []string{"controller.resources.limits.cpu"}},
		"a quantity of many digits":           {"controller: {resources: {requests: {memory: \"" + strings.Repeat("9", 100) + "\"}}}", []string{"controller.resources.requests.memory"}},
		"what no chart has":                   {"hostPID: true\nsettings: {brandNew: 1}", []string{"hostPID", "settings.brandNew"}},
		"dots in a key":                       {"settings.clusterName: x\ncontroller: {resources.limits.cpu: 1}", []string{"controller[resources.limits.cpu]", "[settings.clusterName]"}},
	} {
		t.Run(name, func(t *testing.T) {
			found := (Allowance{}).CheckValues(read(t, c.values))
			if diff := cmp.Diff(c.want, whatOf(found), cmp.Transformer("sort", sorted)); diff != "" {
				t.Errorf("refused (-want +got):\n%s", diff)
			}
			var entries []string
			for _, refusal := range found {
				if refusal.Field != "" {
					entries = append(entries, refusal.Entry)
				}
			}
			for _, refusal := range (Allowance{Values: entries}).CheckValues(read(t, c.values)) {
				if refusal.Field != "" {
					t.Errorf("%s is refused although the entries %q allow it", refusal, entries)
				}
			}
		})
	}
}

func sorted(list []string) map[string]int {
	count := map[string]int{}
	for _, one := range list {
		count[one]++
	}
	return count
}

func TestTheRoleThatIsNamed(t *testing.T) {
	const arn = "arn:aws:iam::111122223333:role/karpenter"
	values := read(t, "serviceAccount: {annotations: {eks.amazonaws.com/role-arn: \""+arn+"\"}}")
	if found := (Allowance{ControllerRoles: []string{arn}}).CheckValues(values); len(found) > 0 {
		t.Errorf("refused: %v", found)
	}
	if found := (Allowance{ControllerRoles: []string{arn + "-other"}}).CheckValues(values); len(found) != 1 {
		t.Errorf("refused: %v", found)
	}
}

func TestARefusalHasNoValue(t *testing.T) {
	found := (Allowance{}).CheckValues(read(t, "replicas: swordfish\nextraVolumes: [swordfish]\nsettings: swordfish\nsettingz: swordfish"))
	if len(found) != 4 || strings.Contains((&RefusedError{Refusals: found}).Error(), "swordfish") {
		t.Errorf("%v", &RefusedError{Refusals: found})
	}
}

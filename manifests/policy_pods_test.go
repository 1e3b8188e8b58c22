package manifests

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apiserver/pkg/admission"

	"github.com/plumbline-dev/plumbline/provision/allowance"
)

// The parts of a Deployment that are changed.
const (
	ofDeployment = "/spec"
	ofPod        = "/spec/template/spec"
	ofContainer  = "/spec/template/spec/containers/0"
	ofSecurity   = ofContainer + "/securityContext"
)

// changes are values for a path of Karpenter's Deployment, in YAML: some that its charts have, and some that they do
// not have.
var changes = map[string][]string{
	ofDeployment + "/replicas":                {"1", "2", "10", "0", "11", "10000"},
	ofDeployment + "/paused":                  {"true"},
	ofDeployment + "/minReadySeconds":         {"5"},
	ofDeployment + "/revisionHistoryLimit":    {"3"},
	ofDeployment + "/progressDeadlineSeconds": {"600"},
	ofDeployment + "/strategy":                {"{type: Recreate}", "{rollingUpdate: {maxSurge: 25%}}", "{rollingUpdate: {maxSurge: 11}}", "{rollingUpdate: {maxSurge: 10}}", "{rollingUpdate: {maxSurge: 200%}}", "{rollingUpdate: {maxUnavailable: 1}}"},
	"/spec/template/metadata/labels/team":     {"a"},
	"/spec/template/metadata/annotations":     {"{prometheus.io/scrape: 'true'}", "{checksum/a: b}", "{iam.amazonaws.com/role: admin}", "{karpenter.sh/a: b}"},
	"/spec/template/metadata/finalizers":      {"[a.example.com/b]"},
	"/spec/template/metadata/ownerReferences": {"[{apiVersion: v1, kind: Namespace, name: none, uid: a}]"},
	"/metadata/ownerReferences":               {"[{apiVersion: v1, kind: Namespace, name: none, uid: a}]"},
	"/metadata/finalizers":                    {"[a.example.com/b]"},
	"/metadata/labels/team":                   {"a"},
	ofPod + "/serviceAccountName":             {"karpenter", "default"},
	ofPod + "/serviceAccount":                 {"karpenter", "default"},
	ofPod + "/automountServiceAccountToken":   {"true", "false"},
	ofPod + "/enableServiceLinks":             {"false"},
	ofPod + "/restartPolicy":                  {"Always"},
	ofPod + "/terminationGracePeriodSeconds":  {"30"},
	ofPod + "/priorityClassName":              {"system-node-critical"},
	ofPod + "/schedulerName":                  {"default-scheduler"},
	ofPod + "/dnsPolicy":                      {"ClusterFirst", "Default", "None"},
	ofPod + "/dnsConfig":                      {"{options: [{name: ndots, value: '1'}]}", "{nameservers: [6.6.6.6]}", "{searches: [evil]}"},
	ofPod + "/hostAliases":                    {"[]", "[{ip: 6.6.6.6, hostnames: [sts.amazonaws.com]}]"},
	ofPod + "/nodeName":                       {"theirs"},
	ofPod + "/nodeSelector":                   {"{a: b}"},
	ofPod + "/runtimeClassName":               {"theirs"},
	ofPod + "/resourceClaims":                 {"[{name: a, resourceClaimName: b}]"},
	ofPod + "/shareProcessNamespace":          {"true"},
	ofPod + "/hostUsers":                      {"false"},
	ofPod + "/hostname":                       {"a"},
	ofPod + "/activeDeadlineSeconds":          {"60"},
	ofPod + "/readinessGates":                 {"[{conditionType: a/b}]"},
	ofPod + "/hostNetwork":                    {"true", "false"},
	ofPod + "/hostPID":                        {"true", "false"},
	ofPod + "/hostIPC":                        {"true", "false"},
	ofPod + "/tolerations":                    {"[{operator: Exists}]", "[]"},
	ofPod + "/affinity/nodeAffinity":          {"{}", "{requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: karpenter.sh/nodepool, operator: DoesNotExist}]}]}}", "{requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: karpenter.sh/nodepool, operator: Exists}]}]}}", "{requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: karpenter.sh/nodepool, operator: DoesNotExist}]}, {matchFields: [{key: metadata.name, operator: In, values: [a]}]}]}}"},
	ofPod + "/imagePullSecrets":               {"[]", "[{name: a}]"},
	ofPod + "/volumes":                        {"[]", "[{name: a, emptyDir: {}}]", "[{name: a, configMap: {name: ca}}]", "[{name: a, secret: {secretName: a}}]", "[{name: a, hostPath: {path: /}}]"},
	ofPod + "/initContainers":                 {"[]", "[{name: b, image: 'public.ecr.aws/karpenter/controller:1.14.1'}]"},
	ofPod + "/containers/1":                   {"{name: b, image: 'public.ecr.aws/karpenter/controller:1.14.1', securityContext: {allowPrivilegeEscalation: false, runAsNonRoot: true, capabilities: {drop: [ALL]}}}"},
	ofPod + "/securityContext":                {"{}", "{fsGroup: 65532}", "{seccompProfile: {type: RuntimeDefault}}", "{seccompProfile: {type: Unconfined}}", "{runAsUser: 0, seccompProfile: {type: RuntimeDefault}}", "{sysctls: [{name: kernel.shm_rmid_forced, value: '1'}], seccompProfile: {type: RuntimeDefault}}", "{seLinuxOptions: {level: s0}, seccompProfile: {type: RuntimeDefault}}", "{windowsOptions: {hostProcess: true}, seccompProfile: {type: RuntimeDefault}}"},
	ofContainer + "/image":                    {"public.ecr.aws/karpenter/controller:1.14.1", "evil/karpenter:1.14.1", "public.ecr.aws/karpenter/controller-evil:1.14.1", "'public.ecr.aws/karpenter/controller:1.14.1@sha256:" + strings.Repeat("a", 64) + "'", "'public.ecr.aws/karpenter/controller:1.14.1@sha256:short'", "public.ecr.aws/karpenter/controller"},
	ofContainer + "/imagePullPolicy":          {"Always"},
	ofContainer + "/command":                  {"[sh]"},
	ofContainer + "/args":                     {"[--kubeconfig=/tmp/k]"},
	ofContainer + "/workingDir":               {"/tmp"},
	ofContainer + "/stdin":                    {"true"},
	ofContainer + "/lifecycle":                {"{postStart: {exec: {command: [sh]}}}"},
	ofContainer + "/envFrom":                  {"[]", "[{secretRef: {name: sh.helm.release.v1.karpenter.v999}}]", "[{configMapRef: {name: a}}]"},
	ofContainer + "/env/0":                    variables(),
	ofContainer + "/ports/0/hostPort":         {"80", "0"},
	ofContainer + "/ports/0/hostIP":           {"127.0.0.1"},
	ofContainer + "/livenessProbe":            {"{exec: {command: [sh]}}", "{httpGet: {path: /healthz, port: http, scheme: HTTP}, periodSeconds: 10}", "{httpGet: {port: 80, host: 169.254.169.254}}", "{grpc: {port: 80}}", "{tcpSocket: {port: 22}}", "{httpGet: {port: 80, httpHeaders: [{name: Host, value: x}]}}"},
	ofContainer + "/startupProbe":             {"{tcpSocket: {host: 10.0.0.1, port: 22}}", "{httpGet: {path: /healthz, port: http}}"},
	ofContainer + "/resources":                {"{}", "{limits: {cpu: '1', memory: 1Gi}}", "{requests: {ephemeral-storage: 1Gi}}", "{limits: {smarter-devices/fuse: '1'}}", "{requests: {nvidia.com/gpu: '1'}, limits: {nvidia.com/gpu: '1'}}", "{claims: [{name: a}]}"},
	ofContainer + "/terminationMessagePath":   {"/dev/termination-log", "/var/run/secrets/token"},
	ofContainer + "/terminationMessagePolicy": {"File", "FallbackToLogsOnError"},
	ofContainer + "/volumeMounts":             {"[]", "[{name: a, mountPath: /etc/ssl/certs}]"},
	ofContainer + "/volumeDevices":            {"[{name: a, devicePath: /dev/a}]"},
	ofSecurity + "/privileged":                {"true", "false"},
	ofSecurity + "/allowPrivilegeEscalation":  {"true", "false"},
	ofSecurity + "/readOnlyRootFilesystem":    {"false"},
	ofSecurity + "/runAsNonRoot":              {"true", "false"},
	ofSecurity + "/runAsUser":                 {"0", "65532"},
	ofSecurity + "/procMount":                 {"Unmasked"},
	ofSecurity + "/seLinuxOptions":            {"{level: s0}", "{type: spc_t}"},
	ofSecurity + "/appArmorProfile":           {"{type: Unconfined}", "{type: RuntimeDefault}"},
	ofSecurity + "/seccompProfile":            {"{type: RuntimeDefault}", "{type: Unconfined}"},
	ofSecurity + "/windowsOptions":            {"{hostProcess: true}"},
	ofSecurity + "/capabilities":              {"{drop: [ALL]}", "{drop: [ALL], add: [NET_BIND_SERVICE]}", "{drop: [ALL], add: [SYS_ADMIN]}", "{}"},
}

// variables returns variables of the controller: each known one, and each that leads elsewhere, with values of every
// shape.
func variables() []string {
	names := []string{"HOME", "home", "KUBECONFIG", "GODEBUG", "LD_PRELOAD", "https_proxy", "HTTP_PROXY", "NO_PROXY", "AWS_ROLE_ARN", "AWS_ENDPOINT_URL_STS", "KUBERNETES_SERVICE_HOST", "SSL_CERT_DIR", "ENABLE_PROFILING", "LEADER_ELECTION_NAMESPACE", "X", "NEW_FLAG", "DISABLE_LEADER_ELECTION"}
	for name := range allowance.VariablePatterns() {
		names = append(names, name)
	}
	var all []string
	for _, name := range names {
		for _, value := range []string{
			"value: ''", "value: 'true'", "value: '10'", "value: 10s", "value: stdout", "value: 'https://example.com'", "value: 'A=true,B=false'", "value: a b", "value: $(TOKEN)", "value: debug", "value: '2000000000000'",
			"valueFrom: {secretKeyRef: {name: a, key: b}}", "valueFrom: {configMapKeyRef: {name: a, key: b}}", "valueFrom: {fieldRef: {fieldPath: metadata.namespace}}",
			"valueFrom: {fieldRef: {fieldPath: spec.nodeName}}", "valueFrom: {resourceFieldRef: {resource: limits.memory}}",
		} {
			all = append(all, "{name: "+name+", "+value+"}")
		}
	}
	return all
}

// TestThePolicyAndTheDaemonDecideAlike: of a thousand Deployments of Karpenter, the admission policies deny exactly
// those that the daemon refuses, with nothing allowed and with some values of the chart. What only the daemon knows is
// the same in all: the chart's version, its origin and the cluster.
func TestThePolicyAndTheDaemonDecideAlike(t *testing.T) {
	base := patched(t, realChart(t)["Deployment karpenter"], "[{op: add, path: "+ofContainer+"/image, value: 'public.ecr.aws/karpenter/controller:1.14.1'}]")
	var paths []string
	for path := range changes {
		paths = append(paths, path)
	}
	slices.Sort(paths)
	for _, allowed := range [][]string{nil, {"extraVolumes", "controller.extraVolumeMounts", "controller.env[X]"}, {"dnsConfig", "replicas", "controller.resources.limits", "controller.envFrom", "controller.env"}} {
		p := compileOf(t, allowing(t, build(t, "."), allowed))
		random := rand.New(rand.NewPCG(1, uint64(len(allowed))))
		denied, count := 0, 1000
		for i := range count {
			var patch []string
			for range 1 + random.IntN(3) {
				path := paths[random.IntN(len(paths))]
				if i%3 == 0 { // a third of them change a variable
					path = ofContainer + "/env/0"
				}
				values := changes[path]
				patch = append(patch, fmt.Sprintf("{op: add, path: %s, value: %s}", path, values[random.IntN(len(values))]))
			}
			text := "[" + strings.Join(patch, ", ") + "]"
			object := patched(t, base, text)
			refusals := allowance.Allowance{Values: allowed}.CheckObjects(allowance.Rendered{Namespace: "kube-system", Version: "1.14.1", Objects: []*unstructured.Unstructured{object}})
			for _, w := range []write{{operation: admission.Create}, {operation: admission.Update, old: base}} {
				w.resource, w.object = "deployments", object
				messages := p.denied(w)
				if (len(refusals) > 0) != (len(messages) > 0) {
					t.Errorf("allowed %v: %s of %s: the daemon refuses %v, and the policies deny %q", allowed, w.operation, text, refusals, messages)
				}
			}
			if len(refusals) > 0 {
				denied++
			}
		}
		if denied < count/10 || denied > count*9/10 {
			t.Errorf("allowed %v: %d of %d are denied, so that the test compares too little", allowed, denied, count)
		}
	}
}

// allowing returns the base with values in the policies' variable allowed.
func allowing(t *testing.T, objects []object, values []string) []object {
	t.Helper()
	quoted := make([]string, 0, len(values))
	for _, value := range values {
		quoted = append(quoted, "'"+value+"'")
	}
	const before = "- expression: '[]'\n    name: allowed\n"
	found := 0
	for i := range objects {
		text := string(objects[i].text)
		found += strings.Count(text, before)
		objects[i].text = []byte(strings.ReplaceAll(text, before, "- expression: \"["+strings.Join(quoted, ", ")+"]\"\n    name: allowed\n"))
	}
	if found != 2 {
		t.Fatalf("%d policies have the variable allowed, want 2", found)
	}
	return objects
}

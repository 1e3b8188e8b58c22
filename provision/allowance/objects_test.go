package allowance

import (
	"encoding/json"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/plumbline-dev/plumbline/provision/charts"
)

func object(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	read := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &read.Object); err != nil {
		t.Fatal(err)
	}
	return read
}

// module returns the folder of Karpenter's AWS provider that plumbline is built with.
func module(t *testing.T) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/aws/karpenter-provider-aws").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// realChart returns the rendered objects of Karpenter's own chart. A release has its own version as the image's tag; a
// module has that of the previous release.
func realChart(t *testing.T, values map[string]any) []*unstructured.Unstructured {
	t.Helper()
	found, err := charts.FromFolder(filepath.Join(module(t), "charts"))
	if err != nil {
		t.Fatal(err)
	}
	merged := map[string]any{"controller": map[string]any{"image": map[string]any{"tag": "1.14.1"}}}
	maps.Copy(merged, values)
	rendered, err := found.Controller(t.Context(), charts.Installation{Namespace: "kube-system", Cluster: "any", Region: "any", Values: merged})
	if err != nil {
		t.Fatal(err)
	}
	return rendered
}

func TestTheRealChartPasses(t *testing.T) {
	rendered := Rendered{Namespace: "kube-system", Version: "1.14.1", Objects: realChart(t, nil)}
	if len(rendered.Objects) < 12 {
		t.Fatalf("%d objects", len(rendered.Objects))
	}
	if found := (Allowance{}).CheckObjects(rendered); len(found) > 0 {
		t.Errorf("refused: %v", Refuse(found))
	}
}

// patched returns the chart with one object changed by a JSON patch, in YAML; or, without a name, with one more object.
func patched(t *testing.T, chart []*unstructured.Unstructured, name, text string) []*unstructured.Unstructured {
	t.Helper()
	if name == "" {
		return append([]*unstructured.Unstructured{object(t, text)}, chart...)
	}
	ops, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	patch, err := jsonpatch.DecodePatch(ops)
	if err != nil {
		t.Fatal(err)
	}
	all := make([]*unstructured.Unstructured, 0, len(chart))
	found := false
	for _, one := range chart {
		if one.GetKind()+" "+one.GetName() == name {
			found = true
			raw, err := json.Marshal(one.Object)
			if err != nil {
				t.Fatal(err)
			}
			if raw, err = patch.Apply(raw); err != nil {
				t.Fatal(err)
			}
			one = object(t, string(raw))
		}
		all = append(all, one)
	}
	if !found {
		t.Fatalf("the chart has no %s", name)
	}
	return all
}

func TestObjectsThatAreRefused(t *testing.T) {
	const deployment, pod, container = "Deployment karpenter", "/spec/template/spec", "/spec/template/spec/containers/0"
	add := func(path, value string) string { return "[{op: add, path: " + path + ", value: " + value + "}]" }
	// lowered is the entry for what the level of the Pod Security Standards allows.
	const lowered = "podSecurity"
	real := realChart(t, nil)
	for name, c := range map[string]struct {
		object, patch string
		// want is in the error, entry is what allows it; empty if nothing does.
		want, entry string
	}{
		"a hostPath":                        {deployment, add(pod+"/volumes", "[{name: host, hostPath: {path: /}}]"), "restricted volume types", lowered},
		"a privileged container":            {deployment, add(container+"/securityContext/privileged", "true"), "privileged", lowered},
		"a container that is root":          {deployment, add(container+"/securityContext/runAsNonRoot", "false"), "runAsNonRoot", lowered},
		"hostPID":                           {deployment, add(pod+"/hostPID", "true"), "host namespaces", lowered},
		"no seccomp profile":                {deployment, add(pod+"/securityContext", "{}"), "seccompProfile", lowered},
		"a Secret as a volume":              {deployment, add(pod+"/volumes", "[{name: s, secret: {secretName: theirs}}]"), "files of the node or of other objects", "extraVolumes"},
		"a mount":                           {deployment, add(container+"/volumeMounts", "[{name: s, mountPath: /s}]"), "files of the node or of other objects", "controller.extraVolumeMounts"},
		"another ServiceAccount":            {deployment, add(pod+"/serviceAccountName", "clusterrole-aggregation-controller"), "another ServiceAccount", ""},
		"no ServiceAccount":                 {deployment, "[{op: remove, path: " + pod + "/serviceAccountName}]", "another ServiceAccount", ""},
		"a ServiceAccount by its old field": {deployment, add(pod+"/serviceAccount", "default"), "another ServiceAccount", ""},
		"another image":                     {deployment, add(container+"/image", "evil.example.com/karpenter/controller:1"), "another image", "controller.image"},
		"an image of a longer name":         {deployment, add(container+"/image", "public.ecr.aws/karpenter/controller-evil:1"), "another image", "controller.image"},
		"a command":                         {deployment, add(container+"/command", "[sh]"), "another command", ""},
		"a hook of the container":           {deployment, add(container+"/lifecycle", "{postStart: {exec: {command: [sh]}}}"), "another command", ""},
		"a Secret":                          {deployment, add(container+"/envFrom", "[{secretRef: {name: theirs}}]"), "Secrets of the namespace", "controller.envFrom"},
		"a Secret in a variable":            {deployment, add(container+"/env/0", "{name: X, valueFrom: {secretKeyRef: {name: theirs, key: k}}}"), "variable X", "controller.env[X]"},
		"a Secret in a known variable":      {deployment, add(container+"/env/0", "{name: AWS_REGION, valueFrom: {secretKeyRef: {name: theirs, key: k}}}"), "variable AWS_REGION", "controller.env[AWS_REGION]"},
		"another STS":                       {deployment, add(container+"/env/0", "{name: AWS_ENDPOINT_URL_STS, value: 'https://evil'}"), "variable AWS_ENDPOINT_URL_STS", "controller.env[AWS_ENDPOINT_URL_STS]"},
		"another API server":                {deployment, add(container+"/env/0", "{name: KUBERNETES_SERVICE_HOST, value: evil}"), "variable KUBERNETES_SERVICE_HOST", "controller.env[KUBERNETES_SERVICE_HOST]"},
		"a proxy":                           {deployment, add(container+"/env/0", "{name: https_proxy, value: evil}"), "variable https_proxy", "controller.env[https_proxy]"},
		"a sidecar":                         {deployment, add("/spec/template/spec/containers/1", "{name: b, image: b, securityContext: {allowPrivilegeEscalation: false, runAsNonRoot: true, capabilities: {drop: [ALL]}}}"), "other containers", "controller.sidecarContainer"},
		"an init container":                 {deployment, add(pod+"/initContainers", "[{name: b, image: b, securityContext: {allowPrivilegeEscalation: false, runAsNonRoot: true, capabilities: {drop: [ALL]}}}]"), "other containers", "initContainers"},
		"a node of its own":                 {deployment, add(pod+"/affinity/nodeAffinity", "{}"), "userData", "affinity.nodeAffinity"},
		"another way to be placed":          {deployment, add(pod+"/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms/0", "{matchExpressions: [{key: a, operator: Exists}]}"), "userData", "affinity.nodeAffinity"},
		"a node by name":                    {deployment, add(pod+"/nodeName", "theirs"), "names the node", ""},
		"a hosts file":                      {deployment, add(pod+"/hostAliases", "[{ip: 6.6.6.6, hostnames: [sts.amazonaws.com]}]"), "finds its hosts", "dnsConfig"},
		"another runtime":                   {deployment, add(pod+"/runtimeClassName", "theirs"), "another runtime", ""},
		"many replicas":                     {deployment, add("/spec/replicas", "11"), "11 replicas, and 10 are the most", "replicas"},
		"many at an update":                 {deployment, add("/spec/strategy/rollingUpdate/maxSurge", "11"), "at an update", "strategy"},
		"many in percent":                   {deployment, add("/spec/strategy/rollingUpdate/maxSurge", "1000%"), "at an update", "strategy"},
		"a field of a newer API":            {deployment, add(pod+"/sharesEverything", "true"), "a field that this plumbline does not know", ""},
		"a probe that runs a command":       {deployment, add(container+"/livenessProbe", "{exec: {command: [sh]}}"), "more than an HTTP request to its own port", ""},
		"a probe of another host":           {deployment, add(container+"/readinessProbe/httpGet/host", "169.254.169.254"), "more than an HTTP request to its own port", ""},
		"a probe with a header":             {deployment, add(container+"/readinessProbe/httpGet/httpHeaders", "[{name: Host, value: x}]"), "more than an HTTP request to its own port", ""},
		"a probe of a port":                 {deployment, add(container+"/startupProbe", "{tcpSocket: {host: 10.0.0.1, port: 22}}"), "more than an HTTP request to its own port", ""},
		"a label of its pods":               {deployment, add("/spec/template/metadata/labels/sidecar.istio.io~1inject", "'true'"), "has the label of its pods, sidecar.istio.io/inject", "podLabels[sidecar.istio.io/inject]"},
		"pods of another name":              {deployment, add("/spec/template/metadata/labels/app.kubernetes.io~1name", "coredns"), "has the label of its pods, app.kubernetes.io/name", "podLabels"},
		"an annotation of its pods":         {deployment, add("/spec/template/metadata/annotations", "{iam.amazonaws.com/role: admin}"), "has the annotation of its pods, iam.amazonaws.com/role", "podAnnotations.iam.amazonaws.com/role"},
		"finalizers of its pods":            {deployment, add("/spec/template/metadata/finalizers", "[a.example.com/b]"), "has spec.template.metadata.finalizers", ""},
		"a label":                           {deployment, add("/metadata/labels/argocd.argoproj.io~1instance", "theirs"), "has the label argocd.argoproj.io/instance", "additionalLabels"},
		"an annotation":                     {"ServiceAccount karpenter", add("/metadata/annotations", "{iam.gke.io/gcp-service-account: a}"), "has the annotation iam.gke.io/gcp-service-account", "serviceAccount.annotations"},
		"an annotation of a Service":        {"Service karpenter", add("/metadata/annotations", "{external-dns.alpha.kubernetes.io/hostname: bank.example.com}"), "has the annotation external-dns", "service.annotations"},
		"an owner":                          {"ServiceAccount karpenter", add("/metadata/ownerReferences", "[{apiVersion: v1, kind: Node, name: a, uid: b}]"), "has metadata.ownerReferences", ""},
		"a finalizer":                       {"Service karpenter", add("/metadata/finalizers", "[example.com/stay]"), "has metadata.finalizers", ""},
		"labels of another type":            {"Service karpenter", add("/metadata/labels", "[a]"), "is no such object", ""},
		"a device":                          {deployment, add(container+"/resources", "{limits: {smarter-devices/fuse: 1}}"), "resource smarter-devices/fuse", "controller.resources"},
		"more rights":                       {"ClusterRole karpenter-core", add("/rules/0", "{apiGroups: [''], resources: [secrets, pods], verbs: [delete, list]}"), "in any of Karpenter's charts: /secrets delete, /secrets list", "additionalClusterRoleRules"},
		"rights of another role":            {"ClusterRole karpenter-admin", add("/rules/0", "{apiGroups: [''], resources: [nodes], verbs: [delete]}"), "in any of Karpenter's charts: /nodes delete", "additionalClusterRoleRules"},
		"a right without its name":          {"Role karpenter-dns", "[{op: remove, path: /rules/0/resourceNames}]", "in any of Karpenter's charts: /services get", "additionalClusterRoleRules"},
		"all rights":                        {"Role karpenter", add("/rules/0", "{apiGroups: ['*'], resources: ['*'], verbs: ['*']}"), "*/* *", "additionalClusterRoleRules"},
		"paths of the API server":           {"ClusterRole karpenter", add("/rules/0", "{nonResourceURLs: [/metrics], verbs: [get]}"), "/metrics get", "additionalClusterRoleRules"},
		"rules of others":                   {"ClusterRole karpenter-core", add("/aggregationRule", "{clusterRoleSelectors: [{}]}"), "takes its rules from other roles", ""},
		"rules for others":                  {"ClusterRole karpenter-core", add("/metadata/labels/rbac.authorization.k8s.io~1aggregate-to-view", "'true'"), "aggregate-to-view", "additionalLabels[rbac.authorization.k8s.io/aggregate-to-view]"},
		"a role for others":                 {"ClusterRoleBinding karpenter", add("/subjects/0", "{kind: Group, name: 'system:authenticated', apiGroup: rbac.authorization.k8s.io}"), "gives rights to others", ""},
		"a role for an account elsewhere":   {"RoleBinding karpenter", add("/subjects/0/namespace", "payments"), "gives rights to others", ""},
		"another role bound":                {"ClusterRoleBinding karpenter", add("/roleRef/name", "cluster-admin"), "binds another role", ""},
		"a ClusterRole bound":               {"RoleBinding karpenter", add("/roleRef/kind", "ClusterRole"), "binds another role", ""},
		"another IAM role":                  {"ServiceAccount karpenter", add("/metadata/annotations", "{eks.amazonaws.com/role-arn: 'arn:aws:iam::1:role/admin'}"), "takes an IAM role", "serviceAccount.annotations"},
		"credentials of registries":         {"ServiceAccount karpenter", add("/imagePullSecrets", "[{name: theirs}]"), "credentials of registries", "imagePullSecrets"},
		"a load balancer":                   {"Service karpenter", add("/spec/type", "LoadBalancer"), "outside of the cluster", ""},
		"an external IP":                    {"Service karpenter", add("/spec/externalIPs", "[8.8.8.8]"), "outside of the cluster", ""},
		"a Service for others":              {"Service karpenter", add("/spec/selector", "{k8s-app: payments}"), "leads to other pods", ""},
		"a budget for all":                  {"PodDisruptionBudget karpenter", add("/spec/selector", "{}"), "other pods", ""},
		"another namespace":                 {deployment, add("/metadata/namespace", "payments"), "is in namespace payments", ""},
		"types of its own":                  {deployment, add("/spec", "all"), "is no such object", ""},
		"a CronJob":                         {"", "{apiVersion: batch/v1, kind: CronJob, metadata: {name: karpenter, namespace: kube-system}}", "CronJob karpenter is no object of Karpenter's charts", ""},
		"a webhook configuration":           {"", "{apiVersion: admissionregistration.k8s.io/v1, kind: MutatingWebhookConfiguration, metadata: {name: karpenter}}", "is no object of Karpenter's charts", ""},
		"a CRD in the main chart":           {"", "{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: nodepools.karpenter.sh}}", "is no object of Karpenter's charts", ""},
		"a token of another account":        {"", "{apiVersion: v1, kind: Secret, metadata: {name: karpenter, annotations: {kubernetes.io/service-account.name: admin}}, type: kubernetes.io/service-account-token}", "Secret karpenter is no object", ""},
		"a list":                            {"", "{apiVersion: v1, kind: List, items: []}", "is no object of Karpenter's charts", ""},
		"another group":                     {"", "{apiVersion: evil.example.com/v1, kind: Role, metadata: {name: karpenter}}", "is no object of Karpenter's charts", ""},
		"another Deployment":                {"", "{apiVersion: apps/v1, kind: Deployment, metadata: {name: coredns, namespace: kube-system}}", "Deployment coredns is no object", ""},
		"Prometheus's token":                {"", "{apiVersion: monitoring.coreos.com/v1, kind: ServiceMonitor, metadata: {name: karpenter}, spec: {endpoints: [{port: http-metrics, bearerTokenFile: /var/run/t}]}}", "where Prometheus sends", "serviceMonitor.endpointConfig"},
		"Prometheus elsewhere":              {"", "{apiVersion: monitoring.coreos.com/v1, kind: ServiceMonitor, metadata: {name: karpenter}, spec: {namespaceSelector: {matchNames: [payments]}}}", "other namespaces", ""},
	} {
		t.Run(name, func(t *testing.T) {
			rendered := Rendered{Namespace: "kube-system", Version: "1.14.1", Objects: patched(t, real, c.object, c.patch)}
			err := Refuse((Allowance{}).CheckObjects(rendered))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("refused: %v, want %q", err, c.want)
			}
			all := Allowance{Values: []string{Everything}}
			after := Refuse(all.CheckObjects(rendered))
			if c.entry == "" || c.entry == lowered {
				if after == nil {
					t.Errorf("every value is allowed, and that is enough")
				}
				all.PodSecurity = Privileged
			} else {
				all.Values = []string{c.entry}
			}
			if after = Refuse(all.CheckObjects(rendered)); (after == nil) != (c.entry != "") {
				t.Errorf("with %v: %v", all, after)
			}
		})
	}
}

// TestChartsThatLackWhatTheyAreFor: Helm deletes what a release no longer contains.
func TestChartsThatLackWhatTheyAreFor(t *testing.T) {
	for name, r := range map[string]Rendered{
		"nothing":       {},
		"no Deployment": {Objects: patched(t, nil, "", "{apiVersion: v1, kind: ServiceAccount, metadata: {name: karpenter}}")},
		"no CRD":        {CRDs: true},
	} {
		t.Run(name, func(t *testing.T) {
			r.Namespace, r.Version = "kube-system", "1.14.1"
			err := Refuse((Allowance{Values: []string{Everything}}).CheckObjects(r))
			if err == nil || !strings.Contains(err.Error(), "what is installed would be deleted with it") {
				t.Errorf("refused: %v", err)
			}
		})
	}
}

func TestTheRoleOfTheServiceAccountThatIsNamed(t *testing.T) {
	const arn = "arn:aws:iam::111122223333:role/karpenter"
	rendered := Rendered{Namespace: "kube-system", Version: "1.14.1", Objects: realChart(t, map[string]any{"serviceAccount": map[string]any{"annotations": map[string]any{roleAnnotation: arn}}})}
	if found := (Allowance{ControllerRoles: []string{arn}}).CheckObjects(rendered); len(found) > 0 {
		t.Errorf("refused: %v", found)
	}
}

// TestOlderCharts: charts before 1.6 set no seccomp profile.
func TestOlderCharts(t *testing.T) {
	objects := patched(t, realChart(t, nil), "Deployment karpenter", "[{op: add, path: /spec/template/spec/securityContext, value: {fsGroup: 65532}}, {op: add, path: /spec/template/spec/containers/0/image, value: '"+publicImage+":1.3.3'}]")
	if found := (Allowance{}).CheckObjects(Rendered{Namespace: "kube-system", Version: "1.3.3", Objects: objects}); len(found) > 0 {
		t.Errorf("refused: %v", found)
	}
	objects = patched(t, objects, "Deployment karpenter", "[{op: add, path: /spec/template/spec/securityContext, value: {seccompProfile: {type: Unconfined}}}]")
	if found := (Allowance{}).CheckObjects(Rendered{Namespace: "kube-system", Version: "1.3.3", Objects: objects}); len(found) != 1 {
		t.Errorf("an unconfined pod: %v", found)
	}
}

func TestTheCRDChart(t *testing.T) {
	crds := realCRDs(t)
	check := func(edit func(*unstructured.Unstructured)) error {
		changed := crds[0].DeepCopy()
		edit(changed)
		return Refuse((Allowance{Values: []string{Everything}}).CheckObjects(Rendered{Namespace: "kube-system", Version: "1.14.1", CRDs: true, Objects: append([]*unstructured.Unstructured{changed}, crds[1:]...)}))
	}
	convert := func(client string) func(*unstructured.Unstructured) {
		return func(crd *unstructured.Unstructured) {
			var conversion map[string]any
			if err := json.Unmarshal([]byte(`{"strategy":"Webhook","webhook":{"conversionReviewVersions":["v1"],"clientConfig":`+client+`}}`), &conversion); err != nil {
				t.Fatal(err)
			}
			if err := unstructured.SetNestedMap(crd.Object, conversion, "spec", "conversion"); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, c := range map[string]struct {
		edit func(*unstructured.Unstructured)
		want string
	}{
		"as released":         {func(*unstructured.Unstructured) {}, ""},
		"the webhook of 1.0":  {convert(`{"service":{"name":"karpenter","namespace":"kube-system"}}`), ""},
		"a webhook elsewhere": {convert(`{"url":"https://evil.example.com"}`), "converted by a webhook"},
		"another service":     {convert(`{"service":{"name":"karpenter","namespace":"payments"}}`), "converted by a webhook"},
		"a label":             {func(crd *unstructured.Unstructured) { crd.SetLabels(map[string]string{"a": "b"}) }, "has the label a"},
		"an annotation": {func(crd *unstructured.Unstructured) {
			crd.SetAnnotations(map[string]string{"cert-manager.io/inject-ca-from": "b"})
		}, "has the annotation cert-manager.io/inject-ca-from"},
		"a finalizer":  {func(crd *unstructured.Unstructured) { crd.SetFinalizers([]string{"a.example.com/b"}) }, "has metadata.finalizers"},
		"another CRD":  {func(crd *unstructured.Unstructured) { crd.SetName("secrets.evil.example.com") }, "is no object of Karpenter's charts"},
		"another kind": {func(crd *unstructured.Unstructured) { crd.SetKind("ClusterRole") }, "is no object of Karpenter's charts"},
	} {
		t.Run(name, func(t *testing.T) {
			err := check(c.edit)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("refused: %v, want %q", err, c.want)
			}
		})
	}
}

// realCRDs returns those of Karpenter's own CRD chart.
func realCRDs(t *testing.T) []*unstructured.Unstructured {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(module(t), "pkg/apis/crds/*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%v, %v", files, err)
	}
	var crds []*unstructured.Unstructured
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		crds = append(crds, object(t, string(text)))
	}
	return crds
}

// TestKindsThatAreServedNoMore: a CRD chart is refused if the API server would no longer serve a kind, which ends every
// watch of it.
func TestKindsThatAreServedNoMore(t *testing.T) {
	const claims = "CustomResourceDefinition nodeclaims.karpenter.sh"
	replace := func(path, value string) string {
		return "[{op: replace, path: " + path + ", value: " + value + "}]"
	}
	for name, c := range map[string]struct{ crd, patch, want string }{
		"as released":              {claims, "[]", ""},
		"a version beside v1":      {claims, "[{op: add, path: /spec/versions/-, value: {name: v2, served: true, storage: false}}]", ""},
		"not served":               {claims, replace("/spec/versions/0/served", "false"), claims + " does not serve v1 of NodeClaim"},
		"renamed":                  {claims, replace("/spec/versions/0/name", "v2"), claims + " does not serve v1 of NodeClaim"},
		"no version":               {claims, replace("/spec/versions", "[]"), claims + " does not serve v1 of NodeClaim"},
		"another kind":             {claims, replace("/spec/names/kind", "Claim"), claims + " defines another kind"},
		"another kind of lists":    {claims, replace("/spec/names/listKind", "Claims"), claims + " defines another kind"},
		"another plural":           {claims, replace("/spec/names/plural", "claims"), claims + " defines another kind"},
		"another group":            {claims, replace("/spec/group", "example.com"), claims + " defines another kind"},
		"another scope":            {claims, replace("/spec/scope", "Namespaced"), claims + " defines another kind"},
		"pools that are not there": {"CustomResourceDefinition nodepools.karpenter.sh", "", "renders to no CustomResourceDefinition nodepools.karpenter.sh"},
		"NodeOverlays of another version": {
			"CustomResourceDefinition nodeoverlays.karpenter.sh", replace("/spec/versions/0/name", "v1"), "",
		},
		"no NodeOverlays, as in 1.3": {"CustomResourceDefinition nodeoverlays.karpenter.sh", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			objects := realCRDs(t)
			if c.patch != "" {
				objects = patched(t, objects, c.crd, c.patch)
			} else {
				objects = slices.DeleteFunc(objects, func(o *unstructured.Unstructured) bool { return o.GetKind()+" "+o.GetName() == c.crd })
			}
			err := Refuse((Allowance{Values: []string{Everything}}).CheckObjects(Rendered{Namespace: "kube-system", Version: "1.14.1", CRDs: true, Objects: objects}))
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("refused: %v, want %q", err, c.want)
			}
		})
	}
}

// TestImagesOfAnotherVersion: the NodeSync's limits on versions apply to the program, and not only to the version in a
// chart.
func TestImagesOfAnotherVersion(t *testing.T) {
	const tag, byDigest, noDigest = "another version than its chart's", "names its image by digest", "by a digest that is none"
	real256 := "sha256:" + strings.Repeat("0a", 32)
	real := realChart(t, nil)
	for name, c := range map[string]struct {
		allow       Allowance
		chart, name string
		inGit       bool
		want        string
	}{
		"the same version":                      {Allowance{}, "1.14.1", ":1.14.1@" + real256, false, ""},
		"as charts were before 0.35":            {Allowance{}, "v0.32.1", ":v0.32.1", false, ""},
		"a v on the image's":                    {Allowance{}, "1.14.1", ":v1.14.1", true, tag},
		"a v on the chart's":                    {Allowance{}, "v1.14.1", ":1.14.1", true, tag},
		"a digest that is cut off":              {Allowance{}, "1.14.1", ":1.14.1@sha256:00", false, noDigest},
		"a digest in capitals":                  {Allowance{}, "1.14.1", ":1.14.1@" + strings.ToUpper(real256), true, noDigest},
		"a digest of another algorithm":         {Allowance{}, "1.14.1", ":1.14.1@md5:" + strings.Repeat("0a", 16), true, noDigest},
		"an empty digest":                       {Allowance{}, "1.14.1", ":1.14.1@", true, noDigest},
		"two digests":                           {Allowance{}, "1.14.1", ":1.14.1@" + real256 + "@" + real256, true, noDigest},
		"a cut digest in a chart that is named": {Allowance{Digests: []string{"sha256:aa"}}, "1.14.1", ":1.14.1@sha256:00", true, noDigest},
		"an earlier one":                        {Allowance{}, "1.14.1", ":1.13.0@" + real256, true, tag},
		"no tag":                                {Allowance{}, "1.14.1", "", false, "has no tag"},
		"no tag that NodeSyncs may allow":       {Allowance{Values: []string{"controller.image.tag"}}, "1.14.1", "@" + real256, false, ""},
		"a chart whose digest is named":         {Allowance{Digests: []string{"sha256:aa"}}, "1.14.1", ":1.13.0@" + real256, true, ""},
		"in Git, by digest, any version":        {Allowance{}, "1.14.1", ":1.14.1@" + real256, true, ""},
		"in Git, by digest, some versions":      {Allowance{Versions: ">=1.14"}, "1.14.1", ":1.14.1@" + real256, true, byDigest},
		"in Git, by tag, some versions":         {Allowance{Versions: ">=1.14"}, "1.14.1", ":1.14.1", true, ""},
		"published, by digest, some versions":   {Allowance{Versions: ">=1.14"}, "1.14.1", ":1.14.1@" + real256, false, ""},
		"in Git, some versions, digests named":  {Allowance{Versions: ">=1.14", Digests: []string{"sha256:aa"}}, "1.14.1", ":1.14.1@" + real256, true, ""},
		"a value that is allowed opens no more": {Allowance{Versions: ">=1.14", Values: []string{"controller.image.tag"}}, "1.14.1", ":1.13.0@" + real256, true, byDigest},
	} {
		t.Run(name, func(t *testing.T) {
			objects := patched(t, real, "Deployment karpenter", "[{op: add, path: /spec/template/spec/containers/0/image, value: '"+publicImage+c.name+"'}]")
			err := Refuse(c.allow.CheckObjects(Rendered{Namespace: "kube-system", Version: c.chart, Digest: "sha256:aa", InGit: c.inGit, Objects: objects}))
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("refused: %v, want %q", err, c.want)
			}
			var refused *RefusedError
			if errors.As(err, &refused) && refused.OnlyGit() {
				t.Error("what a chart renders to is taken for words of Git")
			}
		})
	}
}

// TestCRDsThatAreLeftToEKS need not be among the rendered objects.
func TestCRDsThatAreLeftToEKS(t *testing.T) {
	const left = "nodepools.karpenter.sh"
	r := Rendered{Namespace: "kube-system", CRDs: true, Objects: slices.DeleteFunc(realCRDs(t), func(o *unstructured.Unstructured) bool { return o.GetName() == left })}
	if err := Refuse((Allowance{Values: []string{Everything}}).CheckObjects(r)); err == nil {
		t.Error("a chart without NodePools is allowed")
	}
	r.LeftToEKS = []string{left}
	if err := Refuse((Allowance{Values: []string{Everything}}).CheckObjects(r)); err != nil {
		t.Errorf("a chart whose NodePools are left to EKS is refused: %v", err)
	}
}

package manifests

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/admission"
)

// TestThePoliciesLetTheRealChartsBe: they may be installed, upgraded, and changed where an administrator has changed
// them.
func TestThePoliciesLetTheRealChartsBe(t *testing.T) {
	p := compile(t)
	for name, object := range realChart(t) {
		for _, w := range []write{
			{operation: admission.Create, resource: resources[object.GetKind()], object: object},
			{operation: admission.Update, resource: resources[object.GetKind()], object: object, old: object},
		} {
			if messages := p.denied(w); len(messages) > 0 {
				t.Errorf("%s %s: %v", w.operation, name, messages)
			}
		}
	}
	chart := realChart(t)
	for name, patch := range map[string]string{
		"Deployment karpenter":       "[{op: add, path: /spec/template/spec/hostNetwork, value: true}, {op: add, path: /spec/template/metadata/labels/team, value: a}, {op: add, path: /spec/template/metadata/annotations, value: {kubectl.kubernetes.io/restartedAt: today}}]",
		"ClusterRole karpenter-core": "[{op: add, path: /rules/0, value: {apiGroups: [example.com], resources: [widgets], verbs: [get]}}]",
	} {
		edited := patched(t, chart[name], patch)
		touched := patched(t, edited, "[{op: add, path: /metadata/annotations, value: {meta.helm.sh/release-name: karpenter}}]")
		w := write{operation: admission.Update, resource: resources[edited.GetKind()], object: touched, old: edited}
		if messages := p.denied(w); len(messages) > 0 {
			t.Errorf("what an administrator has changed in %s: %v", name, messages)
		}
	}
}

// TestThePoliciesDeny: each way out of Karpenter's own objects that the daemon's permissions leave open.
func TestThePoliciesDeny(t *testing.T) {
	p, chart := compile(t), realChart(t)
	add := func(path, value string) string { return "[{op: add, path: " + path + ", value: " + value + "}]" }
	const deployment, pod, container = "Deployment karpenter", "/spec/template/spec", "/spec/template/spec/containers/0"
	for name, c := range map[string]struct{ object, patch, want string }{
		"another name":              {deployment, add("/metadata/name", "coredns"), "must not write Deployments other than Karpenter's"},
		"another ServiceAccount":    {deployment, add(pod+"/serviceAccountName", "clusterrole-aggregation-controller"), "fields other than those of its charts"},
		"no ServiceAccount":         {deployment, "[{op: remove, path: " + pod + "/serviceAccountName}]", "fields other than those of its charts"},
		"another image":             {deployment, add(container+"/image", "evil/karpenter:1"), "Karpenter's image"},
		"an image of a longer name": {deployment, add(container+"/image", "public.ecr.aws/karpenter/controller-evil:1"), "Karpenter's image"},
		"another in a sidecar":      {deployment, add("/spec/template/spec/containers/1", "{name: b, image: evil, securityContext: {allowPrivilegeEscalation: false, runAsNonRoot: true, capabilities: {drop: [ALL]}}}"), "must have only one container"},
		"another before it":         {deployment, add(pod+"/initContainers", "[{name: b, image: evil, securityContext: {allowPrivilegeEscalation: false, runAsNonRoot: true, capabilities: {drop: [ALL]}}}]"), "fields other than those of its charts"},
		"hostNetwork":               {deployment, add(pod+"/hostNetwork", "true"), "ports or paths of the node"},
		"hostPID":                   {deployment, add(pod+"/hostPID", "true"), "ports or paths of the node"},
		"hostIPC":                   {deployment, add(pod+"/hostIPC", "true"), "ports or paths of the node"},
		"a port of the node":        {deployment, add(container+"/ports/0/hostPort", "80"), "ports or paths of the node"},
		"the node's root":           {deployment, add(pod+"/volumes", "[{name: h, hostPath: {path: /}}]"), "ports or paths of the node"},
		"a kubeconfig":              {deployment, add(pod+"/volumes", "[{name: s, secret: {secretName: a}}]"), "fields other than those of its charts"},
		"a token of another kind":   {deployment, add(pod+"/volumes", "[{name: s, projected: {sources: []}}]"), "fields other than those of its charts"},
		"what the API says of it":   {deployment, add(pod+"/volumes", "[{name: s, downwardAPI: {items: []}}]"), "fields other than those of its charts"},
		"another home":              {deployment, add(container+"/env/0", "{name: HOME, value: /tmp}"), "variables must be those of its charts"},
		"another home, in lower":    {deployment, add(container+"/env/0", "{name: home, value: /tmp}"), "variables must be those of its charts"},
		"other certificates":        {deployment, add(container+"/env/0", "{name: SSL_CERT_FILE, value: /tmp/c}"), "variables must be those of its charts"},
		"a folder of certificates":  {deployment, add(container+"/env/0", "{name: SSL_CERT_DIR, value: /tmp}"), "variables must be those of its charts"},
		"another AWS identity":      {deployment, add(container+"/env/0", "{name: AWS_ROLE_ARN, value: 'arn:aws:iam::1:role/admin'}"), "variables must be those of its charts"},
		"an AWS profile":            {deployment, add(container+"/env/0", "{name: AWS_CONFIG_FILE, value: /tmp/c}"), "variables must be those of its charts"},
		"other certificates of AWS": {deployment, add(container+"/env/0", "{name: AWS_CA_BUNDLE, value: /tmp/c}"), "variables must be those of its charts"},
		"a hook":                    {deployment, add(container+"/lifecycle", "{postStart: {exec: {command: [sh]}}}"), "fields other than those of its charts"},
		"a probe with a command":    {deployment, add(container+"/livenessProbe", "{exec: {command: [sh]}}"), "fields other than those of its charts"},
		"a second one":              {deployment, add(container+"/startupProbe", "{exec: {command: [sh]}}"), "fields other than those of its charts"},
		"a probe of another host":   {deployment, add(container+"/readinessProbe/httpGet/host", "169.254.169.254"), "fields other than those of its charts"},
		"a probe of a port":         {deployment, add(container+"/readinessProbe", "{tcpSocket: {host: 10.0.0.1, port: 22}}"), "fields other than those of its charts"},
		"a label of its pods":       {deployment, add("/spec/template/metadata/labels/sidecar.istio.io~1inject", "'true'"), "labels other than those of its charts"},
		"pods of another name":      {deployment, add("/spec/template/metadata/labels/app.kubernetes.io~1name", "coredns"), "labels other than those of its charts"},
		"an annotation of its pods": {deployment, add("/spec/template/metadata/annotations", "{iam.amazonaws.com/role: admin}"), "annotations other than those"},
		"another API server":        {deployment, add(container+"/env/0", "{name: KUBECONFIG, value: /tmp/k}"), "variables must be those of its charts"},
		"another AWS":               {deployment, add(container+"/env/0", "{name: AWS_ENDPOINT_URL_STS, value: 'https://evil'}"), "variables must be those of its charts"},
		"a command":                 {deployment, add(container+"/args", "['--kubeconfig=/tmp/k']"), "fields other than those of its charts"},
		"privileged":                {deployment, add(container+"/securityContext/privileged", "true"), "must not be privileged"},
		"to gain privileges":        {deployment, add(container+"/securityContext/allowPrivilegeEscalation", "true"), "must not be privileged"},
		"no word of it":             {deployment, add(container+"/securityContext", "{}"), "must not be privileged"},
		"root":                      {deployment, add(container+"/securityContext/runAsNonRoot", "false"), "must not run as root"},
		"root by its number":        {deployment, add(container+"/securityContext/runAsUser", "0"), "must not run as root"},
		"capabilities":              {deployment, add(container+"/securityContext/capabilities/add", "[SYS_ADMIN]"), "must drop all capabilities"},
		"unconfined":                {deployment, add(pod+"/securityContext/seccompProfile/type", "Unconfined"), "must be confined"},
		"SELinux":                   {deployment, add(container+"/securityContext/seLinuxOptions", "{type: spc_t}"), "must be confined"},
		"a Secret it may write":     {deployment, add(container+"/envFrom", "[{secretRef: {name: sh.helm.release.v1.karpenter.v999}}]"), "fields other than those of its charts"},
		"a Secret in a variable":    {deployment, add(container+"/env/0", "{name: X, valueFrom: {secretKeyRef: {name: a, key: b}}}"), "variables must be those of its charts"},
		"a proxy":                   {deployment, add(container+"/env/0", "{name: https_proxy, value: 'http://evil'}"), "variables must be those of its charts"},
		"a node by name":            {deployment, add(pod+"/nodeName", "theirs"), "fields other than those of its charts"},
		"a hosts file":              {deployment, add(pod+"/hostAliases", "[{ip: 6.6.6.6, hostnames: [sts.amazonaws.com]}]"), "fields other than those of its charts"},
		"name servers":              {deployment, add(pod+"/dnsConfig", "{nameservers: [6.6.6.6]}"), "fields other than those of its charts"},
		"other authorities":         {deployment, add(container+"/volumeMounts", "[{name: c, mountPath: /etc/ssl/certs}]"), "fields other than those of its charts"},
		"a file in the status":      {deployment, add(container+"/terminationMessagePath", "/var/run/secrets/token"), "fields other than those of its charts"},
		"a header of a probe":       {deployment, add(container+"/readinessProbe/httpGet/httpHeaders", "[{name: Host, value: x}]"), "fields other than those of its charts"},
		"no replica":                {deployment, add("/spec/replicas", "0"), "must have 1 to 10 replicas"},
		"too many replicas":         {deployment, add("/spec/replicas", "10000"), "must have 1 to 10 replicas"},
		"paused":                    {deployment, add("/spec/paused", "true"), "or be paused"},
		"an owner":                  {deployment, add("/metadata/ownerReferences", "[{apiVersion: v1, kind: Namespace, name: none, uid: a}]"), "owner references"},
		"an owner of an account":    {"ServiceAccount karpenter", add("/metadata/ownerReferences", "[{apiVersion: v1, kind: Namespace, name: none, uid: a}]"), "owner references"},
		"a finalizer":               {"Service karpenter", add("/metadata/finalizers", "[example.com/stay]"), "remove finalizers"},
		"a label of an account":     {"ServiceAccount karpenter", add("/metadata/labels/team", "a"), "labels other than those of Karpenter's charts"},
		"a label that is another":   {"ServiceAccount karpenter", add("/metadata/labels/app.kubernetes.io~1name", "other"), "labels other than those of Karpenter's charts"},
		"another role":              {"ClusterRole karpenter", add("/metadata/name", "evil"), "must not write roles other"},
		"all rights":                {"ClusterRole karpenter", add("/rules/0", "{apiGroups: ['*'], resources: ['*'], verbs: ['*']}"), "permissions that are not in"},
		"Secrets":                   {"Role karpenter", add("/rules/0", "{apiGroups: [''], resources: [secrets], verbs: [get]}"), "permissions that are not in"},
		"a right of another role":   {"Role karpenter", add("/rules/0", "{apiGroups: [''], resources: [services], verbs: [get]}"), "permissions that are not in"},
		"a right without its name":  {"Role karpenter-dns", "[{op: remove, path: /rules/0/resourceNames}]", "permissions that are not in"},
		"a right of no name":        {"Role karpenter-dns", add("/rules/0/resourceNames", "[]"), "permissions that are not in"},
		"paths of the API server":   {"ClusterRole karpenter", add("/rules/0", "{nonResourceURLs: ['*'], verbs: [get]}"), "permissions that are not in"},
		"rules for all who view":    {"ClusterRole karpenter", add("/metadata/labels/rbac.authorization.k8s.io~1aggregate-to-view", "'true'"), "is aggregated into them"},
		"rules from others":         {"ClusterRole karpenter", add("/aggregationRule", "{clusterRoleSelectors: [{}]}"), "aggregates the rules of other roles"},
		"cluster-admin":             {"ClusterRoleBinding karpenter", add("/roleRef/name", "cluster-admin"), "must not bind roles other"},
		"a binding of another name": {"ClusterRoleBinding karpenter", add("/metadata/name", "evil"), "must not bind roles other"},
		"a ClusterRole":             {"RoleBinding karpenter", add("/roleRef/kind", "ClusterRole"), "must not bind roles other"},
		"everybody":                 {"ClusterRoleBinding karpenter", add("/subjects/0", "{kind: Group, apiGroup: rbac.authorization.k8s.io, name: 'system:authenticated'}"), "other than Karpenter's ServiceAccount"},
		"one of another namespace":  {"ClusterRoleBinding karpenter", add("/subjects/0/namespace", "payments"), "other than Karpenter's ServiceAccount"},
		"another Service":           {"Service karpenter", add("/metadata/name", "kube-dns"), "objects other than those"},
		"an external IP":            {"Service karpenter", add("/spec/externalIPs", "[8.8.8.8]"), "outside of the cluster"},
		"a load balancer":           {"Service karpenter", add("/spec/type", "LoadBalancer"), "outside of the cluster"},
		"pods of others":            {"Service karpenter", add("/spec/selector", "{k8s-app: kube-dns}"), "selects pods other than"},
		"a budget for all":          {"PodDisruptionBudget karpenter", add("/spec/selector", "{}"), "PodDisruptionBudget for pods other"},
		"another account":           {"ServiceAccount karpenter", add("/metadata/name", "default"), "objects other than those"},
		"Secrets of an account":     {"ServiceAccount karpenter", add("/secrets", "[{name: s}]"), "Secrets to a ServiceAccount"},
	} {
		t.Run(name, func(t *testing.T) {
			p := policies{t, p.byOf}
			object := patched(t, chart[c.object], c.patch)
			for _, w := range []write{
				{operation: admission.Create, resource: resources[object.GetKind()], object: object},
				{operation: admission.Update, resource: resources[object.GetKind()], object: object, old: chart[c.object]},
			} {
				if messages := p.denied(w); !strings.Contains(strings.Join(messages, "; "), c.want) {
					t.Errorf("%s: denied %q, want %q", w.operation, messages, c.want)
				}
			}
		})
	}
}

// TestLabelsStay: the deletion guard and Helm identify the charts' objects by their labels, and adoption sets them.
func TestLabelsStay(t *testing.T) {
	p, account := compile(t), realChart(t)["ServiceAccount karpenter"]
	for name, c := range map[string]struct {
		patch string
		want  string
	}{
		"without them":   {"[{op: remove, path: /metadata/labels}]", "labels that identify"},
		"without one":    {"[{op: remove, path: /metadata/labels/app.kubernetes.io~1managed-by}]", "labels that identify"},
		"a new version":  {"[{op: add, path: /metadata/labels/app.kubernetes.io~1version, value: 9.9.9}]", ""},
		"one of another": {"[{op: add, path: /metadata/labels/app.kubernetes.io~1instance, value: other}]", "labels that identify"},
	} {
		t.Run(name, func(t *testing.T) {
			messages := policies{t, p.byOf}.denied(write{operation: admission.Update, resource: "serviceaccounts", object: patched(t, account, c.patch), old: account})
			if got := strings.Join(messages, "; "); !strings.Contains(got, c.want) || (c.want == "") != (got == "") {
				t.Errorf("denied %q, want %q", got, c.want)
			}
		})
	}
	bare := patched(t, account, "[{op: remove, path: /metadata/labels}]")
	if messages := p.denied(write{operation: admission.Update, resource: "serviceaccounts", object: account, old: bare}); len(messages) > 0 {
		t.Errorf("adopted: %q", messages)
	}
}

// TestThePoliciesOnOtherObjects: objects that are not in the main chart.
func TestThePoliciesOnOtherObjects(t *testing.T) {
	p := compile(t)
	const helm = "{apiVersion: v1, kind: Secret, type: helm.sh/release.v1, metadata: {name: sh.helm.release.v1.karpenter.v3, namespace: kube-system}}"
	monitor := func(spec string) string {
		return "{apiVersion: monitoring.coreos.com/v1, kind: ServiceMonitor, metadata: {name: karpenter, namespace: kube-system}, spec: {" + spec + "}}"
	}
	crd := func(name, conversion string) string {
		return fmt.Sprintf("{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: %s}, spec: {conversion: %s}}", name, conversion)
	}
	for name, c := range map[string]struct {
		text, want string
		operation  admission.Operation
	}{
		"a release":              {helm, "", admission.Create},
		"a release that goes":    {helm, "", admission.Delete},
		"a token":                {"{apiVersion: v1, kind: Secret, type: kubernetes.io/service-account-token, metadata: {name: sh.helm.release.v1.karpenter.v3, namespace: kube-system}}", "Secrets other than Helm's", admission.Create},
		"another release":        {"{apiVersion: v1, kind: Secret, type: helm.sh/release.v1, metadata: {name: sh.helm.release.v1.payments.v3, namespace: kube-system}}", "Secrets other than Helm's", admission.Create},
		"a Secret of others":     {"{apiVersion: v1, kind: Secret, type: Opaque, metadata: {name: theirs, namespace: kube-system}}", "Secrets other than Helm's", admission.Delete},
		"Karpenter's CRD":        {crd("nodepools.karpenter.sh", "{strategy: None}"), "", admission.Create},
		"that of 1.0":            {crd("nodepools.karpenter.sh", "{strategy: Webhook, webhook: {clientConfig: {service: {name: karpenter, namespace: kube-system}}}}"), "", admission.Create},
		"one that converts":      {crd("nodepools.karpenter.sh", "{strategy: Webhook, webhook: {clientConfig: {url: 'https://evil'}}}"), "conversion webhook other than Karpenter's", admission.Create},
		"another CRD":            {crd("widgets.example.com", "{strategy: None}"), "CRDs other than Karpenter's", admission.Create},
		"a CRD with an owner":    {"{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: nodepools.karpenter.sh, ownerReferences: [{apiVersion: v1, kind: Namespace, name: none, uid: a}]}, spec: {}}", "owner references", admission.Create},
		"Karpenter's metrics":    {monitor("namespaceSelector: {matchNames: [kube-system]}, endpoints: [{port: http-metrics, path: /metrics}]"), "", admission.Create},
		"metrics with a token":   {monitor("namespaceSelector: {matchNames: [kube-system]}, endpoints: [{port: http-metrics, bearerTokenFile: /var/run/t}]"), "scrapes other namespaces, or sends credentials", admission.Create},
		"metrics relabelled":     {monitor("namespaceSelector: {matchNames: [kube-system]}, endpoints: [{port: http-metrics, relabelings: [{targetLabel: __address__, replacement: evil}]}]"), "scrapes other namespaces, or sends credentials", admission.Create},
		"metrics of others":      {monitor("namespaceSelector: {any: true}, endpoints: [{port: http-metrics}]"), "scrapes other namespaces, or sends credentials", admission.Create},
		"a node":                 {"{apiVersion: v1, kind: Node, metadata: {name: a}}", "only to grant it to Karpenter", admission.Delete},
		"a pod":                  {"{apiVersion: v1, kind: Pod, metadata: {name: a, namespace: b}}", "only to grant it to Karpenter", admission.Delete},
		"a NodeClaim":            {"{apiVersion: karpenter.sh/v1, kind: NodeClaim, metadata: {name: a}}", "only to grant it to Karpenter", admission.Create},
		"Karpenter's lease":      {"{apiVersion: coordination.k8s.io/v1, kind: Lease, metadata: {name: karpenter-leader-election, namespace: kube-system}}", "only to grant it to Karpenter", admission.Create},
		"the daemon's own lease": {"{apiVersion: coordination.k8s.io/v1, kind: Lease, metadata: {name: plumbline, namespace: plumbline-system}}", "", admission.Create},
	} {
		t.Run(name, func(t *testing.T) {
			p := policies{t, p.byOf}
			object := parse(t, c.text)
			w := write{operation: c.operation, resource: resources[object.GetKind()], object: object}
			if c.operation == admission.Delete {
				w.object, w.old = nil, object
			}
			messages := strings.Join(p.denied(w), "; ")
			if (messages == "") != (c.want == "") || !strings.Contains(messages, c.want) {
				t.Errorf("denied %q, want %q", messages, c.want)
			}
		})
	}
}

// TestThePoliciesOnNodeClaims: Karpenter terminates the instance and the node in the status of a NodeClaim, so it may
// only be written unchanged.
func TestThePoliciesOnNodeClaims(t *testing.T) {
	p := compile(t)
	claim := parse(t, "{apiVersion: karpenter.sh/v1, kind: NodeClaim, metadata: {name: a, labels: {karpenter.sh/nodepool: general}}, spec: {expireAfter: Never}, status: {providerID: i-1, nodeName: a}}")
	for name, c := range map[string]struct {
		patch, subresource string
		denied             bool
	}{
		"as it was":                   {"[]", "", false},
		"its status":                  {"[{op: add, path: /status/providerID, value: i-2}]", "status", true},
		"its status, where it is one": {"[{op: add, path: /status/providerID, value: i-2}]", "", true},
		"a status as it was":          {"[]", "status", true},
		"its pool":                    {"[{op: add, path: /metadata/labels/karpenter.sh~1nodepool, value: batch}]", "", true},
		"an owner":                    {"[{op: add, path: /metadata/ownerReferences, value: [{apiVersion: v1, kind: Namespace, name: none, uid: a}]}]", "", true},
		"its spec":                    {"[{op: add, path: /spec/expireAfter, value: 1s}]", "", true},
	} {
		t.Run(name, func(t *testing.T) {
			p := policies{t, p.byOf}
			w := write{operation: admission.Update, resource: "nodeclaims", subresource: c.subresource, object: patched(t, claim, c.patch), old: claim}
			if messages := p.denied(w); (len(messages) > 0) != c.denied {
				t.Errorf("denied %q", messages)
			}
		})
	}
}

// TestThePoliciesOnCRDs: with another schema the API server hides fields from Karpenter, which then loses nodes.
func TestThePoliciesOnCRDs(t *testing.T) {
	p := compile(t)
	const schema = "{openAPIV3Schema: {type: object, properties: {status: {type: object, properties: {conditions: {type: array, items: {type: object, properties: {" +
		"type: {type: string}, status: {type: string}, reason: {type: string}, message: {type: string}, lastTransitionTime: {type: string}}}}, " +
		"nodeName: {type: string}, providerID: {type: string}, imageID: {type: string}}}}}}"
	const version = "served: true, subresources: {status: {}}, schema: " + schema + "}"
	crd := parse(t, "{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: nodeclaims.karpenter.sh}, spec: {conversion: {strategy: None}, "+
		"versions: [{name: v1, "+version+", {name: v1beta1, "+version+"]}, status: {storedVersions: [v1]}}")
	const (
		root   = "/spec/versions/0/schema/openAPIV3Schema"
		status = root + "/properties/status"
		fields = status + "/properties"
	)
	for patch, want := range map[string]string{
		"[]": "",
		"[{op: remove, path: " + fields + "/imageID}]":                                 "",
		"[{op: replace, path: /spec/versions/1/served, value: false}]":                 "", // nothing is stored in this version
		"[{op: remove, path: " + fields + "/providerID}]":                              "finds their instances",
		"[{op: remove, path: " + fields + "/nodeName}]":                                "finds their instances",
		"[{op: add, path: " + fields + "/providerID/default, value: i-1}]":             "finds their instances",
		"[{op: add, path: " + fields + "/providerID/maxLength, value: 1}]":             "finds their instances",
		"[{op: replace, path: " + fields + "/providerID/type, value: integer}]":        "finds their instances",
		"[{op: remove, path: " + fields + "/conditions/items/properties/status}]":      "finds their instances",
		"[{op: add, path: " + status + "/default, value: {nodeName: victim}}]":         "finds their instances",
		"[{op: add, path: " + root + "/default, value: {status: {nodeName: victim}}}]": "finds their instances",
		"[{op: remove, path: /spec/versions/0/subresources}]":                          "finds their instances",
		"[{op: add, path: /spec/versions/-, value: {name: v2, storage: true, served: true, subresources: {status: {}}, schema: {openAPIV3Schema: {type: object, properties: {status: {type: object, properties: {imageID: {type: string}}}}}}}}]": "finds their instances",
		"[{op: replace, path: /spec/versions/0/served, value: false}]":                            "in which Karpenter's objects are stored",
		"[{op: add, path: /metadata/annotations, value: {plumbline.dev/allow-deletion: 'true'}}]": "allow the deletion",
	} {
		messages := strings.Join(p.denied(write{operation: admission.Update, resource: "customresourcedefinitions", object: patched(t, crd, patch), old: crd}), "; ")
		if (messages == "") != (want == "") || !strings.Contains(messages, want) {
			t.Errorf("%s: denied %q, want %q", patch, messages, want)
		}
	}
}

// TestThePoliciesOnNodeSyncs: the daemon may write a finalizer, but no setting.
func TestThePoliciesOnNodeSyncs(t *testing.T) {
	p := compile(t)
	sync := parse(t, "{apiVersion: plumbline.dev/v1alpha1, kind: NodeSync, metadata: {name: prod, namespace: plumbline-system}, spec: {path: ./a}}")
	for patch, denied := range map[string]bool{
		"[{op: add, path: /metadata/finalizers, value: [plumbline.dev/nodesync]}]":                                     false,
		"[{op: add, path: /metadata/annotations, value: {reconcile.fluxcd.io/requestedAt: now}}]":                      false,
		"[{op: add, path: /metadata/ownerReferences, value: [{apiVersion: v1, kind: ConfigMap, name: none, uid: a}]}]": true,
		"[{op: add, path: /spec/charts, value: {allow: {values: ['*']}}}]":                                             true,
		"[{op: add, path: /spec/source, value: {git: {url: 'https://evil.example.com/fleet.git'}}}]":                   true,
	} {
		w := write{operation: admission.Update, resource: "nodesyncs", object: patched(t, sync, patch), old: sync}
		if messages := p.denied(w); (len(messages) > 0) != denied {
			t.Errorf("%s: denied %q", patch, messages)
		}
	}
	if messages := p.denied(write{operation: admission.Create, resource: "nodesyncs", object: sync}); len(messages) == 0 {
		t.Error("the daemon may make a NodeSync")
	}
	elsewhere := parse(t, "{apiVersion: plumbline.dev/v1alpha1, kind: NodeSync, metadata: {name: prod, namespace: team, finalizers: [plumbline.dev/nodesync]}, spec: {path: ./a}}")
	w := write{operation: admission.Update, resource: "nodesyncs", object: patched(t, elsewhere, "[{op: remove, path: /metadata/finalizers}]"), old: elsewhere}
	if messages := p.denied(w); !slices.Contains(messages, "plumbline must not change NodeSyncs in other namespaces") {
		t.Errorf("a NodeSync in another namespace: denied %q", messages)
	}
}

// TestThePolicyOnRecords: the daemon may write the ConfigMaps in which it keeps records, and no others.
func TestThePolicyOnRecords(t *testing.T) {
	p := compile(t)
	const head = "{apiVersion: v1, kind: ConfigMap, metadata: {namespace: plumbline-system, name: "
	const (
		label = "labels: {app.kubernetes.io/managed-by: plumbline}"
		owner = "ownerReferences: [{apiVersion: plumbline.dev/v1alpha1, kind: NodeSync, name: prod, uid: u}]"
	)
	record := parse(t, head+"plumbline.applied-prod, "+label+", "+owner+"}}")
	removals := parse(t, head+"plumbline-prod, "+label+", "+owner+"}}")
	labelled := parse(t, head+"plumbline.applied-prod, "+label+"}}")
	owned := parse(t, head+"plumbline.applied-prod, "+owner+"}}")
	named := parse(t, head+"settings, "+label+", "+owner+"}}")
	foreign := parse(t, head+"kube-root-ca.crt}}")
	for name, c := range map[string]struct {
		write  write
		denied bool
	}{
		"create a record":                 {write{operation: admission.Create, resource: "configmaps", object: record}, false},
		"create the record of removals":   {write{operation: admission.Create, resource: "configmaps", object: removals}, false},
		"create one of no NodeSync":       {write{operation: admission.Create, resource: "configmaps", object: labelled}, true},
		"create one without its label":    {write{operation: admission.Create, resource: "configmaps", object: owned}, true},
		"create one of another name":      {write{operation: admission.Create, resource: "configmaps", object: named}, true},
		"update one without its label":    {write{operation: admission.Update, resource: "configmaps", object: record, old: owned}, false},
		"update one without its owner":    {write{operation: admission.Update, resource: "configmaps", object: record, old: labelled}, false},
		"update a labelled one of a user": {write{operation: admission.Update, resource: "configmaps", object: named, old: named}, true},
		"delete a record":                 {write{operation: admission.Delete, resource: "configmaps", old: labelled}, false},
		"delete a labelled one of a user": {write{operation: admission.Delete, resource: "configmaps", old: named}, true},
		"create another ConfigMap":        {write{operation: admission.Create, resource: "configmaps", object: foreign}, true},
		"make another one a record":       {write{operation: admission.Update, resource: "configmaps", object: record, old: foreign}, true},
		"delete another one":              {write{operation: admission.Delete, resource: "configmaps", old: foreign}, true},
	} {
		if messages := p.denied(c.write); (len(messages) > 0) != c.denied {
			t.Errorf("%s: denied %q", name, messages)
		}
	}
}

package main

import (
	"net/http"
	"strings"
	"testing"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

// TestTheNamespaceThatIsMeant: without -n that of the context where it has NodeSyncs, else that of the
// daemon.
func TestTheNamespaceThatIsMeant(t *testing.T) {
	in := func(namespace string) *v1alpha1.NodeSync {
		sync := verdicts()["in-sync"]
		sync.Namespace = namespace
		return sync
	}
	deployed := func(namespace string) func(*apiServer) {
		return func(s *apiServer) {
			s.objects["/apis/apps/v1/namespaces/"+namespace+"/deployments/plumbline"] = map[string]any{
				"apiVersion": "apps/v1", "kind": "Deployment",
				"metadata": map[string]any{"name": "plumbline", "namespace": namespace, "labels": map[string]any{"app.kubernetes.io/name": "plumbline"}},
			}
		}
	}
	for name, c := range map[string]struct {
		syncs []*v1alpha1.NodeSync
		given func(*apiServer)
		args  []string
		want  string
	}{
		"the context's":                 {syncs: []*v1alpha1.NodeSync{in("fleet"), in(home)}, want: "fleet"},
		"the manifests'":                {syncs: []*v1alpha1.NodeSync{in(home), in("other")}, want: home},
		"the daemon's":                  {syncs: []*v1alpha1.NodeSync{in("ours")}, given: deployed("ours"), want: "ours"},
		"the one that is given":         {syncs: []*v1alpha1.NodeSync{in("fleet"), in("other")}, args: []string{"-n", "other"}, want: "other"},
		"where only that may be read":   {syncs: []*v1alpha1.NodeSync{in(home)}, given: func(s *apiServer) { s.refused[strings.TrimSuffix(syncPath, "/")] = http.StatusForbidden }, want: home},
		"where Deployments may not be":  {syncs: []*v1alpha1.NodeSync{in(home)}, given: func(s *apiServer) { s.refused["/apis/apps/v1/"] = http.StatusForbidden }, want: home},
		"a daemon without any NodeSync": {syncs: []*v1alpha1.NodeSync{in("other")}, given: deployed("ours"), want: ""},
	} {
		t.Run(name, func(t *testing.T) {
			s, kubeconfig := serve(t, c.syncs...)
			if c.given != nil {
				c.given(s)
			}
			got := plumbline(t, append([]string{"get", "prod", "-o", "jsonpath={.metadata.namespace}", "--kubeconfig", kubeconfig}, c.args...)...)
			if got.out != c.want || (got.code == exitDone) != (c.want != "") {
				t.Errorf("code %d, prints %q, want %q: %s", got.code, got.out, c.want, got.err)
			}
		})
	}
}

// TestTheNamespaceOfADaemonWithoutANodeSync: that is where the first one will be.
func TestTheNamespaceOfADaemonWithoutANodeSync(t *testing.T) {
	s, kubeconfig := serve(t)
	s.objects["/apis/apps/v1/namespaces/ours/deployments/plumbline"] = map[string]any{
		"apiVersion": "apps/v1", "kind": "Deployment",
		"metadata": map[string]any{"name": "plumbline", "namespace": "ours", "labels": map[string]any{"app.kubernetes.io/name": "plumbline"}},
	}
	if got := plumbline(t, "status", "prod", "--kubeconfig", kubeconfig); !strings.Contains(got.err, "ours/prod") {
		t.Errorf("it says %q, want that NodeSync ours/prod is not there", got.err)
	}
}

// TestOutputOfObjects: -o as kubectl has it.
func TestOutputOfObjects(t *testing.T) {
	hidden := nodeSync("odd", ready("False", "Invalid", "a\u202eb"))
	hidden.ManagedFields = append(hidden.ManagedFields, hidden.ManagedFields...)
	_, kubeconfig := serve(t, verdicts()["in-sync"], hidden)
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"-o", "name"}, "nodesync.plumbline.dev/odd\nnodesync.plumbline.dev/prod\n"},
		{[]string{"prod", "-o", "name"}, "nodesync.plumbline.dev/prod\n"},
		{[]string{"nodesync/prod", "nodesyncs/odd", "-o", "jsonpath={.items[*].metadata.name}"}, "prod odd"},
		{[]string{"prod", "-o", "jsonpath={.kind} {.apiVersion}"}, "NodeSync plumbline.dev/v1alpha1"},
		{[]string{"-o", "jsonpath={.kind} {.items[0].kind}"}, "NodeSyncList NodeSync"},
		{[]string{"prod", "-o", "go-template={{.spec.interval}}"}, "1m0s"},
		{[]string{"prod", "--template", "{{.spec.interval}}", "-o", "go-template"}, "1m0s"},
		{[]string{"odd", "-o", "jsonpath={.status.conditions[0].message}"}, `a\u202eb`},
	} {
		got := plumbline(t, append(append([]string{"get"}, c.args...), "--kubeconfig", kubeconfig)...)
		if got.code != exitDone || got.out != c.want {
			t.Errorf("%v: code %d, prints %q, want %q: %s", c.args, got.code, got.out, c.want, got.err)
		}
	}
	if got := plumbline(t, "get", "-o", "wide", "--kubeconfig", kubeconfig); !strings.Contains(got.out, "https://git.example.com/acme/fleet.git") || strings.Contains(got.out, " \n") {
		t.Errorf("wide:\n%s", got.out)
	}
}

// TestSeveralNames: each is done, and the exit code is that of the gravest.
func TestSeveralNames(t *testing.T) {
	other := verdicts()["held"]
	other.Name = "other"
	_, kubeconfig := serve(t, verdicts()["in-sync"], other)
	got := plumbline(t, "status", "prod", "nodesync/other", "--kubeconfig", kubeconfig)
	if got.code != exitHeld || !strings.Contains(got.out, "nodesync/prod: in sync") || !strings.Contains(got.out, "\n\nnodesync/other: ") {
		t.Errorf("status: code %d:\n%s%s", got.code, got.out, got.err)
	}
	if got := plumbline(t, "status", "prod", "other", "-o", "json", "--kubeconfig", kubeconfig); !strings.HasPrefix(got.out, "[\n") {
		t.Errorf("status as JSON: %s", got.out)
	}
	if got := plumbline(t, "suspend", "nodesync/prod", "other", "--kubeconfig", kubeconfig); got.err != "nodesync/prod suspended\nnodesync/other suspended\n" {
		t.Errorf("suspend: code %d: %s", got.code, got.err)
	}
}

// TestNamesThatAreNotThere: what is there is printed, and what is not is an error each, as kubectl does it.
func TestNamesThatAreNotThere(t *testing.T) {
	_, kubeconfig := serve(t, verdicts()["in-sync"])
	for _, command := range []string{"get", "status"} {
		got := plumbline(t, command, "absent", "prod", "gone", "--kubeconfig", kubeconfig)
		if got.code != exitFailed || !strings.Contains(got.out, "prod") || !strings.Contains(got.err, "absent") || !strings.Contains(got.err, "gone") {
			t.Errorf("%s: code %d, %q, %q", command, got.code, got.out, got.err)
		}
	}
}

package manifests

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"
)

// unused are permissions that none of these stories needs, by the error or the setup that needs them.
var unused = map[string][]string{
	"the API server checks it at another request: server-side apply of an object that does not exist": {
		"create nodepools.karpenter.sh *", "create ec2nodeclasses.karpenter.k8s.aws *", "create nodeoverlays.karpenter.sh *",
		"create capacitybuffers.autoscaling.x-k8s.io *",
	},
	"the API server checks it at another request: a binding to a role with rules that plumbline does not have": {
		"bind clusterroles.rbac.authorization.k8s.io *", "bind roles.rbac.authorization.k8s.io kube-system",
	},
	"the API server checks it at another request: an owner reference, with OwnerReferencesPermissionEnforcement": {
		"update nodesyncs.plumbline.dev/finalizers plumbline-system",
	},
	"the value serviceMonitor.enabled of Karpenter's chart": {
		"create servicemonitors.monitoring.coreos.com kube-system", "get servicemonitors.monitoring.coreos.com kube-system",
		"patch servicemonitors.monitoring.coreos.com kube-system", "delete servicemonitors.monitoring.coreos.com kube-system",
	},
	"a scrape of the metrics over HTTPS: stories scrape with --metrics-auth=false": {
		"create tokenreviews.authentication.k8s.io *", "create subjectaccessreviews.authorization.k8s.io *",
	},
	"an Approval that expired": {"delete approvals.plumbline.dev plumbline-system"},
	"a version of the chart without an object that the one before has": {
		"delete clusterroles.rbac.authorization.k8s.io *", "delete clusterrolebindings.rbac.authorization.k8s.io *",
		"delete roles.rbac.authorization.k8s.io kube-system", "delete rolebindings.rbac.authorization.k8s.io kube-system",
		"delete deployments.apps kube-system", "delete services kube-system", "delete poddisruptionbudgets.policy kube-system",
	},
	"more than five revisions of a release": {"delete secrets kube-system"},
	"a release whose status is pending":     {"get secrets kube-system"},
	"a node that does not terminate, or did without a cause that is known": {
		"get nodeclaims.karpenter.sh *", "get nodes *",
	},
	"the namespace of plumbline is being deleted, and with it the Roles in it (plumbline-guard-nodesyncs denies it in other namespaces)": {
		"get nodesyncs.plumbline.dev *", "patch nodesyncs.plumbline.dev *", "get namespaces *",
	},
	"a pod that fails on a node of a wave": {
		"get deployments.apps *", "get replicasets.apps *", "get controllerrevisions.apps *",
	},
	"a pod of Karpenter's controller that does not become Ready":    {"list events kube-system"},
	"a NodeSync in a namespace that no daemon serves":               {"patch nodesyncs.plumbline.dev/status *"},
	"a source of Flux of another kind, or in plumbline's namespace": sources(),
}

// sources returns the permissions for Flux's sources except those that the story of a GitRepository in flux-system
// uses: its watch lists only on servers without WatchList.
func sources() []string {
	var all []string
	for _, kind := range []string{"gitrepositories", "ocirepositories", "buckets", "externalartifacts"} {
		for _, verb := range []string{"get", "list", "watch"} {
			all = append(all, verb+" "+kind+".source.toolkit.fluxcd.io plumbline-system")
			if kind != "gitrepositories" || verb == "list" {
				all = append(all, verb+" "+kind+".source.toolkit.fluxcd.io flux-system")
			}
		}
	}
	return all
}

// TestRightsAreUsed: each permission of the daemon is used by a story (tests/stories/testdata/rights.txt, from the API
// server's audit log), in the same namespace, or has a reason in unused.
func TestRightsAreUsed(t *testing.T) {
	used, unused := usedRights(t), reasons(t)
	granted := map[string]bool{}
	for _, o := range append(build(t, "."), optional(t)...) {
		if o.Metadata.Name == "plumbline-charts-karpenter" || !slices.Contains(daemonRoles(t), o.Metadata.Name) {
			continue // the former only grants what Karpenter gets: policies prevent plumbline from using it
		}
		for _, rule := range o.Rules {
			for _, right := range expand(o.Metadata.Namespace, rule) {
				granted[right] = true
			}
		}
	}
	for right := range granted {
		switch isUsed := used(right); {
		case !isUsed && unused[right] == "":
			t.Errorf("%s is granted, and no story in rights.txt uses it: remove the rule, record a story that uses it (-rights), or add a reason", right)
		case isUsed && unused[right] != "":
			t.Errorf("%s is used by a story: remove it from unused", right)
		}
	}
	for right := range unused {
		if !granted[right] {
			t.Errorf("%s is in unused, and no role grants it", right)
		}
	}
}

// reasons returns those of unused, by permission.
func reasons(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for why, rights := range unused {
		for _, right := range rights {
			if all[right] != "" {
				t.Errorf("%s is in unused twice", right)
			}
			all[right] = why
		}
	}
	return all
}

// daemonRoles returns the roles that are bound to the daemon's ServiceAccount.
func daemonRoles(t *testing.T) []string {
	t.Helper()
	var roles []string
	for _, o := range append(build(t, "."), optional(t)...) {
		var binding rbacv1.RoleBinding
		if !strings.HasSuffix(o.Kind, "RoleBinding") || yaml.Unmarshal(o.text, &binding) != nil {
			continue
		}
		if slices.ContainsFunc(binding.Subjects, func(s rbacv1.Subject) bool { return s.Kind == "ServiceAccount" && s.Name == "plumbline" }) {
			roles = append(roles, binding.RoleRef.Name)
		}
	}
	return roles
}

// optional returns the objects in the folder optional.
func optional(t *testing.T) []object {
	t.Helper()
	files, err := filepath.Glob("optional/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("the folder optional has %d files: %v", len(files), err)
	}
	var all []object
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, objectsOf(t, text)...)
	}
	return all
}

// expand returns the permissions of a rule: "list pods *", where * stands for all namespaces.
func expand(namespace string, rule rbacv1.PolicyRule) []string {
	if namespace == "" {
		namespace = "*"
	}
	var all []string
	for _, group := range rule.APIGroups {
		for _, resource := range rule.Resources {
			resource, sub, _ := strings.Cut(resource, "/")
			if group != "" {
				resource += "." + group
			}
			if sub != "" {
				resource += "/" + sub
			}
			for _, verb := range rule.Verbs {
				all = append(all, verb+" "+resource+" "+namespace)
			}
		}
	}
	return all
}

// usedRights reports whether stories use a permission. One for all namespaces is used if a story reads all of them at
// once, or one that is neither plumbline's nor Karpenter's.
func usedRights(t *testing.T) func(right string) bool {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "tests", "stories", "testdata", "rights.txt"))
	if err != nil {
		t.Fatal(err)
	}
	used := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) != 4 || fields[0] == "#" {
			continue
		}
		if namespace := fields[2]; namespace != "plumbline-system" && namespace != "kube-system" {
			used[fields[0]+" "+fields[1]+" *"] = true
		}
		used[strings.Join(fields[:3], " ")] = true
	}
	return func(right string) bool { return used[right] }
}

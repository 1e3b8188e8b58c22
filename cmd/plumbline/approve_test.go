package main

import (
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/approval"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

const (
	heldDigest    = "sha256:1f0c9a3b7d211f0c9a3b7d211f0c9a3b7d211f0c9a3b7d211f0c9a3b7d211f0c"
	approvalsPath = "/apis/plumbline.dev/v1alpha1/namespaces/fleet/approvals"
	policiesPath  = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/"
	bindingsPath  = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings/"
)

// heldSync returns a NodeSync that holds something that people may approve.
func heldSync(changes ...func(*v1alpha1.NodeSync)) *v1alpha1.NodeSync {
	return nodeSync("prod", append([]func(*v1alpha1.NodeSync){ready("False", v1alpha1.ReasonHeld, "held"), func(n *v1alpha1.NodeSync) {
		n.UID = "11"
		n.Status.Held = &v1alpha1.HeldPlan{
			Digest: heldDigest, Outcome: "x", Summary: "drains 42 of 60 nodes in 1 pool", Nodes: 42, Needed: 1,
			Entries: []v1alpha1.ApprovedEntry{{Kind: "NodePool", Name: "batch", UID: "b", Nodes: 42}},
		}
	}}, changes...)...)
}

// guard makes the server verify who approves, with the policy of the manifests.
func (s *apiServer) guard(created time.Time) {
	raw, err := os.ReadFile("../../manifests/guard/approvals.yaml")
	if err != nil {
		s.t.Fatal(err)
	}
	policy, binding, _ := strings.Cut(string(raw), "\n---\n")
	for path, text := range map[string]string{policiesPath: policy, bindingsPath: binding} {
		object := map[string]any{}
		if err := yaml.Unmarshal([]byte(text), &object); err != nil {
			s.t.Fatal(err)
		}
		metadata, _ := object["metadata"].(map[string]any)
		metadata["uid"], metadata["creationTimestamp"] = path, created.UTC().Format(time.RFC3339)
		s.objects[path+approval.PolicyName] = object
	}
}

// TestApproveRefuses: each mistake is one line with instructions, and no Approval is created.
func TestApproveRefuses(t *testing.T) {
	short := render.ShownDigest(heldDigest)
	for name, c := range map[string]struct {
		sync  *v1alpha1.NodeSync
		given func(*apiServer)
		args  []string
		code  int
		says  []string
	}{
		"no digest":        {sync: heldSync(), code: exitHeld, says: []string{"nothing was approved: the input is no terminal to confirm on; in a script: plumbline approve prod -n fleet --digest " + short + " --yes"}},
		"no confirmation":  {sync: heldSync(), args: []string{"--digest", short}, code: exitFailed, says: []string{"no terminal to confirm on: add --yes"}},
		"yes to anything":  {sync: heldSync(), args: []string{"--yes"}, code: exitFailed, says: []string{"--yes needs --digest"}},
		"twelve digits":    {sync: heldSync(), args: []string{"--digest", heldDigest[:19], "--yes"}, code: exitFailed, says: []string{heldDigest[:19] + " is not the digest of what", "--digest " + short}},
		"no such NodeSync": {sync: nodeSync("stage"), args: []string{"--digest", short}, code: exitFailed, says: []string{"read NodeSync fleet/prod", "does not exist", "plumbline get -A"}},
		"nothing is held":  {sync: nodeSync("prod", ready("True", "Succeeded", "applied")), args: []string{"--digest", short}, code: exitFailed, says: []string{"nothing is held of", "plumbline status prod -n fleet"}},
		"what nobody may approve": {
			sync: nodeSync("prod", ready("False", v1alpha1.ReasonHeld, "NodePool/batch: HEAD is older than the applied revision")), args: []string{"--digest", short}, code: exitFailed,
			says: []string{"cannot be approved", "HEAD is older than the applied revision"},
		},
		"another digest":     {sync: heldSync(), args: []string{"--digest", strings.Repeat("a", 26)}, code: exitFailed, says: []string{strings.Repeat("a", 26) + " is not the digest of what", "--digest " + short}},
		"too few letters":    {sync: heldSync(), args: []string{"--digest", short[:len(short)-1]}, code: exitFailed, says: []string{"is not the digest of what"}},
		"not for so long":    {sync: heldSync(), args: []string{"--digest", short, "--expires", "169h"}, code: exitFailed, says: []string{"--expires 169h0m0s", "at most 168h"}},
		"not for no time":    {sync: heldSync(), args: []string{"--digest", short, "--expires", "0s"}, code: exitFailed, says: []string{"must be more than 0"}},
		"no right":           {sync: heldSync(), given: func(s *apiServer) { s.refused[approvalsPath] = http.StatusForbidden }, args: []string{"--digest", short, "--yes"}, code: exitFailed, says: []string{"you are ann, who may not approve in namespace fleet", "kubectl create rolebinding NAME --clusterrole plumbline-approver --user ann -n fleet"}},
		"a ServiceAccount":   {sync: heldSync(), given: func(s *apiServer) { s.user = "system:serviceaccount:ci:deployer" }, args: []string{"--digest", short, "--yes"}, code: exitFailed, says: []string{"a ServiceAccount cannot approve"}},
		"the CRD is missing": {sync: heldSync(), given: func(s *apiServer) { s.unlisted = map[string]bool{v1alpha1.ApprovalKind: true} }, args: []string{"--digest", short, "--yes"}, code: exitFailed, says: []string{"the CRD approvals.plumbline.dev is missing", "manifests/crd"}},
		"the daemon cannot": {
			sync: heldSync(func(n *v1alpha1.NodeSync) { n.Status.Held.Message = approval.Nothing + "give it the rule" }), args: []string{"--digest", short}, code: exitFailed,
			says: []string{"nothing can be approved: give it the rule"},
		},
		"the policy is missing":  {sync: heldSync(), given: func(s *apiServer) { delete(s.objects, policiesPath+approval.PolicyName) }, args: []string{"--digest", short}, code: exitFailed, says: []string{"an Approval would not count", "ValidatingAdmissionPolicy plumbline-guard-approvals is missing", "manifests/guard"}},
		"the binding is missing": {sync: heldSync(), given: func(s *apiServer) { delete(s.objects, bindingsPath+approval.PolicyName) }, args: []string{"--digest", short}, code: exitFailed, says: []string{"ValidatingAdmissionPolicyBinding plumbline-guard-approvals is missing"}},
		"the policy is too new":  {sync: heldSync(), given: func(s *apiServer) { s.guard(time.Now()) }, args: []string{"--digest", short}, code: exitFailed, says: []string{"does not count yet", "approve again in"}},
		"a server in alarm":      {sync: heldSync(), given: func(s *apiServer) { s.refused[policiesPath] = http.StatusInternalServerError }, args: []string{"--digest", short}, code: exitFailed, says: []string{"read ValidatingAdmissionPolicy plumbline-guard-approvals"}},
	} {
		t.Run(name, func(t *testing.T) {
			s, kubeconfig := serve(t, c.sync)
			s.user = "ann"
			s.guard(time.Now().Add(-time.Hour))
			if c.given != nil {
				c.given(s)
			}
			got := plumbline(t, append([]string{"approve", "prod", "--kubeconfig", kubeconfig}, c.args...)...)
			if got.code != c.code || strings.Count(got.err, "\n") != 1 {
				t.Errorf("code %d, says %q", got.code, got.err)
			}
			for _, words := range c.says {
				if !strings.Contains(got.err, words) {
					t.Errorf("says %q, want %q in it", got.err, words)
				}
			}
			for path := range s.objects {
				if strings.HasPrefix(path, approvalsPath) {
					t.Errorf("%s was created", path)
				}
			}
		})
	}
}

// TestApprove: the Approval names exactly what is held, and the user; a user who may not read the policy can approve,
// because the daemon reads it. With --wait, it prints what the daemon makes of it.
func TestApprove(t *testing.T) {
	used := func(n *v1alpha1.NodeSync) {
		n.Status.Held, n.Status.UsedApprovals = nil, []types.UID{"prod-1"}
	}
	for name, c := range map[string]struct {
		args  []string
		given func(*apiServer)
		then  func(*v1alpha1.NodeSync)
		code  int
		says  string
	}{
		"approved":                {code: exitDone, says: "approval/prod-1 created by ann"},
		"the policy is secret":    {given: func(s *apiServer) { s.refused[policiesPath] = http.StatusForbidden }, code: exitDone, says: "approval/prod-1 created by ann"},
		"counted":                 {args: []string{"--wait"}, then: used, code: exitDone, says: "approved, it goes ahead"},
		"one of two":              {args: []string{"--wait"}, then: func(n *v1alpha1.NodeSync) { n.Status.Held.Needed, n.Status.Held.Approvers = 2, []string{"ann"} }, code: exitHeld, says: "1 of 2 have approved: ann"},
		"it does not count":       {args: []string{"--wait"}, then: func(n *v1alpha1.NodeSync) { n.Status.Held.Message = "Approval prod-1 by ann does not count" }, code: exitFailed, says: "does not count"},
		"something else is held":  {args: []string{"--wait"}, then: func(n *v1alpha1.NodeSync) { n.Status.Held.Digest = "sha256:2" }, code: exitHeld, says: "the held changes are different now"},
		"the daemon says nothing": {args: []string{"--wait", "--wait-timeout", "1ms"}, code: exitStalled, says: "the daemon has not counted the Approval"},
	} {
		t.Run(name, func(t *testing.T) {
			s, kubeconfig := serve(t, heldSync())
			s.user = "ann"
			s.guard(time.Now().Add(-time.Hour))
			if c.given != nil {
				c.given(s)
			}
			s.created = func(s *apiServer) {
				if sync, ok := s.objects[syncPath+"prod"].(*v1alpha1.NodeSync); ok && c.then != nil {
					c.then(sync)
				}
			}
			got := plumbline(t, append([]string{"approve", "prod", "--kubeconfig", kubeconfig, "--yes", "--digest", render.ShownDigest(heldDigest), "--reason", "moves", "--expires", "2h"}, c.args...)...)
			if got.code != c.code || !strings.Contains(got.err, c.says) {
				t.Errorf("code %d, says %q", got.code, got.err)
			}
			if !strings.Contains(got.out, "drains 42 of 60 nodes") || !strings.Contains(got.out, "NodePool/batch") {
				t.Errorf("prints %q", got.out)
			}
			s.checkApproval(t)
		})
	}
}

// checkApproval compares the created Approval.
func (s *apiServer) checkApproval(t *testing.T) {
	t.Helper()
	created, _ := s.objects[approvalsPath+"/prod-1"].(map[string]any)
	spec, _ := created["spec"].(map[string]any)
	for field, want := range map[string]string{"nodeSync": "prod", "uid": "11", "digest": heldDigest, "author": "ann", "reason": "moves"} {
		if spec[field] != want {
			t.Errorf("spec.%s: %v, want %s", field, spec[field], want)
		}
	}
	expires := metav1.Time{}
	if err := expires.UnmarshalQueryParameter(asText(spec["expiresAt"])); err != nil || time.Until(expires.Time) > 2*time.Hour || time.Until(expires.Time) < time.Hour {
		t.Errorf("spec.expiresAt: %v: %v", spec["expiresAt"], err)
	}
}

func asText(value any) string {
	text, _ := value.(string)
	return text
}

// TestApproveShowsWhatItCovers: the table contains the reasons, and the pods that would be pending.
func TestApproveShowsWhatItCovers(t *testing.T) {
	_, kubeconfig := serve(t, heldSync(func(n *v1alpha1.NodeSync) {
		e := &n.Status.Held.Entries[0]
		e.Reasons = []string{"MaxRemovedPools", "UnschedulablePods"}
		e.UnschedulablePods = []v1alpha1.PendingPods{{Workload: "web/Deployment/api", Pods: 1}, {Workload: "web/StatefulSet/db", Pods: 3}}
	}))
	got := plumbline(t, "approve", "prod", "--kubeconfig", kubeconfig)
	const want = "MaxRemovedPools, UnschedulablePods; pending: 1 pod of web/Deployment/api, 3 pods of web/StatefulSet/db"
	if !strings.Contains(strings.Join(strings.Fields(got.out), " "), want) {
		t.Errorf("prints\n%s\nwant %q", got.out, want)
	}
}

// TestApprovalOfAPlan: a plan reports whether the daemon holds the same change already.
func TestApprovalOfAPlan(t *testing.T) {
	made := &plan.Plan{Approvable: &plan.Approvable{Digest: "sha256:a", Outcome: "sha256:b"}}
	for name, test := range map[string]struct {
		held *v1alpha1.HeldPlan
		want string
	}{
		"nothing is held":     {nil, "held, once the daemon has this commit: "},
		"another commit's is": {&v1alpha1.HeldPlan{Digest: "sha256:c", Outcome: "sha256:d"}, "held, once the daemon has this commit: "},
		"it is held":          {&v1alpha1.HeldPlan{Digest: "sha256:a", Outcome: "sha256:b"}, "held: "},
	} {
		t.Run(name, func(t *testing.T) {
			if _, how := approvalOf(&v1alpha1.NodeSync{Status: v1alpha1.NodeSyncStatus{Held: test.held}}, made); !strings.HasPrefix(how, test.want) {
				t.Errorf("%q, want %q", how, test.want)
			}
		})
	}
}

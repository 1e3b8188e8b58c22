package evaluate

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// TestApprovedInGit shows that what plumbline.yaml of HEAD approves is recorded, and needs neither an Approval nor its
// CRD; an Approval still counts.
func TestApprovedInGit(t *testing.T) {
	for name, c := range map[string]struct {
		from    v1alpha1.ApproveFrom
		digests []string
		by      string
		serves  bool
		says    string
		want    string
	}{
		"in Git":                       {from: v1alpha1.ApproveFromGit, digests: []string{otherDigest, digest}, want: "plumbline.yaml of main@sha1:01234567"},
		"another digest":               {from: v1alpha1.ApproveFromGit, digests: []string{otherDigest}, serves: true, says: "has other digests"},
		"another digest, and a person": {from: v1alpha1.ApproveFromGit, digests: []string{otherDigest}, serves: true, by: "ann", want: "ann"},
		"in the cluster only":          {from: v1alpha1.ApproveFromCluster, digests: []string{digest}, serves: true, says: "spec.guard.approveFrom of the NodeSync is not Git"},
	} {
		t.Run(name, func(t *testing.T) {
			s := planStep(nodeSync(func(n *v1alpha1.NodeSync) { n.Spec.Guard.ApproveFrom = c.from }))
			s.Karpenter, s.Snapshot = &render.Karpenter{Approve: c.digests}, &render.Snapshot{Revision: "main@sha1:0123456789abcdef0123456789abcdef01234567"}
			objects := guarded(t)
			if c.by != "" {
				objects = append(objects, client.Object(approvalBy(s, c.by, nil)))
			}
			server := api(t, "", objects...)
			s.Cached, s.Uncached, s.Expire = server, server, server
			s.ServesApprovals = func() (bool, error) { return c.serves, nil }
			planned := &Planned{Plan: &plan.Plan{Approvable: shown()}}
			planned.Removals = []plan.Candidate{{Ref: render.Ref{Kind: "NodePool", Name: "batch"}, UID: "b"}}
			listed, err := s.listApprovals(t.Context())
			if err := errors.Join(err, s.weighApprovals(t.Context(), planned, listed)); err != nil {
				t.Fatal(err)
			}
			by, message := "", ""
			if approved := planned.approvals.approved; len(approved) > 0 {
				by = strings.Join(approved[0].By, ", ")
			}
			if held := planned.approvals.held; held != nil {
				message = held.Message
			}
			if by != c.want || !strings.Contains(message, c.says) || (c.says == "") != (message == "") {
				t.Errorf("approved by %q, it says %q; want %q and %q", by, message, c.want, c.says)
			}
			if c.want != "" && (planned.approvals.held != nil || s.WakeAt != s.Now) {
				t.Errorf("held %v, next pass at %s", planned.approvals.held, s.WakeAt)
			}
		})
	}
}

// TestADigestInGitCountsOnce shows that what was carried out is held again if another push restores it, although the
// list still has its digest; once HEAD no longer has it, it may be added again.
func TestADigestInGitCountsOnce(t *testing.T) {
	status := v1alpha1.NodeSyncStatus{}
	for _, pass := range []struct {
		name    string
		approve []string
		// held reports whether the guard holds something, and does whether the Plan carries it out.
		held, does bool
		approved   bool
		says       string
		used       []string
	}{
		{name: "held", held: true, does: true},
		{name: "approved in Git", approve: []string{digest}, held: true, does: true, approved: true, used: []string{digest}},
		{name: "going on", approve: []string{digest}, does: true, approved: true, used: []string{digest}},
		{name: "done", approve: []string{otherDigest, digest}, used: []string{digest}},
		{name: "held again", approve: []string{digest}, held: true, does: true, says: "was used already", used: []string{digest}},
		{name: "no change", approve: []string{digest}, held: true, does: true, says: "was used already", used: []string{digest}},
		{name: "taken out", approve: []string{otherDigest}, held: true, does: true, says: "has other digests"},
		{name: "added again", approve: []string{digest}, held: true, does: true, approved: true, used: []string{digest}},
		{name: "done again, the list is gone"},
	} {
		s := planStep(nodeSync(func(n *v1alpha1.NodeSync) { n.Spec.Guard.ApproveFrom, n.Status = v1alpha1.ApproveFromGit, status }))
		s.Karpenter, s.Snapshot = &render.Karpenter{Approve: pass.approve}, &render.Snapshot{Revision: "main@sha1:0123456789abcdef0123456789abcdef01234567"}
		server := api(t, "")
		s.Cached, s.Uncached, s.Expire = server, server, server
		s.ServesApprovals = func() (bool, error) { return true, nil }
		planned := Planned{Plan: &plan.Plan{}}
		if pass.held {
			planned.Approvable = shown()
		}
		if pass.does {
			planned.Removals = []plan.Candidate{{Ref: render.Ref{Kind: "NodePool", Name: "batch"}, UID: "b"}}
		}
		listed, err := s.listApprovals(t.Context())
		if err := errors.Join(err, s.weighApprovals(t.Context(), &planned, listed)); err != nil {
			t.Fatal(err)
		}
		noted := &v1alpha1.NodeSync{}
		planned.Note(t.Context(), noted, nil)
		status = noted.Status
		message := ""
		if status.Held != nil {
			message = status.Held.Message
		}
		if (len(status.Approved) > 0) != pass.approved || !strings.Contains(message, pass.says) || pass.says == "" && message != "" {
			t.Errorf("%s: approved %v, it says %q", pass.name, status.Approved, message)
		}
		if diff := cmp.Diff(pass.used, status.UsedGitApprovals); diff != "" {
			t.Errorf("%s: used (-want +got):\n%s", pass.name, diff)
		}
	}
}

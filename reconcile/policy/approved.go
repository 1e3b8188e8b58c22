package policy

import (
	"context"
	"fmt"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/approval"
	"github.com/plumbline-dev/plumbline/reconcile/fault"
	"github.com/plumbline-dev/plumbline/render"
)

// approvals are what of a Plan is held, what people have approved of it, and which of their
// Approvals have counted, as the status has them.
type approvals struct {
	held     *v1alpha1.HeldPlan
	approved []v1alpha1.ApprovedPlan
	used     []types.UID
	// usedInGit are the digests in plumbline.yaml that have counted.
	usedInGit []string
}

// weighApprovals looks for Approvals of what is held. What they approve is recorded, and the next
// pass does it.
func (s *Step) weighApprovals(ctx context.Context, planned *Planned) error {
	before, was := s.Before, &planned.approvals
	was.held = approval.Publish(before.Held, planned.Approvable, s.Sync.GetNeededApprovals())
	was.approved = planned.LeftOf(before.Approved)
	was.used, was.usedInGit = before.UsedApprovals, before.UsedGitApprovals
	inGit := s.approvesInGit(was)
	if was.held == nil && len(was.used) == 0 {
		return nil
	}
	if inGit {
		s.approved(was)
		return nil
	}
	if serves, refused := s.ServesApprovals(); !serves {
		if was.held != nil {
			was.held.Message = unserved(refused)
		}
		return nil
	}
	all := &v1alpha1.ApprovalList{}
	if err := s.Cached.List(ctx, all, client.InNamespace(s.Sync.Namespace)); err != nil {
		return fmt.Errorf("read the Approvals: %w", err)
	}
	of := approval.Of(s.Sync, all.Items)
	naming := approval.Naming(was.held, of, was.used, s.Now)
	if len(naming) > 0 {
		proof, err := s.prove(ctx)
		if err != nil {
			return err
		}
		if approval.Weigh(was.held, naming, proof, s.Sync.Spec.Guard.TrustedSessions) {
			was.used = approval.Used(was.used, of, naming)
			s.approved(was)
			return nil
		}
	}
	was.used = approval.Used(was.used, of, nil)
	return s.expire(ctx, of)
}

// approvesInGit says whether HEAD approves what is held, and notes that its digest has counted then: what
// it approves goes on by what is recorded as approved.
func (s *Step) approvesInGit(was *approvals) bool {
	if s.Karpenter == nil || s.Snapshot == nil {
		return false
	}
	digests := s.Karpenter.Approve
	was.usedInGit = approval.UsedInGit(was.usedInGit, digests)
	if !approval.InGit(was.held, s.Sync.Spec.Guard, digests, was.usedInGit, s.Snapshot.Revision) {
		return false
	}
	was.usedInGit = append(was.usedInGit, was.held.Digest)
	return true
}

// approved records what is held as approved.
func (s *Step) approved(was *approvals) {
	was.approved = approval.Record(was.approved, was.held, s.Now)
	s.Event(v1alpha1.ReasonApproved, fmt.Sprintf("%s approved %s: %s", strings.Join(was.held.Approvers, ", "), render.ShownDigest(was.held.Digest), was.held.Summary))
	s.WakeBy(s.Now)
	was.held = nil
}

// unserved says why nothing can be approved where Approvals are not watched.
func unserved(refused error) string {
	if refused == nil {
		return approval.NotServed
	}
	return approval.Nothing + fault.Classify(refused).Error()
}

// prove reads, past the cache, whether the API server checks who makes an Approval.
func (s *Step) prove(ctx context.Context) (approval.Proof, error) {
	proof, err := ReadProof(ctx, s.Uncached)
	if apierrors.IsForbidden(err) {
		return approval.Proof{Missing: fault.Classify(fmt.Errorf("read whether the API server checks who approves: %w", err)).Error()}, nil
	}
	if err != nil {
		return approval.Proof{}, fmt.Errorf("read whether the API server checks who approves: %w", err)
	}
	return proof, nil
}

// ReadProof reads whether the API server checks who makes an Approval; the error is the API server's.
func ReadProof(ctx context.Context, c client.Reader) (approval.Proof, error) {
	policy, binding := &admissionv1.ValidatingAdmissionPolicy{}, &admissionv1.ValidatingAdmissionPolicyBinding{}
	for _, object := range []client.Object{policy, binding} {
		err := c.Get(ctx, types.NamespacedName{Name: approval.PolicyName}, object)
		if client.IgnoreNotFound(err) != nil {
			return approval.Proof{}, err
		}
	}
	if policy.UID == "" {
		policy = nil
	}
	if binding.UID == "" {
		binding = nil
	}
	return approval.Prove(policy, binding), nil
}

// expire deletes the Approvals that have expired.
func (s *Step) expire(ctx context.Context, of []v1alpha1.Approval) error {
	for i := range of {
		a := &of[i]
		if s.Now.Before(approval.ExpiresAt(a)) || !a.DeletionTimestamp.IsZero() {
			continue
		}
		err := s.Expire.Delete(ctx, a, client.Preconditions{UID: &a.UID})
		switch {
		case err == nil, apierrors.IsNotFound(err), apierrors.IsConflict(err):
		case apierrors.IsForbidden(err): // it counts no more anyway
			forbidden := fault.Classify(fmt.Errorf("delete Approval %s, which has expired: %w", a.Name, err))
			s.Warn(forbidden.Reason, forbidden.Error())
		default:
			return fmt.Errorf("delete Approval %s, which has expired: %w", a.Name, err)
		}
	}
	return nil
}

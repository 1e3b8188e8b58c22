package evaluate

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	apischema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/apply/applytest"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
	"github.com/plumbline-dev/plumbline/render/schema"
)

const (
	digest      = "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	otherDigest = "sha256:bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
)

// guarded returns the shipped policy that requires Approvals to name their author, and its binding.
func guarded(t *testing.T) []client.Object {
	t.Helper()
	file, err := os.Open("../../manifests/guard/approvals.yaml")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	decoder := yaml.NewYAMLOrJSONDecoder(file, 4096)
	policy, binding := &admissionv1.ValidatingAdmissionPolicy{}, &admissionv1.ValidatingAdmissionPolicyBinding{}
	for _, object := range []client.Object{policy, binding} {
		if err := decoder.Decode(object); err != nil {
			t.Fatal(err)
		}
		object.SetUID(types.UID(object.GetName()))
		object.SetCreationTimestamp(metav1.NewTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)))
	}
	return []client.Object{policy, binding}
}

// approvalBy returns an Approval that is one minute old.
func approvalBy(s *PlanStep, author string, change func(*v1alpha1.Approval)) *v1alpha1.Approval {
	a := &v1alpha1.Approval{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "by-" + author, UID: types.UID("uid-" + author), CreationTimestamp: metav1.NewTime(s.Now.Add(-time.Minute))},
		Spec:       v1alpha1.ApprovalSpec{NodeSync: s.Sync.Name, UID: s.Sync.UID, Digest: digest, Author: author, ExpiresAt: metav1.NewTime(s.Now.Add(time.Hour))},
	}
	if change != nil {
		change(a)
	}
	return a
}

// api returns an API server that has objects, and refuses some verbs.
func api(t *testing.T, refuses string, objects ...client.Object) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1alpha1.AddToScheme, admissionv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	forbidden := func(verb, group, resource, where string) error {
		return apierrors.NewForbidden(apischema.GroupResource{Group: group, Resource: resource}, "x", errors.New(
			`User "system:serviceaccount:plumbline-system:plumbline" cannot `+verb+` resource "`+resource+`" in API group "`+group+`" `+where))
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if _, policy := o.(*admissionv1.ValidatingAdmissionPolicy); policy && refuses == "get" {
				return forbidden("get", "admissionregistration.k8s.io", "validatingadmissionpolicies", "at the cluster scope")
			}
			return c.Get(ctx, key, o, opts...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			if refuses == "delete" {
				return forbidden("delete", "plumbline.dev", "approvals", `in the namespace "plumbline-system"`)
			}
			return c.Delete(ctx, o, opts...)
		},
		List: func(ctx context.Context, c client.WithWatch, l client.ObjectList, opts ...client.ListOption) error {
			if refuses == "list" {
				return errors.New("the cache was read although it has no Approvals")
			}
			return c.List(ctx, l, opts...)
		},
	}).Build()
}

// approving is a case of what people have approved, and its outcome.
type approving struct {
	needed int32
	used   []types.UID
	// by returns the Approvals.
	by func(*PlanStep) []client.Object
	// serves and unserved are the state of the watch of Approvals; unguarded is a cluster without the policy, and
	// refuses is a verb that the API server denies.
	serves    bool
	unserved  error
	unguarded bool
	refuses   string
	// approved are the people by whom it is recorded as approved, and waits those whose approvals are not enough yet.
	approved, waits []string
	// says is in the message, event in an event, and left is the number of remaining Approvals.
	says, event string
	left        int
}

// shown returns what is held, with its objects.
func shown() *plan.Approvable {
	return &plan.Approvable{Digest: digest, Outcome: "x", Drained: 30, Entries: []v1alpha1.ApprovedEntry{{Kind: "NodePool", Name: "batch", UID: "b", Nodes: 30}}}
}

// TestWhatIsApproved shows which Approvals of what is held count, and what is recorded and reported.
func TestWhatIsApproved(t *testing.T) {
	for name, c := range map[string]approving{
		"one person": {
			serves: true, by: func(s *PlanStep) []client.Object { return []client.Object{approvalBy(s, "ann", nil)} },
			approved: []string{"ann"}, event: "ann approved " + render.ShownDigest(digest) + ": drains", left: 1,
		},
		"one of two": {
			serves: true, needed: 2, by: func(s *PlanStep) []client.Object { return []client.Object{approvalBy(s, "ann", nil)} },
			waits: []string{"ann"}, left: 1,
		},
		"one person twice, of two": {
			serves: true, needed: 2, by: func(s *PlanStep) []client.Object {
				return []client.Object{approvalBy(s, "ann", nil), approvalBy(s, "ann", func(a *v1alpha1.Approval) { a.Name, a.UID = "again", "again" })}
			},
			waits: []string{"ann"}, left: 2,
		},
		"two people": {
			serves: true, needed: 2, by: func(s *PlanStep) []client.Object {
				return []client.Object{approvalBy(s, "ben", nil), approvalBy(s, "ann", nil)}
			},
			approved: []string{"ann", "ben"}, event: "ann, ben approved", left: 2,
		},
		"another digest": {
			serves: true, left: 1,
			by: func(s *PlanStep) []client.Object {
				return []client.Object{approvalBy(s, "ann", func(a *v1alpha1.Approval) { a.Spec.Digest = otherDigest })}
			},
		},
		"of a NodeSync that was created again": {
			serves: true, left: 1,
			by: func(s *PlanStep) []client.Object {
				return []client.Object{approvalBy(s, "ann", func(a *v1alpha1.Approval) { a.Spec.UID = "before" })}
			},
		},
		"counted before": {
			serves: true, used: []types.UID{"uid-ann"}, left: 1,
			by: func(s *PlanStep) []client.Object { return []client.Object{approvalBy(s, "ann", nil)} },
		},
		"expired: deleted": {
			serves: true,
			by: func(s *PlanStep) []client.Object {
				return []client.Object{approvalBy(s, "ann", func(a *v1alpha1.Approval) { a.Spec.ExpiresAt = metav1.NewTime(s.Now) })}
			},
		},
		"expired, of a NodeSync that is gone: deleted": {
			serves: true,
			by: func(s *PlanStep) []client.Object {
				return []client.Object{approvalBy(s, "ann", func(a *v1alpha1.Approval) {
					a.Spec.NodeSync, a.Spec.UID, a.Spec.ExpiresAt = "gone", "gone", metav1.NewTime(s.Now)
				})}
			},
		},
		"expired, in another namespace": {
			serves: true, left: 1,
			by: func(s *PlanStep) []client.Object {
				return []client.Object{approvalBy(s, "ann", func(a *v1alpha1.Approval) {
					a.Namespace, a.Spec.ExpiresAt = "other", metav1.NewTime(s.Now)
				})}
			},
		},
		"expired, and may not be deleted": {
			serves: true, refuses: "delete", left: 1, event: `delete Approval by-ann, which has expired`,
			by: func(s *PlanStep) []client.Object {
				return []client.Object{approvalBy(s, "ann", func(a *v1alpha1.Approval) { a.Spec.ExpiresAt = metav1.NewTime(s.Now) })}
			},
		},
		"the policy is missing": {
			serves: true, unguarded: true, left: 1, says: "ValidatingAdmissionPolicy plumbline-guard-approvals is missing: apply manifests/guard",
			by: func(s *PlanStep) []client.Object { return []client.Object{approvalBy(s, "ann", nil)} },
		},
		"the policy may not be read": {
			serves: true, refuses: "get", left: 1,
			says: `the rule {apiGroups: ["admissionregistration.k8s.io"], resources: ["validatingadmissionpolicies"], verbs: ["get"]}`,
			by:   func(s *PlanStep) []client.Object { return []client.Object{approvalBy(s, "ann", nil)} },
		},
		"the CRD is missing": {refuses: "list", says: "nothing can be approved: the CRD approvals.plumbline.dev is missing", by: func(*PlanStep) []client.Object { return nil }},
		"Approvals may not be watched": {
			refuses: "list", by: func(*PlanStep) []client.Object { return nil },
			unserved: errors.New(`watch *v1alpha1.Approval: User "system:serviceaccount:plumbline-system:plumbline" cannot list resource "approvals" in API group "plumbline.dev" at the cluster scope`),
			says:     `the rule {apiGroups: ["plumbline.dev"], resources: ["approvals"], verbs: ["list"]}`,
		},
	} {
		t.Run(name, func(t *testing.T) { c.weigh(t) })
	}
}

// weigh weighs what is held, and compares the outcome.
func (c approving) weigh(t *testing.T) {
	s := planStep(nodeSync(func(n *v1alpha1.NodeSync) {
		n.Status.UsedApprovals = c.used
		if c.needed > 0 {
			n.Spec.Guard.Approvals = &c.needed
		}
	}))
	objects := c.by(s)
	if !c.unguarded {
		objects = append(objects, guarded(t)...)
	}
	server := api(t, c.refuses, objects...)
	s.Cached, s.Uncached, s.Expire = server, server, server
	s.ServesApprovals = func() (bool, error) { return c.serves, c.unserved }
	planned := &Planned{Plan: &plan.Plan{Approvable: shown()}}
	planned.Removals = []plan.Candidate{{Ref: render.Ref{Kind: "NodePool", Name: "batch"}, UID: "b"}}
	listed, err := s.listApprovals(t.Context())
	if err := errors.Join(err, s.weighApprovals(t.Context(), planned, listed), s.expireApprovals(t.Context(), listed.all)); err != nil {
		t.Fatal(err)
	}
	if c.approved != nil {
		want := []v1alpha1.ApprovedPlan{{Digest: digest, By: c.approved, At: metav1.NewTime(s.Now), Nodes: int32(shown().Nodes()), Entries: shown().Entries}}
		if diff := cmp.Diff(want, planned.approvals.approved); diff != "" || planned.approvals.held != nil || s.WakeAt != s.Now || len(planned.approvals.used) == 0 {
			t.Errorf("held %v, used %v, wakes at %s, approved (-want +got):\n%s", planned.approvals.held, planned.approvals.used, s.WakeAt, diff)
		}
	} else {
		held := planned.approvals.held
		if diff := cmp.Diff(c.waits, held.Approvers); diff != "" || len(planned.approvals.approved) > 0 || !strings.Contains(held.Message, c.says) || c.says == "" && held.Message != "" {
			t.Errorf("approved %v, says %q, by (-want +got):\n%s", planned.approvals.approved, held.Message, diff)
		}
	}
	if c.event == "" != (len(s.Notes) == 0) || c.event != "" && !strings.Contains(s.Notes[0].Message, c.event) {
		t.Errorf("events: %v", s.Notes)
	}
	if c.refuses != "list" {
		left := &v1alpha1.ApprovalList{}
		if err := server.List(t.Context(), left); err != nil || len(left.Items) != c.left {
			t.Errorf("%d Approvals left, want %d: %v", len(left.Items), c.left, err)
		}
	}
}

// TestApprovalsAreReadOnce shows that one list serves what is weighed and what has expired.
func TestApprovalsAreReadOnce(t *testing.T) {
	s := planStep(nodeSync(func(n *v1alpha1.NodeSync) { n.Status.UsedApprovals = []types.UID{"uid-ann"} }))
	cluster := applytest.New(t)
	s.Set = &render.Set{Revision: "main@sha1:2", Objects: []render.Object{cluster.Definition(t, strings.Replace(somePool, "NAME", "a", 1))}}
	s.Snapshot, s.Live.Objects = &render.Snapshot{Revision: "main@sha1:2"}, plan.NewObjects(cluster.Objects())
	validator, err := schema.New(applytest.CRDs())
	if err != nil {
		t.Fatal(err)
	}
	s.Schema = validator
	server := api(t, "", approvalBy(s, "ann", nil), approvalBy(s, "ben", func(a *v1alpha1.Approval) { a.Spec.ExpiresAt = metav1.NewTime(s.Now) }))
	lists := 0
	s.Expire, s.Cached = server, interceptor.NewClient(server.(client.WithWatch), interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, l client.ObjectList, opts ...client.ListOption) error {
			if _, is := l.(*v1alpha1.ApprovalList); is {
				lists++
			}
			return c.List(ctx, l, opts...)
		},
	})
	planned, err := s.Make(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	left := &v1alpha1.ApprovalList{}
	if err := server.List(t.Context(), left); err != nil || len(left.Items) != 1 || len(planned.approvals.used) != 1 || lists != 1 {
		t.Errorf("%d lists, used %v, %d left: %v", lists, planned.approvals.used, len(left.Items), err)
	}
}

// TestNothingIsHeld shows that Approvals that have counted are remembered while they exist, and what was approved while
// the Plan has to carry it out.
func TestNothingIsHeld(t *testing.T) {
	batch := v1alpha1.ApprovedPlan{Digest: digest, By: []string{"ann"}, Entries: shown().Entries}
	s := planStep(nodeSync(func(n *v1alpha1.NodeSync) {
		n.Status.UsedApprovals = []types.UID{"uid-ann", "uid-gone"}
		n.Status.Approved = []v1alpha1.ApprovedPlan{batch, {Digest: otherDigest, Entries: []v1alpha1.ApprovedEntry{{Kind: "NodePool", Name: "done", UID: "d"}}}}
	}))
	server := api(t, "", approvalBy(s, "ann", nil))
	s.Cached, s.Expire = server, server
	planned := &Planned{Plan: &plan.Plan{Removals: []plan.Candidate{{Ref: render.Ref{Kind: "NodePool", Name: "batch"}, UID: "b"}}}}
	listed, err := s.listApprovals(t.Context())
	if err := errors.Join(err, s.weighApprovals(t.Context(), planned, listed)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]types.UID{"uid-ann"}, planned.approvals.used); diff != "" {
		t.Errorf("used (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]v1alpha1.ApprovedPlan{batch}, planned.approvals.approved); diff != "" {
		t.Errorf("approved (-want +got):\n%s", diff)
	}
}

// denying is an API server that denies the deletion of objects whose names match.
type denying struct {
	client.Client
	names *regexp.Regexp
}

func (d denying) Delete(ctx context.Context, o client.Object, opts ...client.DeleteOption) error {
	if d.names.MatchString(o.GetName()) {
		return errors.New("denied by a webhook")
	}
	return d.Client.Delete(ctx, o, opts...)
}

// TestManyExpiredApprovals are deleted in several reconciles, also those that follow one that cannot be deleted.
func TestManyExpiredApprovals(t *testing.T) {
	for name, c := range map[string]struct {
		denied string
		// left are the remaining Approvals after each reconcile, and wakes those that request another one.
		left     []int
		wakes    []bool
		warnings int
	}{
		"all can be deleted":                     {denied: "none", left: []int{70, 20, 0, 0}, wakes: []bool{true, true, false, false}},
		"some cannot be deleted":                 {denied: "a000|a060|a110", left: []int{71, 22, 3, 3}, wakes: []bool{true, true, false, false}, warnings: 1},
		"the first fifty cannot be deleted":      {denied: "a0[0-4]|a050|a119", left: []int{120, 71, 52, 52}, wakes: []bool{false, true, true, false}, warnings: 1},
		"none can be deleted: no reconcile soon": {denied: "", left: []int{120, 120}, wakes: []bool{false, false}, warnings: 1},
	} {
		t.Run(name, func(t *testing.T) {
			var objects []client.Object
			s := planStep(nodeSync(unchanged))
			for i := range 120 {
				objects = append(objects, approvalBy(s, fmt.Sprintf("a%03d", i), func(a *v1alpha1.Approval) { a.Spec.ExpiresAt = metav1.NewTime(s.Now) }))
			}
			server, memory := api(t, "", objects...), s.Memory
			for i, want := range c.left {
				s := planStep(nodeSync(unchanged))
				s.Cached, s.Expire, s.Memory = server, denying{server, regexp.MustCompile(c.denied)}, memory
				listed, err := s.listApprovals(t.Context())
				if err := errors.Join(err, s.expireApprovals(t.Context(), listed.all)); err != nil {
					t.Fatal(err)
				}
				left := &v1alpha1.ApprovalList{}
				if err := server.List(t.Context(), left); err != nil || len(left.Items) != want {
					t.Errorf("reconcile %d: %d Approvals left, want %d: %v", i, len(left.Items), want, err)
				}
				var wake time.Time
				if c.wakes[i] {
					wake = s.Now.Add(time.Second)
				}
				if len(s.Notes) != c.warnings || !s.WakeAt.Equal(wake) {
					t.Errorf("reconcile %d: wakes at %s, want %s; %d warnings", i, s.WakeAt, wake, len(s.Notes))
				}
			}
		})
	}
}

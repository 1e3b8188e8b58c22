package account

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
)

// protectedEC2 is what EC2 protects.
type protectedEC2 struct {
	on    map[string]bool
	fails map[string]error
	calls []string
}

func (e *protectedEC2) TerminationProtected(_ context.Context, providerID string) (bool, error) {
	id := cloud.InstanceID(providerID)
	e.calls = append(e.calls, "read "+id)
	return e.on[id], e.fails["read "+id]
}

func (e *protectedEC2) SetTerminationProtection(_ context.Context, id string, on bool) error {
	call := fmt.Sprintf("%s=%t", id, on)
	e.calls = append(e.calls, call)
	if err := e.fails[call]; err != nil {
		return err
	}
	e.on[id] = on
	return nil
}

// responder is a NodeSync whose response is carried out repeatedly.
type responder struct {
	t          *testing.T
	ec2        *protectedEC2
	memory     *ResponseMemory
	conflict   *v1alpha1.IdentityConflict
	on         v1alpha1.OnIdentityConflict
	claims     []plan.NodeClaim
	external   bool
	deleting   bool
	deployment *appsv1.Deployment
	now        time.Time
	lease      error
	notes      []string
}

func newResponder(t *testing.T, on v1alpha1.OnIdentityConflict) *responder {
	return &responder{
		t: t, ec2: &protectedEC2{on: map[string]bool{}, fails: map[string]error{}}, memory: &ResponseMemory{}, on: on, now: conflictNow,
		conflict: &v1alpha1.IdentityConflict{Since: metav1.NewTime(conflictNow), LastSign: metav1.NewTime(conflictNow), Proven: true},
		deployment: &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "karpenter", UID: "1"}, Spec: appsv1.DeploymentSpec{Replicas: new(int32(2))},
		},
	}
}

func claimOf(id, capacityType string) plan.NodeClaim {
	return plan.NodeClaim{Name: id, Pool: "general", ProviderID: "aws:///a/" + id, Labels: plan.PackLabels(map[string]string{"karpenter.sh/capacity-type": capacityType})}
}

// pass carries it out once, and records the result.
func (r *responder) pass() *Response {
	work := &Response{
		Controllers: func(context.Context) ([]appsv1.Deployment, error) { return []appsv1.Deployment{*r.deployment}, nil },
		Cloud:       func(context.Context) (ProtectionCloud, error) { return r.ec2, nil },
		StillLeader: func(context.Context) error { return r.lease },
		On:          r.on, External: r.external, Deleting: r.deleting, Claims: r.claims,
		Recorded: r.conflict.GetResponse(), Memory: r.memory, Now: r.now, Retry: time.Minute,
		Writer: fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
			Patch: func(_ context.Context, _ client.WithWatch, o client.Object, patch client.Patch, _ ...client.PatchOption) error {
				text, err := patch.Data(o)
				r.ec2.calls = append(r.ec2.calls, string(text))
				if strings.Contains(string(text), `"replicas":0`) {
					r.deployment.Spec.Replicas = new(int32(0))
				} else {
					r.deployment.Spec.Replicas = new(int32(2))
				}
				return err
			},
		}).Build(),
	}
	r.conflict.Response = work.Run(r.t.Context(), r.conflict)
	for _, n := range work.Notes {
		r.notes = append(r.notes, n.Message)
	}
	return work
}

func (r *responder) expect(step string, protected []string, calls ...string) {
	r.t.Helper()
	if diff := cmp.Diff(protected, r.conflict.GetResponse().Protected); diff != "" {
		r.t.Errorf("%s: recorded (-want +got):\n%s", step, diff)
	}
	if diff := cmp.Diff(calls, r.ec2.calls); diff != "" {
		r.t.Errorf("%s: calls (-want +got):\n%s", step, diff)
	}
	r.ec2.calls = nil
}

// TestProtect: instances are recorded before they are protected; those that a NodeClaim's deletion needs, and all once
// the conflict is over, are no longer protected, and what another client has protected stays so.
func TestProtect(t *testing.T) {
	r := newResponder(t, v1alpha1.IdentityConflictProtect)
	deleting := claimOf("i-d", "on-demand")
	deleting.Deleting = true
	r.claims = []plan.NodeClaim{claimOf("i-1", "on-demand"), claimOf("i-2", "on-demand"), claimOf("i-s", "spot"), claimOf("i-u", "on-demand"), deleting}
	r.ec2.on["i-u"] = true
	work := r.pass()
	r.expect("first", []string{"i-1", "i-2"}, "read i-1", "read i-2", "read i-u")
	if !work.WakeAt.Equal(r.now) {
		t.Errorf("next at %s", work.WakeAt)
	}
	r.pass()
	r.expect("then", []string{"i-1", "i-2"}, "i-1=true", "i-2=true")
	r.pass()
	r.expect("at rest", []string{"i-1", "i-2"})
	r.memory = &ResponseMemory{} // the daemon was restarted
	r.pass()
	r.expect("after a restart", []string{"i-1", "i-2"}, "i-1=true", "i-2=true", "read i-u")
	r.claims[0].Deleting = true
	r.pass()
	r.expect("a NodeClaim is deleted", []string{"i-2"}, "i-1=false")
	r.conflict = &v1alpha1.IdentityConflict{Response: r.conflict.Response}
	r.pass()
	r.expect("the conflict is over", nil, "i-2=false")
	if !r.ec2.on["i-u"] || r.ec2.on["i-1"] || r.ec2.on["i-2"] {
		t.Errorf("protected: %v", r.ec2.on)
	}
}

// TestProtectFails: without permission nothing is lost, and the command says which policy is missing; an instance that is
// gone needs no protection.
func TestProtectFails(t *testing.T) {
	r := newResponder(t, v1alpha1.IdentityConflictProtect)
	r.claims = []plan.NodeClaim{claimOf("i-1", "on-demand"), claimOf("i-2", ""), claimOf("i-3", "")}
	r.pass()
	r.ec2.calls = nil
	denied := &cloud.DeniedError{Action: "ec2:ModifyInstanceAttribute", Err: errors.New("no")}
	r.ec2.fails = map[string]error{"i-1=true": denied, "i-3=true": denied}
	work := r.pass()
	r.expect("denied for some", []string{"i-1", "i-2", "i-3"}, "i-1=true", "i-2=true", "i-3=true")
	if got := r.conflict.Response.Failure; !strings.Contains(got, "iam-policy-protect.json") || !work.WakeAt.Equal(r.now.Add(time.Minute)) {
		t.Errorf("failure %q, next at %s", got, work.WakeAt)
	}
	r.ec2.fails = map[string]error{
		"i-1=true": &cloud.AnswerError{Code: "InvalidInstanceID.NotFound"}, "i-3=true": &cloud.AnswerError{Code: "UnsupportedOperation"},
	}
	r.pass()
	r.expect("gone, and spot", []string{"i-2"}, "i-1=true", "i-3=true")
	r.pass()
	r.expect("not tried again", []string{"i-2"})
	if r.conflict.Response.Failure != "" {
		t.Errorf("left: %+v", r.conflict.Response)
	}
}

// TestOneThatStaysProtected: an instance whose protection cannot be disabled keeps no other one protected, and a throttled
// account gets no more requests.
func TestOneThatStaysProtected(t *testing.T) {
	r := newResponder(t, v1alpha1.IdentityConflictProtect)
	r.claims = []plan.NodeClaim{claimOf("i-1", "on-demand"), claimOf("i-2", "on-demand"), claimOf("i-3", "on-demand")}
	r.pass()
	r.pass()
	r.ec2.calls = nil
	r.conflict = &v1alpha1.IdentityConflict{Response: r.conflict.Response}
	r.ec2.fails["i-1=false"] = &cloud.DeniedError{Action: "ec2:ModifyInstanceAttribute", Err: errors.New("no")}
	r.ec2.fails["i-2=false"] = &cloud.ThrottledError{Action: "ec2:ModifyInstanceAttribute"}
	r.pass()
	r.expect("throttled", []string{"i-1", "i-2", "i-3"}, "i-1=false", "i-2=false")
	delete(r.ec2.fails, "i-2=false")
	r.pass()
	r.expect("one stays", []string{"i-1"}, "i-3=false", "i-1=false", "i-2=false")
}

// TestProtectManyInTurns: one reconcile makes a limited number of requests.
func TestProtectManyInTurns(t *testing.T) {
	r := newResponder(t, v1alpha1.IdentityConflictProtect)
	for i := range 60 {
		r.claims = append(r.claims, claimOf(fmt.Sprintf("i-%02d", i), "on-demand"))
	}
	for range 8 {
		r.pass()
		if n := len(r.ec2.calls); n > protectionCalls {
			t.Errorf("%d requests", n)
		}
		r.ec2.calls = nil
	}
	if len(r.ec2.on) != 60 {
		t.Errorf("%d protected", len(r.ec2.on))
	}
	r.deleting = true
	for range 3 {
		r.pass()
	}
	for id, on := range r.ec2.on {
		if on {
			t.Errorf("%s stays protected", id)
		}
	}
}

// TestStopController: the controller is scaled down only for a proven conflict, after that is recorded, and up again only
// when a person resolves the conflict or changes the setting.
func TestStopController(t *testing.T) {
	const down, up = `{"metadata":{"uid":"1"},"spec":{"replicas":0}}`, `{"metadata":{"uid":"1"},"spec":{"replicas":2}}`
	r := newResponder(t, v1alpha1.IdentityConflictStopController)
	r.conflict.Proven = false
	r.pass()
	r.expect("a suspicion", nil)
	r.conflict.Proven = true
	r.pass()
	r.expect("recorded", nil)
	if diff := cmp.Diff(&v1alpha1.StoppedController{Namespace: "kube-system", Name: "karpenter", Replicas: 2}, r.conflict.Response.Stopped); diff != "" {
		t.Fatalf("-want +got:\n%s", diff)
	}
	r.lease = errors.New("the lease is another's")
	r.pass()
	r.expect("without the lease", nil)
	r.lease = nil
	r.pass()
	r.expect("stopped", nil, down)
	r.pass()
	r.expect("at rest", nil)
	r.deployment.Spec.Replicas = new(int32(1))
	r.now = r.now.Add(2 * time.Minute)
	r.pass()
	r.expect("another client reverts it", nil)
	if got := r.conflict.Response.Failure; !strings.Contains(got, "another client has scaled it to 1") {
		t.Errorf("failure %q", got)
	}
	r.deployment.Spec.Replicas = new(int32(0))
	r.conflict = &v1alpha1.IdentityConflict{Response: r.conflict.Response}
	r.pass()
	r.expect("resolved", nil, up)
	if r.conflict.Response != nil {
		t.Errorf("left: %+v", r.conflict.Response)
	}
	if !slices.ContainsFunc(r.notes, func(n string) bool { return strings.Contains(n, "is scaled to 2 again") }) {
		t.Errorf("events %q", r.notes)
	}
}

// TestTheControllerOfAnotherTool: it would be reverted, so it is only reported.
func TestTheControllerOfAnotherTool(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*responder)
		want   string
	}{
		"External": {func(r *responder) { r.external = true }, "management: External"},
		"Argo CD": {func(r *responder) {
			r.deployment.Annotations = map[string]string{"argocd.argoproj.io/tracking-id": "karpenter:apps/Deployment:kube-system/karpenter"}
		}, "would revert that"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newResponder(t, v1alpha1.IdentityConflictStopController)
			test.change(r)
			r.pass()
			r.pass()
			r.expect("it", nil)
			if got := r.conflict.Response.Failure; !strings.Contains(got, test.want) || r.conflict.Response.Stopped != nil {
				t.Errorf("%+v", r.conflict.Response)
			}
		})
	}
}

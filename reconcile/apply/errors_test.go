package apply_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/plumbline-dev/plumbline/reconcile/apply"
	"github.com/plumbline-dev/plumbline/reconcile/apply/applytest"
	"github.com/plumbline-dev/plumbline/render"
)

func TestOneBrokenClassKeepsOnlyItsOwnPools(t *testing.T) {
	other := `
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: other}
spec:
  role: KarpenterNodeRole-demo
  amiSelectorTerms: [{alias: al2023@latest}]
  subnetSelectorTerms: [{tags: {karpenter.sh/discovery: demo}}]
  securityGroupSelectorTerms: [{tags: {karpenter.sh/discovery: demo}}]
`
	otherPool := `
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: batch}
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: other}
      requirements: []
`
	c := newCluster(t)
	broken := apierrors.NewInvalid(schema.GroupKind{Group: "karpenter.k8s.aws", Kind: render.EC2NodeClass}, "other", nil)
	c.Fault = func(w applytest.Write) error {
		if w.Ref.Name == "other" {
			return broken
		}
		return nil
	}
	result := c.sync(t, class, other, pool, otherPool)
	var invalid *apply.InvalidError
	var waiting *apply.WaitingError
	if !errors.As(result.Err(), &invalid) || !errors.As(result.Err(), &waiting) {
		t.Fatalf("got %v", result.Err())
	}
	if waiting.Ref.Name != "batch" || waiting.For.Name != "other" {
		t.Errorf("waiting is %v", waiting)
	}
	if c.Object(general) == nil || c.Object(waiting.Ref) != nil {
		t.Error("the wrong pool was made")
	}
}

func TestAnswersBecomeTypedErrors(t *testing.T) {
	resource := schema.GroupResource{Group: "karpenter.sh", Resource: "nodepools"}
	timeout := apierrors.NewTimeoutError("slow", 1)
	noRole := apierrors.NewForbidden(resource, "general", errors.New(`User "system:serviceaccount:plumbline-system:plumbline" cannot patch resource "nodepools" in API group "karpenter.sh" at the cluster scope`))
	tests := map[string]struct {
		answer error
		want   func(error) bool
	}{
		"no role allows it": {noRole, func(err error) bool {
			return errors.Is(err, noRole) && strings.Contains(err.Error(), "NodePool/general")
		}},
		"a webhook denies it": {said(http.StatusForbidden, `admission webhook "sizes.example.com" denied the request: too large`), func(err error) bool {
			var e *apply.AdmissionError
			return errors.As(err, &e) && strings.Contains(err.Error(), "sizes.example.com") && strings.Contains(err.Error(), "too large")
		}},
		"a webhook denies it with a code of its own": {said(http.StatusConflict, `admission webhook "sizes.example.com" denied the request without explanation`), func(err error) bool {
			var e *apply.AdmissionError
			return errors.As(err, &e)
		}},
		"a policy denies it": {apierrors.NewForbidden(resource, "general", errors.New("ValidatingAdmissionPolicy 'sizes' with binding 'sizes-all' denied request: too large")), func(err error) bool {
			var e *apply.AdmissionError
			return errors.As(err, &e)
		}},
		"a webhook hangs": {apierrors.NewInternalError(errors.New(`failed calling webhook "sizes.example.com": failed to call webhook: Post "https://10.0.0.1/": context deadline exceeded`)), func(err error) bool {
			var e *apply.WebhookError
			return errors.As(err, &e) && e.Webhook == "sizes.example.com"
		}},
		"stale": {apierrors.NewConflict(resource, "general", errors.New("modified")), func(err error) bool {
			var e *apply.StaleError
			return errors.As(err, &e)
		}},
		"not served": {apierrors.NewNotFound(resource, "general"), func(err error) bool {
			var e *apply.NotServedError
			return errors.As(err, &e)
		}},
		"its namespace is missing": {apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "shop"), func(err error) bool {
			return !errors.As(err, new(*apply.NotServedError)) && strings.Contains(err.Error(), "its namespace does not exist: create it, or correct metadata.namespace")
		}},
		"anything else": {timeout, func(err error) bool { return errors.Is(err, timeout) }},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, class)
			c.Fault = func(applytest.Write) error { return test.answer }
			result := c.sync(t, class, pool)
			if !test.want(result.Err()) {
				t.Errorf("got %#v", result.Err())
			}
		})
	}
}

// said returns an API server error with only a code and a message.
func said(code int32, message string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: code, Message: message}}
}

func TestSomeoneWhoWritesInBetweenIsNamed(t *testing.T) {
	c := newCluster(t, class)
	c.Edit(t, general, "kubectl-create", func(o *unstructured.Unstructured) {
		o.Object["spec"] = c.Definition(t, pool).Desired.Object["spec"]
	})
	p := c.plan(t, class, pool)
	c.Edit(t, general, "kubectl-edit", set(t, "7", "spec", "limits", "cpu"))
	result := apply.Apply(t.Context(), c, p.Changes, apply.Options{Uncached: c, Arrivals: &apply.Arrivals{}, Owner: owner})
	var conflict *apply.ConflictError
	if !errors.As(result.Err(), &conflict) {
		t.Fatalf("got %v", result.Err())
	}
	if diff := cmp.Diff([]string{"kubectl-edit"}, conflict.Managers); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"spec.limits.cpu"}, conflict.Fields); diff != "" {
		t.Error(diff)
	}
}

func TestAnObjectThatGoesInBetweenIsNoSuccess(t *testing.T) {
	changed := poolWithoutLimits + "  limits: {cpu: \"200\"}\n"
	t.Run("terminating", func(t *testing.T) {
		c := newCluster(t, class, pool)
		p := c.plan(t, class, changed)
		c.Terminate(general)
		var gone *apply.TerminatingError
		if err := apply.Apply(t.Context(), c, p.Changes, apply.Options{Uncached: c, Arrivals: &apply.Arrivals{}, Owner: owner}).Err(); !errors.As(err, &gone) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("gone", func(t *testing.T) {
		c := newCluster(t, class, pool)
		p := c.plan(t, class, changed)
		c.Delete(general)
		var stale *apply.StaleError
		if err := apply.Apply(t.Context(), c, p.Changes, apply.Options{Uncached: c, Arrivals: &apply.Arrivals{}, Owner: owner}).Err(); !errors.As(err, &stale) {
			t.Errorf("got %v", err)
		}
		if c.Object(general) != nil {
			t.Error("made anew by a write that was meant for the old one")
		}
	})
	t.Run("changed before the takeover", func(t *testing.T) {
		c := newCluster(t, class, pool)
		c.Edit(t, general, "kubectl-edit", set(t, "10Gi", "spec", "limits", "memory"))
		p := c.plan(t, class, pool)
		c.Edit(t, general, "kubectl-edit", set(t, "20Gi", "spec", "limits", "memory"))
		var stale *apply.StaleError
		if err := apply.Apply(t.Context(), c, p.Changes, apply.Options{Uncached: c, Arrivals: &apply.Arrivals{}, Owner: owner}).Err(); !errors.As(err, &stale) {
			t.Errorf("got %v", err)
		}
	})
}

func TestNothingIsWrittenWithoutTheLease(t *testing.T) {
	c := newCluster(t)
	lost := errors.New("the lease is another's")
	result := apply.Apply(t.Context(), c, c.plan(t, class, pool).Changes, apply.Options{
		Uncached: c, Arrivals: &apply.Arrivals{}, Owner: owner, StillLeader: func(context.Context) error { return lost },
	})
	if !errors.Is(result.Err(), lost) || len(c.Writes()) > 0 || len(result.Written) > 0 {
		t.Errorf("got %v, written %v", result.Err(), result.Written)
	}
}

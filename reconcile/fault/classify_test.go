package fault_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"syscall"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"pgregory.net/rapid"

	"github.com/plumbline-dev/plumbline/internal/property"
	"github.com/plumbline-dev/plumbline/provision/charts"
	"github.com/plumbline-dev/plumbline/reconcile/apply"
	"github.com/plumbline-dev/plumbline/reconcile/fault"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/source"
)

func TestClassify(t *testing.T) {
	pools := schema.GroupResource{Group: "karpenter.sh", Resource: "nodepools"}
	waiting := &fault.Error{Class: fault.Waiting, Reason: "Waiting", Err: errors.New("no crd yet")}
	refused := &plan.RefusedError{}
	cases := map[string]struct {
		err    error
		class  fault.Class
		reason string
	}{
		"unknown":                        {errors.New("odd"), fault.Transient, "Failed"},
		"cancelled":                      {fmt.Errorf("fetch: %w", context.Canceled), fault.Superseded, "Stopped"},
		"timed out":                      {fmt.Errorf("fetch: %w", context.DeadlineExceeded), fault.Transient, "TimedOut"},
		"API conflict":                   {apierrors.NewConflict(pools, "a", errors.New("moved")), fault.Superseded, "Conflict"},
		"API forbidden":                  {apierrors.NewForbidden(pools, "a", errors.New("no")), fault.Terminal, "Forbidden"},
		"API unauthorized":               {apierrors.NewUnauthorized("no"), fault.Terminal, "Forbidden"},
		"API time-out":                   {apierrors.NewTimeoutError("slow", 1), fault.Transient, "APIServerBusy"},
		"API throttles":                  {apierrors.NewTooManyRequests("later", 1), fault.Transient, "APIServerBusy"},
		"API not there":                  {apierrors.NewServiceUnavailable("starting"), fault.Transient, "APIServerBusy"},
		"API server refuses connections": {fmt.Errorf("apply: %w", &url.Error{Op: "Patch", Err: syscall.ECONNREFUSED}), fault.Transient, "APIServerUnavailable"},
		"API server hangs up":            {&url.Error{Op: "Patch", Err: io.EOF}, fault.Transient, "APIServerUnavailable"},
		"a request that was not sent":    {&url.Error{Op: "Patch", Err: errors.New("not sent: lease plumbline is held by another")}, fault.Transient, "Failed"},
		"somebody else is away":          {&source.UnreachableError{Err: syscall.ECONNREFUSED}, fault.Transient, "SourceFailed"},
		"typed before generic":           {&source.UnreachableError{Err: context.Canceled}, fault.Transient, "SourceFailed"},
		"classified":                     {waiting, fault.Waiting, "Waiting"},
		"classified, wrapped":            {fmt.Errorf("see: %w", waiting), fault.Waiting, "Waiting"},
		"joined":                         {errors.Join(&apply.WaitingError{}, refused), fault.Terminal, "Refused"},
		"joined with a classified one":   {errors.Join(waiting, refused), fault.Terminal, "Refused"},
		"joined, wrapped":                {fmt.Errorf("apply: %w", errors.Join(&apply.StaleError{Err: errors.New("moved")}, refused)), fault.Terminal, "Refused"},
		"joined by one format":           {fmt.Errorf("%w, and %w", waiting, refused), fault.Terminal, "Refused"},
		"joined within joined":           {errors.Join(waiting, fmt.Errorf("more: %w", errors.Join(context.Canceled, refused))), fault.Terminal, "Refused"},
		"the first of equals":            {errors.Join(&plan.ConflictError{}, refused), fault.Terminal, "Conflict"},
		"superseded alone":               {errors.Join(context.Canceled, context.Canceled), fault.Superseded, "Stopped"},
		"a type that wraps joined ones":  {&charts.NotFoundError{Err: errors.Join(context.Canceled, errors.New("odd"))}, fault.Terminal, "ChartFailed"},
		"a class that wraps joined ones": {&fault.Error{Class: fault.Waiting, Reason: "Waiting", Err: errors.Join(refused, refused)}, fault.Waiting, "Waiting"},
		"joined of nothing":              {nothing{}, fault.Transient, "Failed"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := fault.Classify(c.err)
			if got.Class != c.class || got.Reason != c.reason {
				t.Errorf("%s %s, want %s %s", got.Class, got.Reason, c.class, c.reason)
			}
			if got.Error() != c.err.Error() {
				t.Errorf("message %q, want %q", got.Error(), c.err.Error())
			}
			if !errors.Is(got, c.err) {
				t.Errorf("%v has lost what it was made of", got)
			}
		})
	}
}

func TestClassifyNil(t *testing.T) {
	if got := fault.Classify(nil); got != nil {
		t.Errorf("no error is %v", got)
	}
}

// nothing is a join without errors.
type nothing struct{}

func (nothing) Error() string   { return "nothing" }
func (nothing) Unwrap() []error { return nil }

// TestClassifyIsTotal: every tree of errors has a class and a reason, and the class is the most severe of its leaves.
func TestClassifyIsTotal(t *testing.T) {
	leaves := append(meanings(),
		meaning{errors.New("odd"), fault.Transient, "Failed"},
		meaning{context.Canceled, fault.Superseded, "Stopped"},
		meaning{context.DeadlineExceeded, fault.Transient, "TimedOut"},
		meaning{&fault.Error{Class: fault.Waiting, Reason: "Waiting", Err: errors.New("known")}, fault.Waiting, "Waiting"},
	)
	property.Check(t, func(t *rapid.T) {
		class, err := tree(t, leaves, 4)
		got := fault.Classify(err)
		if got == nil {
			t.Fatalf("%v has no class", err)
		}
		if got.Class != class {
			t.Fatalf("%v is %s, want the gravest: %s", err, got.Class, class)
		}
		if got.Reason == "" || strings.Contains(got.Reason, " ") || got.Class.String() == "" {
			t.Fatalf("%v has reason %q, class %q", err, got.Reason, got.Class)
		}
		if again := fault.Classify(got); again != got {
			t.Fatalf("classified twice: %v, then %v", got, again)
		}
	})
}

// tree draws wrapped and joined errors of leaves, and their most severe class.
func tree(t *rapid.T, leaves []meaning, depth int) (gravest fault.Class, drawn error) {
	shape := 0
	if depth > 0 {
		shape = rapid.IntRange(0, 3).Draw(t, "shape")
	}
	switch shape {
	case 0:
		leaf := rapid.SampledFrom(leaves).Draw(t, "leaf")
		return leaf.class, leaf.err
	case 1:
		class, err := tree(t, leaves, depth-1)
		return class, fmt.Errorf("wrapped: %w", err)
	case 2:
		grave, a := tree(t, leaves, depth-1)
		other, b := tree(t, leaves, depth-1)
		return max(grave, other), fmt.Errorf("%w; %w", a, b)
	}
	var errs []error
	class := fault.Superseded
	for range rapid.IntRange(1, 4).Draw(t, "joined") {
		grave, err := tree(t, leaves, depth-1)
		errs, class = append(errs, err), max(class, grave)
	}
	return class, errors.Join(errs...)
}

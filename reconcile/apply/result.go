package apply

import (
	"errors"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// Result is what became of the Changes, classes first.
type Result struct {
	Written []Written
	Failed  []Failure
}

// Written is one object that was written.
type Written struct {
	Ref    render.Ref
	Action plan.Action
	// Requests is the number of writes that it took.
	Requests int
	// Object is the API server's answer, with its UID and resourceVersion.
	Object *unstructured.Unstructured
}

// Failure is one object that was not written, or not to the end.
type Failure struct {
	Ref render.Ref
	// Err is one of this package's errors, or what kept it from asking.
	Err error

	existed bool
}

// Err joins the errors of all failures; nil where there is none.
func (r Result) Err() error {
	errs := make([]error, 0, len(r.Failed))
	for _, f := range r.Failed {
		errs = append(errs, f.Err)
	}
	return errors.Join(errs...)
}

func (a *applier) result() Result {
	var result Result
	for _, o := range a.outcomes {
		if o.written != nil {
			result.Written = append(result.Written, *o.written)
		}
		if o.failure != nil {
			result.Failed = append(result.Failed, *o.failure)
		}
	}
	return result
}

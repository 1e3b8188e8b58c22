package plan

import (
	"fmt"
	"strings"

	"github.com/plumbline-dev/plumbline/internal/shortlist"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/render"
)

// MissingClassError reports that a NodePool names a class that is nowhere.
type MissingClassError struct {
	Ref, Class render.Ref
	Origin     render.Origin
}

// Error names the pool, the class and where the pool is written.
func (e *MissingClassError) Error() string {
	return fmt.Sprintf("%s references %s, which is neither in Git nor in the cluster (%s): add it or correct the nodeClassRef", e.Ref, e.Class, e.Origin)
}

// RefusedError reports that the API server would refuse a change, whenever it is
// tried.
type RefusedError struct {
	Ref    render.Ref
	Origin render.Origin
	// Problems are sentences, each on one field.
	Problems []string
	// Immutable reports whether only a new name helps.
	Immutable bool
}

// Error names the object, what is wrong, and the way out.
func (e *RefusedError) Error() string {
	way := "correct it"
	if e.Immutable {
		way = "it needs a new name"
	}
	return fmt.Sprintf("change of %s refused: %s (%s): %s", e.Ref, strings.Join(e.Problems, "; "), e.Origin, way)
}

// ConflictError reports that an object, or a field of it, is another client's.
type ConflictError struct {
	Ref render.Ref
	// Owner is the other NodeSync that the object belongs to.
	Owner string
	// Tools are the other appliers that own Fields.
	Tools []string
	// Fields are those in dispute, by path.
	Fields []string
	// Adopt is the policy by which an unowned object was not adopted.
	Adopt v1alpha1.AdoptPolicy
}

// Error names whose it is and the way out.
func (e *ConflictError) Error() string {
	switch {
	case e.Owner != "":
		return fmt.Sprintf("%s belongs to NodeSync %s: remove it from one of the two repositories", e.Ref, e.Owner)
	case len(e.Tools) > 0:
		tools := strings.Join(e.Tools, " and ")
		return fmt.Sprintf("%s: fields managed by %s: %s: %s, or remove the object from Git and keep it in %s; set management: External if Karpenter's charts come from %[2]s, too",
			e.Ref, tools, someOf(e.Fields), e.handOver(), tools)
	case e.Adopt == v1alpha1.AdoptNever:
		return fmt.Sprintf("%s already exists, was not created by this NodeSync, and adopt is Never: delete it, rename the one in Git, or change adopt", e.Ref)
	}
	return fmt.Sprintf("%s already exists, was not created by this NodeSync, and differs from Git at %s: change Git to match it, or set adopt to Always",
		e.Ref, someOf(e.Fields))
}

// handOver is how the object is handed over by the tools.
func (e *ConflictError) handOver() string {
	if from, ok := map[string]string{"Flux": "flux", "Argo CD": "argocd"}[e.Tools[0]]; ok && len(e.Tools) == 1 {
		return fmt.Sprintf("hand it over with plumbline adopt --from %s %s", from, e.Ref)
	}
	return "stop it from applying this object and remove its entry from metadata.managedFields"
}

// InvalidPolicyError is a policy that cannot be asked. Nothing is done by a Plan that it could deny.
type InvalidPolicyError struct {
	Policy string
	// Field is the one of the policy that is wrong; empty if it compiles and cannot be evaluated.
	Field string
	// Object is what it was asked for then; empty for the whole plan.
	Object  string
	Problem string
}

// Error names the policy, what is wrong and what to do.
func (e *InvalidPolicyError) Error() string {
	return fmt.Sprintf("%s: %s: nothing is written or removed until spec.policies of the NodeSync is corrected", e.What(), e.Problem)
}

// What names the policy and how far it comes.
func (e *InvalidPolicyError) What() string {
	if e.Field != "" {
		return fmt.Sprintf("policy %s: %s does not compile", e.Policy, e.Field)
	}
	return fmt.Sprintf("policy %s cannot be evaluated%s", e.Policy, forObject(e.Object))
}

// PolicyDeniedError is a Plan that a policy denies.
type PolicyDeniedError struct {
	Policy string
	// Object is the first that it denies, and More how many others; empty for the whole plan.
	Object string
	More   int
	// Message is the policy's.
	Message string
}

// Error names the policy, what it denies, its message and what to do.
func (e *PolicyDeniedError) Error() string {
	return fmt.Sprintf("%s: %s: change the commit, or spec.policies of the NodeSync", e.What(), e.Message)
}

// What names the policy and what it denies.
func (e *PolicyDeniedError) What() string {
	if e.Object == "" {
		return fmt.Sprintf("policy %s denies the commit", e.Policy)
	}
	return fmt.Sprintf("policy %s denies %s%s", e.Policy, e.Object, shortlist.More(" ", e.More))
}

func forObject(object string) string {
	if object == "" {
		return ""
	}
	return " for " + object
}

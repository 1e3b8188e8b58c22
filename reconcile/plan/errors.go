package plan

import (
	"fmt"
	"strings"

	"github.com/plumbline-dev/plumbline/internal/shortlist"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/render"
)

// MissingClassError reports that a NodePool references a class that is neither in Git nor in the cluster.
type MissingClassError struct {
	Ref, Class render.Ref
	Origin     render.Origin
}

// Error returns the pool, the class and where the pool is defined.
func (e *MissingClassError) Error() string {
	return fmt.Sprintf("%s references %s, which is neither in Git nor in the cluster (%s): add it or correct the nodeClassRef",
		e.Ref, e.Class, e.Origin)
}

// RefusedError reports that the API server would always reject a change.
type RefusedError struct {
	Ref    render.Ref
	Origin render.Origin
	// Problems are sentences, each about one field.
	Problems []string
	// Immutable reports whether only a new name helps.
	Immutable bool
}

// Error returns the object, what is wrong, and what to do.
func (e *RefusedError) Error() string {
	way := "correct it"
	if e.Immutable {
		way = "it needs a new name"
	}
	return fmt.Sprintf("change of %s refused: %s (%s): %s", e.Ref, strings.Join(e.Problems, "; "), e.Origin, way)
}

// ConflictError reports that an object, or one of its fields, belongs to another client.
type ConflictError struct {
	Ref render.Ref
	// Owner is the other NodeSync that the object belongs to.
	Owner string
	// Tools are the other appliers that own Fields.
	Tools []string
	// Fields are the disputed fields, by path.
	Fields []string
	// Adopt is the policy because of which an unowned object was not adopted.
	Adopt v1alpha1.AdoptPolicy
}

// Error returns the owner, and what to do.
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

// handOver returns how the tools hand the object over.
func (e *ConflictError) handOver() string {
	if from, ok := map[string]string{"Flux": "flux", "Argo CD": "argocd"}[e.Tools[0]]; ok && len(e.Tools) == 1 {
		return fmt.Sprintf("hand it over with plumbline adopt --from %s %s", from, e.Ref)
	}
	return "stop it from applying this object and remove its entry from metadata.managedFields"
}

// InvalidPolicyError reports a policy that cannot be evaluated. Nothing is applied of a Plan that it could deny.
type InvalidPolicyError struct {
	Policy string
	// Field is the invalid field of the policy; empty if it compiles but cannot be evaluated.
	Field string
	// Object is what it was evaluated for then; empty for the whole plan.
	Object  string
	Problem string
}

// Error returns the policy, what is wrong and what to do.
func (e *InvalidPolicyError) Error() string {
	return fmt.Sprintf("%s: %s: nothing is written or removed until spec.policies of the NodeSync is corrected", e.What(), e.Problem)
}

// What returns the policy, and whether its compilation or evaluation failed.
func (e *InvalidPolicyError) What() string {
	if e.Field != "" {
		return fmt.Sprintf("policy %s: %s does not compile", e.Policy, e.Field)
	}
	return fmt.Sprintf("policy %s cannot be evaluated%s", e.Policy, forObject(e.Object))
}

// PolicyDeniedError reports a Plan that a policy denies.
type PolicyDeniedError struct {
	Policy string
	// Object is the first object that it denies, empty for the whole plan, and More is the number of others.
	Object string
	More   int
	// Message is the message of the policy.
	Message string
}

// Error returns the policy, what it denies, its message and what to do.
func (e *PolicyDeniedError) Error() string {
	return fmt.Sprintf("%s: %s: change the commit, or spec.policies of the NodeSync", e.What(), e.Message)
}

// What returns the policy and what it denies.
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

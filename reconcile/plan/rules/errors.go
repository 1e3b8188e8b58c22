package rules

import (
	"fmt"

	"github.com/plumbline-dev/plumbline/internal/shortlist"
)

// InvalidError is a policy that cannot be asked. Nothing is done by a Plan that it could deny.
type InvalidError struct {
	Policy string
	// Field is the one of the policy that is wrong; empty if it compiles and cannot be evaluated.
	Field string
	// Object is what it was asked for then; empty for the whole plan.
	Object  string
	Problem string
}

// Error names the policy, what is wrong and what to do.
func (e *InvalidError) Error() string {
	return fmt.Sprintf("%s: %s: nothing is written or removed until spec.policies of the NodeSync is corrected", e.What(), e.Problem)
}

// What names the policy and how far it comes.
func (e *InvalidError) What() string {
	if e.Field != "" {
		return fmt.Sprintf("policy %s: %s does not compile", e.Policy, e.Field)
	}
	return fmt.Sprintf("policy %s cannot be evaluated%s", e.Policy, of(e.Object))
}

// DeniedError is a Plan that a policy denies.
type DeniedError struct {
	Policy string
	// Object is the first that it denies, and More how many others; empty for the whole plan.
	Object string
	More   int
	// Message is the policy's.
	Message string
}

// Error names the policy, what it denies, its message and what to do.
func (e *DeniedError) Error() string {
	return fmt.Sprintf("%s: %s: change the commit, or spec.policies of the NodeSync", e.What(), e.Message)
}

// What names the policy and what it denies.
func (e *DeniedError) What() string {
	if e.Object == "" {
		return fmt.Sprintf("policy %s denies the commit", e.Policy)
	}
	return fmt.Sprintf("policy %s denies %s%s", e.Policy, e.Object, shortlist.More(" ", e.More))
}

func of(object string) string {
	if object == "" {
		return ""
	}
	return " for " + object
}

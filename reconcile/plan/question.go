package plan

import (
	"context"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/render"
)

// Question is what only AWS can tell of a changed EC2NodeClass: what its selectors come to, and
// what its instances run.
type Question struct {
	Ref render.Ref
	// Class is what Git says, with the schema's defaults. Its alias, if it has one, is well-formed.
	Class *awsv1.EC2NodeClass
	// AMIs, SecurityGroups, Subnets and Reservations say which of its selectors have changed.
	AMIs, SecurityGroups, Subnets, Reservations bool
	// Claims are the NodeClaims that it is about.
	Claims []*NodeClaim
}

// OfInstances says that the answer takes what instances run: their AMIs are known from NodeClaims.
func (q *Question) OfInstances() bool { return q.SecurityGroups || q.Subnets || q.Reservations }

// Questions are those of a Plan's Changes.
func (p *Plan) Questions() []Question {
	var found []Question
	for i := range p.Changes {
		if q := p.Changes[i].question; q != nil {
			found = append(found, *q)
		}
	}
	return found
}

// Ask asks AWS the Questions of a Plan.
type Ask func(ctx context.Context, questions []Question) map[render.Ref]Answer

// MakeExact is Make, and once more with the answers if the Plan has Questions or LoadQuestions. A nil ask asks nobody, and
// a nil read reads nothing.
func MakeExact(ctx context.Context, set *render.Set, live Live, policy Policy, schema Schema, ask Ask, read ReadLoads) (*Plan, error) {
	made, err := Make(ctx, set, live, policy, schema)
	if err != nil {
		return made, err
	}
	questions, loads := made.Questions(), made.LoadQuestions()
	if ask == nil {
		questions = nil
	}
	if read == nil {
		loads = nil
	}
	if len(questions)+len(loads) == 0 {
		return made, nil
	}
	if len(questions) > 0 {
		policy.Answers = ask(ctx, questions)
	}
	if len(loads) > 0 {
		policy.Loads = read(ctx, loads)
	}
	live.Memo = made.Memo
	return Make(ctx, set, live, policy, schema)
}

// Answer is what AWS says to a Question. Of each selector there is what it comes to, or why that
// is unavailable.
type Answer struct {
	AMIs                                  Resolved[awsv1.AMI]
	SecurityGroups, Subnets, Reservations Resolved[string]
	// Running is what instances run, by the provider ID of their NodeClaims, and Unavailable why
	// there is nothing of those that are not in it.
	Running     map[string]Running
	Unavailable string
}

// Resolved is what a selector comes to: AMIs in the order of Karpenter's preference, or IDs.
type Resolved[T any] struct {
	Found []T
	// Unavailable is why nothing is known; empty where Found is what there is. Empty says that it is because AWS has nothing
	// that the selector matches.
	Unavailable string
	Empty       bool
}

// Running is what an instance runs in.
type Running struct {
	Subnet         string
	SecurityGroups []string
	// Reservation is the capacity reservation that it takes; empty where it takes none, or only by
	// chance.
	Reservation string
}

// Unanswered is the Answer where AWS was not asked, or says nothing.
func Unanswered(why string) *Answer {
	no := Resolved[string]{Unavailable: why}
	return &Answer{AMIs: Resolved[awsv1.AMI]{Unavailable: why}, SecurityGroups: no, Subnets: no, Reservations: no}
}

// answer is what AWS says of an object.
func (p Policy) answer(ref render.Ref) *Answer {
	if found, ok := p.Answers[ref]; ok {
		return &found
	}
	if p.NotAsked != "" {
		return Unanswered(p.NotAsked)
	}
	return Unanswered("AWS was not asked")
}

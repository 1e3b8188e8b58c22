package plan

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/render"
)

// Question is what only AWS knows about a changed EC2NodeClass: what its selectors resolve to, and the configuration of
// its instances.
type Question struct {
	Ref render.Ref
	// Class is the object in Git, with the schema's defaults. Its alias, if it has one, is well-formed.
	Class *awsv1.EC2NodeClass
	// AMIs, SecurityGroups, Subnets and Reservations report which of its selectors have changed.
	AMIs, SecurityGroups, Subnets, Reservations bool
	// Claims are the NodeClaims in question.
	Claims []*NodeClaim
}

// OfInstances reports whether the answer needs data of instances: their AMIs are known from NodeClaims.
func (q *Question) OfInstances() bool { return q.SecurityGroups || q.Subnets || q.Reservations }

// Questions are those of a Plan's Changes, one of each EC2NodeClass.
func (p *Plan) Questions() []Question {
	var found []Question
	for i := range p.Changes {
		q := p.Changes[i].question
		if q == nil {
			continue
		}
		at := slices.IndexFunc(found, func(other Question) bool { return other.Ref == q.Ref })
		if at < 0 {
			found = append(found, *q)
			continue
		}
		if len(q.Claims) > 0 { // that of the class itself; a NodePool only adds the AMIs
			found[at] = *q
		}
		found[at].AMIs = true
	}
	return found
}

// Ask queries AWS for the Questions of a Plan.
type Ask func(ctx context.Context, questions []Question) map[render.Ref]Answer

// MakeExact calls Make, and again with the answers if the Plan has Questions or LoadQuestions. If ask is nil, AWS is
// not queried; if read is nil, nothing is read.
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

// Answer is the answer of AWS to a Question: for each selector what it resolves to, or why that is unavailable.
type Answer struct {
	AMIs                                  Resolved[awsv1.AMI]
	SecurityGroups, Subnets, Reservations Resolved[string]
	// Running is the configuration of instances, by the provider ID of their NodeClaims, and Unavailable is why others
	// are missing.
	Running     map[string]Running
	Unavailable string
}

// Resolved is what a selector resolves to: AMIs in the order of Karpenter's preference, or IDs.
type Resolved[T any] struct {
	Found []T
	// Unavailable is why the result is unknown; empty if Found is complete. Empty reports whether the reason is that
	// nothing in AWS matches the selector, and Unsupported whether it is that Karpenter does not resolve the alias for
	// the Kubernetes version.
	Unavailable        string
	Empty, Unsupported bool
}

// Running is the configuration of an instance.
type Running struct {
	Subnet         string
	SecurityGroups []string
	// Reservation is the capacity reservation that it was launched into; empty if there is none, or if the instance
	// only matched it by chance.
	Reservation string
}

// Unanswered returns the Answer if AWS was not queried, or does not answer.
func Unanswered(why string) *Answer {
	no := Resolved[string]{Unavailable: why}
	return &Answer{AMIs: Resolved[awsv1.AMI]{Unavailable: why}, SecurityGroups: no, Subnets: no, Reservations: no}
}

// answer returns the answer of AWS for an object.
func (p Policy) answer(ref render.Ref) *Answer {
	if found, ok := p.Answers[ref]; ok {
		return &found
	}
	if p.NotAsked != "" {
		return Unanswered(p.NotAsked)
	}
	return Unanswered("AWS was not queried")
}

// ReasonUnpublishedAMI is the reason to hold an EC2NodeClass whose alias, or SSM parameter, matches no AMI that AWS
// publishes.
const ReasonUnpublishedAMI = "UnpublishedAMI"

// holdUnpublished holds an EC2NodeClass if AWS reports that it publishes no AMI for the alias, or at the SSM parameter, that a
// commit gives it, and a NodePool to which a commit gives such a class. Karpenter would launch no node with the class, and its
// conditions may stay as they are. Any other answer of AWS, and none, holds nothing. By tags, names and IDs Karpenter reports what it
// does not find in AMIsReady.
func (m *maker) holdUnpublished(change *Change) {
	if commits := (change.Action == Create || change.Action == Update || change.Action == Adopt) && !change.Drift && !change.Rescue; !commits {
		return
	}
	q, of := m.newAMI(change), ""
	if change.Ref.Kind == render.NodePool {
		q, of = m.newClass(change), change.Ref.String()+": "
	}
	if q == nil {
		return
	}
	if change.question == nil {
		change.question = q
	}
	change.question.AMIs = true
	if answer, answered := m.policy.Answers[q.Ref]; !answered || !answer.AMIs.Empty {
		return
	}
	change.Effect, change.Nodes, change.UpTo, change.Unavailable, change.DriftReasons = EffectBlocked, 0, false, "", nil
	change.touched, change.unnamed, change.uncomparable = nil, 0, false
	change.hold(ReasonUnpublishedAMI,
		fmt.Sprintf("%sAWS publishes no AMI for %s of %s, so no node could be launched: %s", of, q.Named(), q.Ref, correctAMI))
}

// newAMI returns the Question about the alias or SSM parameter that a Change gives an EC2NodeClass; nil if it gives none.
func (m *maker) newAMI(change *Change) *Question {
	if change.Ref.Kind != render.EC2NodeClass || change.Live != nil && !reselectsAMIs(change) {
		return nil
	}
	class, err := typed[awsv1.EC2NodeClass](change.Wanted())
	if err != nil || !Hashable(class) || namedAMI(class) == "" {
		return nil
	}
	return &Question{Ref: change.Ref, Class: class}
}

// reselectsAMIs reports whether a Change writes other terms that select the AMIs of an EC2NodeClass in the cluster.
func reselectsAMIs(change *Change) bool {
	return !equal(specField(change.Live, "amiSelectorTerms"), specField(change.Wanted(), "amiSelectorTerms"))
}

// newClass returns the Question about the AMIs of the EC2NodeClass in the cluster that a Change gives a NodePool; nil if Karpenter
// has resolved these, if the Change gives it no other class, or if the same commit changes the terms of the class.
func (m *maker) newClass(change *Change) *Question {
	class, ok := render.Reference(change.Ref, change.Wanted())
	if !ok {
		return nil
	}
	if change.Live != nil {
		if before, had := render.Reference(change.Ref, change.Live); had && before == class {
			return nil
		}
	}
	live, changed := m.live.object(class), m.changes[class]
	if live == nil || changed.Live != nil && changed.Action.Writes() && reselectsAMIs(&changed) {
		return nil
	}
	return UnresolvedAMI(live)
}

// correctAMI is what a person does about an alias or an SSM parameter that matches no AMI.
const correctAMI = "correct it, or wait until AWS publishes one for the cluster's Kubernetes version"

// UnresolvedAMI returns the Question whether AWS publishes an AMI for the alias or SSM parameter of an EC2NodeClass in
// the cluster, if Karpenter has not resolved it since the spec changed; nil if it has, or if the class has other terms.
// If AWS publishes none, Karpenter reports that only in its log, and the class keeps the AMIsReady condition of its
// last spec (Reconcile in karpenter-provider-aws pkg/controllers/nodeclass/ami.go, 1.14.1). Until the spec changes,
// nodes are launched with the AMIs of the status, whatever AWS publishes.
func UnresolvedAMI(live *Object) *Question {
	if live.GetDeletionTimestamp() != nil || slices.ContainsFunc(live.Conditions(), func(c metav1.Condition) bool {
		return c.Type == awsv1.ConditionTypeAMIsReady && c.Status != metav1.ConditionUnknown && c.ObservedGeneration == live.GetGeneration()
	}) {
		return nil
	}
	class, err := typed[awsv1.EC2NodeClass](live.Unstructured)
	if err != nil || !Hashable(class) || namedAMI(class) == "" {
		return nil
	}
	return &Question{Ref: render.Ref{Kind: render.EC2NodeClass, Name: live.GetName()}, Class: class, AMIs: true}
}

// Named returns the alias or SSM parameter of a Question; empty if its class has other terms.
func (q *Question) Named() string { return namedAMI(q.Class) }

// Unpublished returns the message that no node can be launched with the class, because AWS publishes no AMI for it.
func (q *Question) Unpublished() string {
	return fmt.Sprintf("AWS publishes no AMI for %s of %s, so no node can be launched: %s", q.Named(), q.Ref, correctAMI)
}

// namedAMI returns the alias or SSM parameter that selects all AMIs of a class; empty if it has other terms.
func namedAMI(class *awsv1.EC2NodeClass) string {
	if len(class.Spec.AMISelectorTerms) != 1 {
		return ""
	}
	switch term := class.Spec.AMISelectorTerms[0]; {
	case term.Alias != "":
		return "alias " + term.Alias
	case term.SSMParameter != "":
		return "ssmParameter " + term.SSMParameter
	}
	return ""
}

// TerminateFirst is the feature gate with which Karpenter terminates a node before it launches the replacement, if
// there is no capacity for both: in a static pool at its limit, or if the reservation of the node is full
// (sigs.k8s.io/karpenter pkg/controllers/disruption/staticdrift.go and drift.go, 1.15.0).
const TerminateFirst = "TerminateFirstDrift"

// TerminatedFirst describes which of some nodes in reserved capacity Karpenter terminates before their replacements;
// empty if there are none.
func TerminatedFirst(nodes []string) string {
	switch len(nodes) {
	case 0:
		return ""
	case 1:
		return "reserved capacity: if the reservation is full, Karpenter terminates node " + nodes[0] + " before its replacement is launched (feature gate " + TerminateFirst + ")"
	}
	return "reserved capacity: if the reservation is full, Karpenter terminates nodes " + finding.First(nodes) + " before their replacements are launched (feature gate " + TerminateFirst + ")"
}

// Reserved returns the nodes of a pool in reserved capacity that are not terminating, by name.
func (l Live) Reserved(pool string) []string {
	var nodes []string
	for i := range l.NodeClaims {
		c := &l.NodeClaims[i]
		if c.Pool == pool && !c.Deleting && c.Labels.Map()[karpv1.CapacityTypeLabelKey] == karpv1.CapacityTypeReserved {
			nodes = append(nodes, cmp.Or(c.Node, c.Name))
		}
	}
	slices.Sort(nodes)
	return nodes
}

// ReservedThatLeave returns such nodes of the removed pools whose nodes Karpenter replaces.
func (l Live) ReservedThatLeave(removals []Candidate, policy v1alpha1.RemovalPolicy) []string {
	if policy.Strategy != "" && policy.Strategy != v1alpha1.RemovalPaced {
		return nil
	}
	var nodes []string
	for i := range removals {
		if c := &removals[i]; c.Ref.Kind == render.NodePool && !c.Orphan && !c.Last {
			nodes = append(nodes, l.Reserved(c.Ref.Name)...)
		}
	}
	slices.Sort(nodes)
	return nodes
}

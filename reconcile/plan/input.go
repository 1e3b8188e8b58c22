package plan

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/scheduling"

	"github.com/plumbline-dev/plumbline/render"
)

// Input is what outdates a NodeClaim: what it has, and what its definitions call for now. From is
// empty where that is not known, and To says why.
type Input struct{ From, To string }

// OfInstance says that a NodeClaim is outdated for a reason that only EC2 knows the inputs of: what
// an instance runs in is on no object.
func (o Outdated) OfInstance() bool {
	return slices.Contains([]string{driftOfGroup, driftOfSubnet, driftOfReservation}, o.Reason)
}

// maxInputs is how many IDs an Input lists on each side.
const maxInputs = 5

// Input is what outdates a NodeClaim that the Match has found, by Karpenter's reason. running is
// what EC2 has said of its instance: it is empty, and unknown says why, where that is not known.
// Karpenter may have found it outdated by what is no more: then both sides are the same.
func (m Match) Input(o Outdated, running Running, unknown string) Input {
	c := o.Claim
	class, pool := render.Ref{Kind: render.EC2NodeClass, Name: c.Class}, render.Ref{Kind: render.NodePool, Name: c.Pool}
	if o.OfInstance() && unknown != "" {
		return Input{To: unknown}
	}
	switch o.Reason {
	case DriftOfPool:
		return m.inputOfHash(pool, c.Hashes.Pool(), m.Exact, "spec.template")
	case driftOfClass:
		return m.inputOfHash(class, c.Hashes.Class(), m.Exact && m.Memory.proven, "the spec and the cluster's CA bundle")
	case driftOfRequirements:
		return m.inputOfRequirements(c, pool)
	case driftOfAMI:
		return m.inputOfAMI(c, class)
	case driftOfGroup:
		return Input{From: idList(running.SecurityGroups), To: m.resolved(class, "securityGroups")}
	case driftOfSubnet:
		return Input{From: cmp.Or(running.Subnet, "none"), To: m.resolved(class, "subnets")}
	case driftOfReservation:
		return Input{From: cmp.Or(running.Reservation, "none"), To: m.resolved(class, "capacityReservations")}
	case driftOfPlacement:
		return Input{From: cmp.Or(c.Labels.Map()[awsv1.LabelPlacementGroupID], "none"), To: "another, which no object names"}
	case typeNotFound:
		labels := c.Labels.Map()
		return Input{From: strings.Join([]string{labels[corev1.LabelInstanceTypeStable], labels[karpv1.CapacityTypeLabelKey], labels[corev1.LabelTopologyZone]}, " "), To: "not among what AWS offers"}
	}
	return Input{To: "plumbline does not know what Karpenter compares for it"}
}

// inputOfHash is that of a hash, which does not tell which field it is of.
func (m Match) inputOfHash(ref render.Ref, made Hash, count bool, of string) Input {
	t := m.Memory.templates[ref]
	switch {
	case t == nil:
		return Input{To: ref.String() + " is not there"}
	case made == "":
		return Input{To: "the NodeClaim has no hash"}
	}
	now := t.noted
	if count && t.counted.comparable(made) {
		now = t.counted
	}
	if !now.comparable(made) {
		return Input{To: "the hash of " + ref.String() + " is of another version, or missing"}
	}
	return from("hash "+made.sum(), "hash "+now.sum(), fmt.Sprintf("%s, of %s; a hash does not tell which field", now.version(), of))
}

// inputOfRequirements names the requirements that labels do not fit.
func (m Match) inputOfRequirements(c *NodeClaim, pool render.Ref) Input {
	t := m.Memory.templates[pool]
	if t == nil || c.Labels == "" {
		return Input{To: "the labels of the NodeClaim, or its NodePool, are not there"}
	}
	labels := c.Labels.Map()
	has := scheduling.NewLabelRequirements(labels)
	var from, to []string
	for _, key := range slices.Sorted(maps.Keys(t.requirements)) {
		wanted := t.requirements.Get(key)
		if has.Compatible(scheduling.NewRequirements(wanted)) != nil {
			from, to = append(from, key+"="+labels[key]), append(to, wanted.String())
		}
	}
	if len(from) == 0 {
		return Input{To: "its labels fit by now"}
	}
	return Input{From: strings.Join(from, ", "), To: strings.Join(to, ", ")}
}

// inputOfAMI is the AMI that a NodeClaim runs, and the one that its class has come to for it, with
// the terms that name one which moves.
func (m Match) inputOfAMI(c *NodeClaim, class render.Ref) Input {
	t := m.Memory.templates[class]
	switch {
	case t == nil || t.images == nil || len(t.images.amis) == 0:
		return Input{To: class.String() + " lists no AMI in its status"}
	case c.Image == "" || c.Labels == "":
		return Input{To: "the NodeClaim does not say which AMI it runs"}
	}
	return from(c.Image, cmp.Or(t.images.choose(c.Labels), "none of its class"), movingTerms(m.Live.object(class)))
}

// from is an Input with a remark on what is called for.
func from(has, wanted, remark string) Input {
	if has == wanted || remark == "" {
		return Input{From: has, To: wanted}
	}
	return Input{From: has, To: wanted + " (" + remark + ")"}
}

// movingTerms are the aliases and parameters of SSM in the spec of an EC2NodeClass: what they name
// may be another AMI by tomorrow.
func movingTerms(class *Object) string {
	if class == nil {
		return ""
	}
	value, _, _ := unstructured.NestedFieldNoCopy(class.Object, "spec", "amiSelectorTerms")
	terms, _ := value.([]any)
	var moving []string
	for _, t := range terms {
		fields, _ := t.(map[string]any)
		for _, key := range []string{"alias", "ssmParameter"} {
			if name, _ := fields[key].(string); name != "" {
				moving = append(moving, name)
			}
		}
	}
	return strings.Join(moving, ", ")
}

// resolved are the IDs that an EC2NodeClass has in a list of its status.
func (m Match) resolved(ref render.Ref, list string) string {
	class := m.Live.object(ref)
	if class == nil {
		return ref.String() + " is not there"
	}
	value, _, _ := unstructured.NestedFieldNoCopy(class.Object, "status", list)
	found, _ := value.([]any)
	var ids []string
	for _, one := range found {
		fields, _ := one.(map[string]any)
		if id, _ := fields["id"].(string); id != "" {
			ids = append(ids, id)
		}
	}
	return idList(ids)
}

// idList are IDs in an order that does not change, the first of them.
func idList(ids []string) string {
	ids = slices.Compact(slices.Sorted(slices.Values(ids)))
	switch more := len(ids) - maxInputs; {
	case len(ids) == 0:
		return "none"
	case more > 0:
		return fmt.Sprintf("%s and %d more", strings.Join(ids[:maxInputs], ", "), more)
	}
	return strings.Join(ids, ", ")
}

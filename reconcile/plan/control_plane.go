package plan

import (
	"fmt"
	"slices"
	"strings"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/dustin/go-humanize/english"

	"github.com/plumbline-dev/plumbline/render"
)

// AliasOutcome is what another Kubernetes version of the control plane does to the AMIs of an EC2NodeClass.
type AliasOutcome string

// The values of AliasOutcome.
const (
	// AliasMoves: the alias resolves to another AMI than nodes run, and Karpenter replaces these nodes.
	AliasMoves AliasOutcome = "Replaced"
	// AliasStays: no node runs another AMI than the class selects.
	AliasStays AliasOutcome = "Unchanged"
	// AliasUnpublished: AWS publishes no AMI for the alias and the Kubernetes version.
	AliasUnpublished AliasOutcome = "NotPublished"
	// AliasUnsupported: Karpenter does not resolve the alias for the Kubernetes version.
	AliasUnsupported AliasOutcome = "NotSupported"
	// AliasSkewed: the kubelet of an AMI that the class selects is outside of the version skew that Kubernetes supports.
	AliasSkewed AliasOutcome = "KubeletSkew"
	// AliasUnknown: AWS was not queried, or does not answer.
	AliasUnknown AliasOutcome = "Unknown"
)

// ClassForecast is what another Kubernetes version of the control plane does to the nodes of one EC2NodeClass.
type ClassForecast struct {
	Class string `json:"ec2NodeClass"`
	// Alias is the one in its amiSelectorTerms; empty if they have another form.
	Alias string `json:"alias,omitempty"`
	// Pools are the NodePools of its nodes.
	Pools []string `json:"nodePools"`
	// Nodes is how many nodes of the class are not terminating, and Replaced how many of them Karpenter replaces; UpTo
	// reports whether these are the most it may be.
	Nodes    int          `json:"nodes"`
	Replaced int          `json:"replaced"`
	UpTo     bool         `json:"upTo,omitempty"`
	Outcome  AliasOutcome `json:"outcome"`
	Message  string       `json:"message"`
}

// AliasQuestions are the Questions that OnKubernetes needs: what the alias of each EC2NodeClass resolves to, sorted by
// name.
func (l Live) AliasQuestions() []Question {
	var found []Question
	for _, class := range l.classes() {
		if aliasOf(class) != "" && Hashable(class) {
			found = append(found, Question{Ref: render.Ref{Kind: render.EC2NodeClass, Name: class.Name}, Class: class, AMIs: true})
		}
	}
	return found
}

// OnKubernetes returns what a control plane with another Kubernetes version (1.37) does to nodes, for each EC2NodeClass by
// name, given the answers of AWS for that version. Karpenter resolves aliases for the version of the control plane, and
// replaces nodes that run another AMI; all other terms select the same AMIs as before (DescribeImageQueries in
// karpenter-provider-aws pkg/providers/amifamily/ami.go, 1.15.0).
func (l Live) OnKubernetes(kubernetes string, answers map[render.Ref]Answer) []ClassForecast {
	claims := map[string][]*NodeClaim{}
	for i := range l.NodeClaims {
		if c := &l.NodeClaims[i]; !c.Deleting {
			claims[c.Class] = append(claims[c.Class], c)
		}
	}
	found := []ClassForecast{}
	for _, class := range l.classes() {
		f := ClassForecast{Class: class.Name, Alias: aliasOf(class), Pools: []string{}, Nodes: len(claims[class.Name])}
		for _, c := range claims[class.Name] {
			f.Pools = append(f.Pools, c.Pool)
		}
		slices.Sort(f.Pools)
		f.Pools = slices.Compact(f.Pools)
		answer, answered := answers[render.Ref{Kind: render.EC2NodeClass, Name: class.Name}]
		switch {
		case f.Alias == "":
			f.Outcome, f.Message = AliasStays, "its amiSelectorTerms do not depend on the Kubernetes version: nodes keep their AMIs"
			if skew := KubeletSkew(class.Status.AMIs, kubernetes); skew != "" {
				f.Outcome, f.Message = AliasSkewed, skew
			}
		case !Hashable(class):
			f.Outcome, f.Message = AliasUnknown, "its alias cannot be parsed"
		case !answered:
			f.Outcome, f.Message = AliasUnknown, "AWS was not queried"
		default:
			f.judge(kubernetes, &answer, claims[class.Name])
		}
		found = append(found, f)
	}
	return found
}

// judge fills in what the answer of AWS means for the nodes.
func (f *ClassForecast) judge(kubernetes string, answer *Answer, claims []*NodeClaim) {
	amis := &answer.AMIs
	switch {
	case amis.Unsupported:
		f.Outcome = AliasUnsupported
		f.Message = "Karpenter sets the class to AMIsReady=False and launches no node with it: " + amis.Unavailable
		return
	case amis.Empty:
		// The class keeps the AMIs of its status: UnresolvedAMI.
		f.Outcome, f.Message = AliasUnpublished, fmt.Sprintf("AWS publishes no AMI for alias %s and Kubernetes %s: "+
			"Karpenter launches nodes with the AMIs in the status of the class, which are for the version before", f.Alias, kubernetes)
		return
	case amis.Unavailable != "":
		f.Outcome, f.Message, f.Replaced, f.UpTo = AliasUnknown, amis.Unavailable, f.Nodes, f.Nodes > 0
		return
	}
	i := driftsBy(claims, []string{driftOfAMI}, answer)
	f.Replaced, f.UpTo = len(i.claims), i.upTo
	if f.Replaced == 0 {
		f.Outcome, f.Message = AliasStays, "each node runs an AMI that the alias resolves to"
		return
	}
	f.Outcome = AliasMoves
	nodes := english.Plural(f.Replaced, "node", "")
	if f.UpTo {
		nodes = "up to " + nodes
	}
	f.Message = strings.Join(append([]string{fmt.Sprintf("the alias resolves to %s: Karpenter replaces %s at the pace of the budgets (%s)",
		idList(idsOf(amis.Found)), nodes, driftOfAMI)}, i.unavailable...), "; ")
}

func idsOf(amis []awsv1.AMI) []string {
	ids := make([]string, 0, len(amis))
	for _, ami := range amis {
		ids = append(ids, ami.ID)
	}
	return ids
}

// classes returns the EC2NodeClasses that can be read, by name.
func (l Live) classes() []*awsv1.EC2NodeClass {
	var found []*awsv1.EC2NodeClass
	for _, object := range l.OfKind(render.EC2NodeClass) {
		if class, err := typed[awsv1.EC2NodeClass](object); err == nil {
			found = append(found, class)
		}
	}
	return found
}

// aliasOf returns the alias of a class; empty if it has other terms. An alias is the only term
// (karpenter-provider-aws pkg/apis/v1/ec2nodeclass.go, 1.15.0).
func aliasOf(class *awsv1.EC2NodeClass) string {
	for _, term := range class.Spec.AMISelectorTerms {
		if term.Alias != "" {
			return term.Alias
		}
	}
	return ""
}

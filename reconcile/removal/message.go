package removal

import (
	"fmt"
	"slices"
	"strings"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/blocker"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
)

// describe names instances with their states.
func describe(instances []Instance) string {
	words := make([]string, 0, len(instances))
	for _, i := range instances {
		words = append(words, cloud.InstanceID(i.ProviderID)+" ("+i.State+")")
	}
	slices.Sort(words)
	return finding.Some(words)
}

// recorded names the instances in the record that were not seen ending, before
// EC2 has been asked about their end. Those that it has shown by ID speak for
// themselves.
func (o Observation) recorded() string {
	var words []string
	for id, seen := range o.Noted {
		switch {
		case slices.ContainsFunc(o.Shown, func(i Instance) bool { return i.ProviderID == id }):
		case seen.ending():
		case seen == "":
			words = append(words, cloud.InstanceID(id)+" (never found in EC2)")
		case seen == seenOnce:
			words = append(words, cloud.InstanceID(id))
		default:
			words = append(words, cloud.InstanceID(id)+" (last seen "+string(seen)+")")
		}
	}
	if len(words) == 0 {
		return ""
	}
	slices.Sort(words)
	return ": " + finding.Some(words)
}

// unansweredSince stands between what EC2 answered last and why it does not now.
const unansweredSince = "; EC2 has not answered since: "

// unanswered is the reason and the message of a removal about which EC2, asked in
// this reconcile, gave no answer. What it answered last, an instance that lives above
// all, is not forgotten for that.
func (o Observation) unanswered(r v1alpha1.Removal) (reason, message string) {
	if r.Reason != ReasonInstancesLeaving && r.Reason != ReasonUnverifiable {
		if recorded := o.recorded(); recorded != "" {
			return ReasonEC2NotAnswering, o.silence() + "; not verified" + recorded
		}
		return ReasonEC2NotAnswering, o.silence()
	}
	last, _, _ := strings.Cut(r.Message, unansweredSince)
	return r.Reason, last + unansweredSince + o.silence()
}

// Evidence is what was found out about a removal that stands still.
type Evidence struct {
	// Evidence is about a few of the nodes that do not go, the oldest first.
	blocker.Evidence

	// Leader is open while a pod of Karpenter's controller leads. The message of one that is says what is
	// wrong with it.
	Leader Gate
}

// Diagnose says what keeps a removal, by name, and where it stands still, with
// which commands a person may break the glass. None is ever executed. The same
// evidence makes the same sentence.
func Diagnose(r v1alpha1.Removal, o Observation, e Evidence) (string, []v1alpha1.BreakGlass) {
	if r.Reason == ReasonNodeClaimsLeaving {
		return nodesLeft(r, o, e)
	}
	return r.Message, nil
}

func nodesLeft(r v1alpha1.Removal, o Observation, e Evidence) (string, []v1alpha1.BreakGlass) {
	var found []string
	switch {
	case !o.Controller.Open:
		found = append(found, "no node drains because Karpenter's controller does not run: "+o.Controller.Message)
	case !e.Leader.Open:
		found = append(found, "no node drains because Karpenter's controller has no leader: "+e.Leader.Message)
	case o.Controller.Message != "":
		found = append(found, "Karpenter's controller differs from its chart: "+o.Controller.Message)
	case e.Leader.Message != "":
		found = append(found, "Karpenter's controller differs from Git: "+e.Leader.Message)
	}
	var commands []v1alpha1.BreakGlass
	for i := range e.Nodes {
		n := &e.Nodes[i]
		c := n.WaitsFor(e.Evidence)
		found = append(found, fmt.Sprintf("node %s (NodeClaim/%s) waits for %s", n.Title(), n.Claim, c.Words))
		if g, breakable := blocker.BreakGlass(n, c); breakable {
			commands = append(commands, g)
		}
	}
	switch {
	case len(found) == 0:
		return r.Message, nil // which has what Karpenter ends first
	case o.first() != "":
		found = append(found, o.first())
	}
	if r.Stalled == nil {
		return strings.Join(found, "; "), nil // it may still go by itself
	}
	words := strings.Join(found, "; ")
	if len(commands) > 0 {
		words += fmt.Sprintf("; to terminate it anyway, at your own risk (%s): %s", commands[0].Risk, commands[0].Command)
	}
	return words, commands
}

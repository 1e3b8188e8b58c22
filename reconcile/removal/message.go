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

func describe(instances []Instance) string {
	words := make([]string, 0, len(instances))
	for _, i := range instances {
		words = append(words, cloud.InstanceID(i.ProviderID)+" ("+i.State+")")
	}
	slices.Sort(words)
	return finding.Some(words)
}

// recorded names the recorded instances that were not seen shutting down, before EC2 was queried about their
// termination. It omits those in Shown, which the message already contains.
func (o Observation) recorded() string {
	var words []string
	for id, seen := range o.Noted {
		switch {
		case slices.ContainsFunc(o.Shown, func(i Instance) bool { return i.ProviderID == id }):
		case seen.isTerminating():
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

// unansweredSince separates EC2's last response from the reason why there is none now.
const unansweredSince = "; EC2 has not answered since: "

// unanswered returns the reason and the message of a removal if EC2, queried in this reconcile, did not respond. The
// message keeps the last response, which may name running instances.
func (o Observation) unanswered(r v1alpha1.Removal) (reason, message string) {
	if r.Reason != ReasonInstancesLeaving && r.Reason != ReasonUnverifiable {
		if recorded := o.recorded(); recorded != "" {
			return ReasonEC2NotAnswering, o.noResponse() + "; not verified" + recorded
		}
		return ReasonEC2NotAnswering, o.noResponse()
	}
	last, _, _ := strings.Cut(r.Message, unansweredSince)
	return r.Reason, last + unansweredSince + o.noResponse()
}

// Evidence is the result of a diagnosis of a stalled removal.
type Evidence struct {
	// Evidence describes a few of the nodes that are not terminated, the oldest first.
	blocker.Evidence

	// Leader is open while a pod of Karpenter's controller leads. Its message then says what is wrong with the pod.
	Leader Gate
}

// Diagnose names what blocks a removal and, if it is stalled, the commands with which a person can break the glass. It
// never executes them. The same evidence results in the same text.
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
		return r.Message, nil // which names what Karpenter terminates first
	case o.terminatedFirst() != "":
		found = append(found, o.terminatedFirst())
	}
	if r.Stalled == nil {
		return strings.Join(found, "; "), nil // it may still complete without help
	}
	words := strings.Join(found, "; ")
	if len(commands) > 0 {
		words += fmt.Sprintf("; to terminate it anyway, at your own risk (%s): %s", commands[0].Risk, commands[0].Command)
	}
	return words, commands
}

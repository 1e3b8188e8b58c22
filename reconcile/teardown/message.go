package teardown

import (
	"slices"
	"strings"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
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
			words = append(words, cloud.InstanceID(id)+" (never in EC2's answers)")
		case seen == seenOnce:
			words = append(words, cloud.InstanceID(id))
		default:
			words = append(words, cloud.InstanceID(id)+" (last "+string(seen)+")")
		}
	}
	if len(words) == 0 {
		return ""
	}
	slices.Sort(words)
	return ": " + finding.Some(words)
}

// unansweredSince stands between what EC2 answered last and why it does not now.
const unansweredSince = "; EC2 gave no answer since: "

// unanswered is the reason and the message of a removal about which EC2, asked in
// this pass, gave no answer. What it answered last, an instance that lives above
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

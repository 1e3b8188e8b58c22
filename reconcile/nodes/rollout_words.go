package nodes

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/render"
)

// RolloutWords say how far a rollout has come, and what it waits for.
func RolloutWords(r v1alpha1.Rollout) string {
	words := Replaced(r)
	if r.Outdated > 0 {
		words += causes(r)
	}
	if r.Draining > 0 {
		words += fmt.Sprintf(", %d draining", r.Draining)
	}
	if short := StaticReady(r); short != "" && short != words {
		words += ", " + short
	}
	if r.Message != "" {
		words += ": " + r.Message
	}
	return words
}

// Replaced counts the nodes that are replaced: 1 of 2 nodes replaced.
func Replaced(r v1alpha1.Rollout) string {
	if short := StaticReady(r); short != "" && r.Nodes == 0 && r.SettlesAt == nil {
		return short
	}
	if r.Nodes == 0 {
		return "no node is known to be outdated yet"
	}
	return fmt.Sprintf("%d of %d nodes replaced", r.Nodes-r.Outdated, r.Nodes)
}

// causes are Karpenter's reasons, and whether a commit is behind them.
func causes(r v1alpha1.Rollout) string {
	why := strings.Join(r.Reasons, ", ")
	if r.Revision == "" {
		why = cmp.Or(why, "outdated") + ", by no commit of this NodeSync"
	}
	if why == "" {
		return ""
	}
	return " (" + why + ")"
}

// Uncommitted says what has outdated the nodes of a rollout that no commit has begun: Karpenter's
// reasons, with the inputs that differ where they are known.
func Uncommitted(r v1alpha1.Rollout) string {
	var words []string
	for _, reason := range r.Reasons {
		before := len(words)
		for _, i := range r.Inputs {
			if one := i.Words(); i.Reason == reason && !slices.Contains(words, one) {
				words = append(words, one)
			}
		}
		if len(words) == before {
			words = append(words, reason)
		}
	}
	return finding.Few(words, "; ")
}

// announce says by an event that a rollout begins, or is over.
func (r *Rollouts) announce(next *v1alpha1.Rollout) {
	switch {
	case next == nil && r.Said != nil:
		r.Event(v1alpha1.ReasonRolledOut, finished(r.ofGit(*r.Said), r.Now))
	case next != nil && (r.Said == nil || r.Said.Revision != next.Revision):
		r.Event(v1alpha1.ReasonRollingOut, started(*next))
	}
}

// started is the event on a rollout that begins.
func started(r v1alpha1.Rollout) string {
	switch short := StaticReady(r); {
	case r.Nodes == 0 && short != "" && r.Revision == "":
		return short
	case r.Nodes == 0 && short != "":
		return render.ShortRevision(r.Revision) + ": " + short
	case r.Nodes == 0:
		return render.ShortRevision(r.Revision) + " may outdate nodes: Karpenter asks AWS which"
	case r.Revision == "":
		return fmt.Sprintf("outdated by no commit of this NodeSync: %s (%s); Karpenter replaces them at the pace of their disruption budgets", english.Plural(int(r.Nodes), "node", ""), Uncommitted(r))
	}
	return fmt.Sprintf("%s outdates %s: Karpenter replaces them at the pace of their disruption budgets", render.ShortRevision(r.Revision), english.Plural(int(r.Nodes), "node", ""))
}

// finished is the event on a rollout that has ended.
func finished(r v1alpha1.Rollout, now time.Time) string {
	of := "no node was outdated"
	if r.Nodes > 0 {
		of = fmt.Sprintf("each of %s matches or is gone", english.Plural(int(r.Nodes), "node", ""))
	}
	if full := filled(r); full != "" && r.Nodes == 0 {
		of = full
	} else if full != "" {
		of += ", " + full
	}
	return fmt.Sprintf("%s, after %s", of, now.Sub(r.Since.Time).Round(time.Second))
}

package summary

import (
	"fmt"
	"strings"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	"github.com/fluxcd/pkg/runtime/conditions"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/brake"
	"github.com/plumbline-dev/plumbline/reconcile/nodes"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// Status is how a NodeSync is.
type Status struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
	// State is the answer in two words, Next what happens now by itself or has to
	// be done.
	State     string       `json:"state"`
	Next      string       `json:"next"`
	Ready     string       `json:"ready"`
	Reason    string       `json:"reason,omitempty"`
	Message   string       `json:"message,omitempty"`
	Since     *metav1.Time `json:"since,omitempty"`
	Attempted string       `json:"attempted,omitempty"`
	Applied   string       `json:"applied,omitempty"`
	Source    string       `json:"source,omitempty"`
	Cloud     string       `json:"cloud,omitempty"`
	Launches  string       `json:"launches,omitempty"`
	NodeDrift string       `json:"nodeDrift,omitempty"`
	// Stuck names what has been terminating for longer than expected, and Terminations are these.
	Stuck        string                 `json:"terminationStalled,omitempty"`
	Terminations []v1alpha1.Termination `json:"terminations,omitempty"`
	// Rollout is the replacement of nodes that do not match their definitions.
	Rollout *v1alpha1.Rollout `json:"rollout,omitempty"`
	// PoolRollouts are the pools in which there are such nodes, and whether that is stopped.
	PoolRollouts    []v1alpha1.PoolRollout    `json:"poolRollouts,omitempty"`
	Extra           string                    `json:"extraFields,omitempty"`
	DaemonSets      string                    `json:"daemonSets,omitempty"`
	Unguarded       string                    `json:"deletionUnguarded,omitempty"`
	ChartsUnguarded string                    `json:"chartsUnguarded,omitempty"`
	Denied          string                    `json:"karpenterDenied,omitempty"`
	Volumes         string                    `json:"volumesLeft,omitempty"`
	Left            string                    `json:"resourcesLeft,omitempty"`
	Rescued         string                    `json:"nodeClassRescued,omitempty"`
	Orphaned        string                    `json:"orphaned,omitempty"`
	Appliers        string                    `json:"otherAppliers,omitempty"`
	Suspended       bool                      `json:"suspended,omitempty"`
	Waiting         *v1alpha1.Waiting         `json:"waiting,omitempty"`
	Karpenter       *v1alpha1.KarpenterStatus `json:"karpenter,omitempty"`
	Stages          []v1alpha1.StageStatus    `json:"stages,omitempty"`
	Pools           []Pool                    `json:"pools"`
	Removals        []v1alpha1.Removal        `json:"removals,omitempty"`
	// Unled says that no daemon leads, so that all of this is of before; empty where one
	// does, or nobody can tell.
	Unled string `json:"unled,omitempty"`
	// Unread says why the pools could not be read; the rest holds even so.
	Unread string `json:"unread,omitempty"`
}

// Of sums a NodeSync up, but for its pools.
func Of(sync *v1alpha1.NodeSync) Status {
	s := sync.Status
	status := Status{
		Name: sync.Name, Namespace: sync.Namespace, State: string(StateOf(sync)), Next: Next(sync), Ready: ReadyWord(sync),
		Reason: conditions.GetReason(sync, meta.ReadyCondition), Message: conditions.GetMessage(sync, meta.ReadyCondition),
		Since:     Since(sync),
		Attempted: s.LastAttemptedRevision, Applied: s.LastAppliedRevision, Suspended: sync.Spec.Suspend,
		Waiting: s.Waiting, Karpenter: s.Karpenter, Stages: s.Stages, Removals: s.Removals, Rollout: s.Rollout, PoolRollouts: s.PoolRollouts, Pools: []Pool{},
	}
	if verified := conditions.Get(sync, v1alpha1.SourceVerifiedCondition); verified != nil {
		status.Source = fmt.Sprintf("%s (%s)", verified.Status, verified.Message)
	}
	if verified := conditions.Get(sync, v1alpha1.CloudVerifiedCondition); verified != nil {
		status.Cloud = fmt.Sprintf("%s (%s)", verified.Status, verified.Reason)
	}
	status.Launches = conditions.GetMessage(sync, v1alpha1.LaunchFailingCondition)
	status.NodeDrift = conditions.GetMessage(sync, v1alpha1.NodeDriftCondition)
	if status.Stuck = conditions.GetMessage(sync, v1alpha1.TerminationStalledCondition); status.Stuck != "" {
		status.Terminations = s.Terminations
	}
	status.Extra = conditions.GetMessage(sync, v1alpha1.ExtraFieldsCondition)
	status.DaemonSets = conditions.GetMessage(sync, v1alpha1.IntolerantDaemonSetsCondition)
	status.ChartsUnguarded = conditions.GetMessage(sync, v1alpha1.ChartsUnguardedCondition)
	status.Denied = conditions.GetMessage(sync, v1alpha1.KarpenterDeniedCondition)
	status.Unguarded = conditions.GetMessage(sync, v1alpha1.DeletionUnguardedCondition)
	status.Volumes = conditions.GetMessage(sync, v1alpha1.VolumesLeftCondition)
	status.Left = conditions.GetMessage(sync, v1alpha1.ResourcesLeftCondition)
	status.Orphaned = conditions.GetMessage(sync, v1alpha1.OrphanedCondition)
	status.Appliers = conditions.GetMessage(sync, v1alpha1.OtherAppliersCondition)
	status.Rescued = conditions.GetMessage(sync, v1alpha1.NodeClassRescuedCondition)
	return status
}

// Line is one fact: what it is about, what is so, and since when where that is known.
type Line struct {
	About, Text string
	Since       *metav1.Time
}

// Lines are the facts beside state and message, in the order in which they are shown.
func (s Status) Lines() []Line {
	lines := []Line{{About: "commit", Text: s.Commit()}}
	if s.Source != "" {
		lines = append(lines, Line{About: "source", Text: "verified: " + OneLine(s.Source)})
	}
	if w := s.Waiting; w != nil {
		lines = append(lines, Line{"waiting", "for " + w.For, &w.Since})
	}
	lines = append(lines, Line{About: "next", Text: s.Next})
	if k := s.Karpenter; k != nil {
		lines = append(lines, Line{About: "karpenter", Text: fmt.Sprintf("%s in %s, cluster %s in %s", strings.TrimSpace(k.Management+" "+k.Version), k.Namespace, k.Cluster, k.Region)})
		if t := k.Target; t != nil {
			lines = append(lines, Line{"charts", fmt.Sprintf("%s: %s", t.Version, t.Step), &t.Since})
		}
	}
	lines = append(lines, Line{About: "cloud", Text: "verified: " + OrNone(s.Cloud)})
	if s.Launches != "" {
		lines = append(lines, Line{About: "launches", Text: "fail: " + s.Launches})
	}
	if s.Rollout != nil {
		lines = append(lines, Line{"rollout", s.RolloutMessage(), &s.Rollout.Since})
	}
	if words := brake.Words(s.PoolRollouts); words != "" {
		lines = append(lines, Line{"brake", OneLine(words), nil})
	}
	for _, about := range []Line{
		{About: "nodes", Text: before("drift: ", s.NodeDrift)},
		{About: "stuck", Text: s.Stuck},
		{About: "fields", Text: before("extra: ", s.Extra)},
		{About: "daemonsets", Text: s.DaemonSets},
		{About: "guard", Text: s.Unguarded},
		{About: "policies", Text: s.ChartsUnguarded},
		{About: "denied", Text: s.Denied},
		{About: "volumes", Text: s.Volumes},
		{About: "aws", Text: s.Left},
		{About: "class", Text: s.Rescued},
		{About: "orphaned", Text: s.Orphaned},
		{About: "appliers", Text: s.Appliers},
	} {
		if about.Text != "" {
			about.Text = OneLine(about.Text)
			lines = append(lines, about)
		}
	}
	return lines
}

// RolloutMessage says in one line how far a rollout is; empty where there is none.
func (s Status) RolloutMessage() string {
	if s.Rollout == nil {
		return ""
	}
	return OneLine(nodes.RolloutWords(brake.Awaits(*s.Rollout, s.PoolRollouts)))
}

// before puts a word before a text; nothing where that is empty.
func before(word, text string) string {
	if text == "" {
		return ""
	}
	return word + text
}

// Commit says which commit counts, in short.
func (s Status) Commit() string {
	text := OrNone(render.ShortRevision(s.Applied))
	switch {
	case s.Attempted == "" || s.Attempted == s.Applied:
		return text
	case s.State == string(Failed):
		return text + "; not applied: " + render.ShortRevision(s.Attempted)
	case s.State == string(Held):
		return text + "; held: " + render.ShortRevision(s.Attempted)
	}
	return text + ", on the way to " + render.ShortRevision(s.Attempted)
}

// ReadyWord is the status of Ready, as far as it counts.
func ReadyWord(sync *v1alpha1.NodeSync) string {
	if StateOf(sync) == Unknown {
		return "Unknown"
	}
	if ready := conditions.Get(sync, meta.ReadyCondition); ready != nil {
		return string(ready.Status)
	}
	return "Unknown"
}

// Message is the state of a NodeSync in one line, with what it waits for: that of Ready or, once the definitions are
// applied, that of the nodes.
func Message(sync *v1alpha1.NodeSync) string {
	switch state := StateOf(sync); {
	case state == Unknown:
		return "unknown: " + WhyUnknown(sync)
	case state == RollingOut:
		return OneLine(string(RollingOut) + ": " + conditions.GetMessage(sync, v1alpha1.RolledOutCondition))
	case state.OfNodes():
		return OneLine(conditions.GetMessage(sync, v1alpha1.RolledOutCondition))
	}
	return OneLine(conditions.GetMessage(sync, meta.ReadyCondition))
}

// Headline is the state with a count of the nodes that are replaced: rolling out: 0 of 2 nodes replaced.
func (s Status) Headline() string {
	if s.Rollout == nil || !State(s.State).OfNodes() {
		return s.State
	}
	return s.State + ": " + nodes.Replaced(*s.Rollout)
}

// WaitsFor says in one line what a removal waits for, and of one that is stalled since when nothing of it moves.
func WaitsFor(r v1alpha1.Removal, now time.Time) string {
	if r.Stalled == nil || r.LastProgress.IsZero() {
		return OneLine(r.Message)
	}
	return fmt.Sprintf("no progress since %s (%s): %s", plan.ClockTime(r.LastProgress.Time, now), Age(r.LastProgress, now), OneLine(r.Message))
}

// PhaseWord is how far a removal has come.
func PhaseWord(r v1alpha1.Removal) string {
	switch {
	case r.Drained():
		return v1alpha1.ReasonDrained
	case r.Stalled != nil:
		return string(r.Phase) + ", Stalled"
	case r.Queued():
		return v1alpha1.ReasonQueued
	}
	return string(r.Phase)
}

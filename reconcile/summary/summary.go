package summary

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"
	"github.com/fluxcd/pkg/apis/meta"
	"github.com/fluxcd/pkg/runtime/conditions"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/duration"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/recorder"
	"github.com/plumbline-dev/plumbline/reconcile/rollout"
	"github.com/plumbline-dev/plumbline/redact"
	"github.com/plumbline-dev/plumbline/render"
)

// Status is the summary of a NodeSync.
type Status struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
	// State is the state in two words, and Next what happens next or has to be done.
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
	// Missing names the nodes that NodePools do not have because their launches fail.
	Missing   string `json:"missingNodes,omitempty"`
	NodeDrift string `json:"nodeDrift,omitempty"`
	// Instances names the instances that differ from their definitions and NodeClaims, or why they are not compared.
	Instances string `json:"instanceDrift,omitempty"`
	// RemovalGrace is spec.removal.grace, from which removals that have not started count down.
	RemovalGrace time.Duration `json:"-"`
	// Stuck names what has been terminating for longer than expected, and Terminations lists it.
	Stuck        string                 `json:"terminationStalled,omitempty"`
	Terminations []v1alpha1.Termination `json:"terminations,omitempty"`
	// Rollout is the replacement of nodes that do not match their definitions.
	Rollout *v1alpha1.Rollout `json:"rollout,omitempty"`
	// PoolRollouts are the pools with such nodes, and whether their rollout is stopped.
	PoolRollouts    []v1alpha1.PoolRollout    `json:"poolRollouts,omitempty"`
	Extra           string                    `json:"extraFields,omitempty"`
	DaemonSets      string                    `json:"daemonSets,omitempty"`
	Unguarded       string                    `json:"deletionUnguarded,omitempty"`
	ChartsUnguarded string                    `json:"chartsUnguarded,omitempty"`
	Denied          string                    `json:"karpenterDenied,omitempty"`
	Defect          string                    `json:"karpenterDefect,omitempty"`
	AutoMode        string                    `json:"autoMode,omitempty"`
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
	// Support is set if upstream does not support the version of Karpenter, or not for long.
	Support string `json:"karpenterSupport,omitempty"`
	// Images is the pull request with newer AMIs, or why there is none, and which AMIs are too old.
	Images string `json:"images,omitempty"`
	// Rings is which commit the rings of a fleet let this cluster take, and what newer ones wait for.
	Rings string `json:"rings,omitempty"`
	// Unled reports that no daemon leads, so that all of this may be outdated; empty if one does, or if that is
	// unknown.
	Unled string `json:"unled,omitempty"`
	// Unread is why the pools could not be read; the rest is still valid.
	Unread string `json:"unread,omitempty"`
}

// Of summarizes a NodeSync, without its pools.
func Of(sync *v1alpha1.NodeSync) Status {
	s := sync.Status
	status := Status{
		Name: sync.Name, Namespace: sync.Namespace, State: string(StateOf(sync)), Next: Next(sync), Ready: ReadyWord(sync),
		Reason: conditions.GetReason(sync, meta.ReadyCondition), Message: conditions.GetMessage(sync, meta.ReadyCondition),
		Since:     Since(sync),
		Attempted: s.LastAttemptedRevision, Applied: s.LastAppliedRevision, Suspended: sync.Spec.Suspend,
		RemovalGrace: sync.GetRemovalGrace(),
		Waiting:      s.Waiting, Karpenter: s.Karpenter, Stages: s.Stages, Removals: s.Removals, Rollout: s.Rollout,
		PoolRollouts: s.PoolRollouts, Pools: []Pool{},
	}
	if verified := conditions.Get(sync, v1alpha1.SourceVerifiedCondition); verified != nil {
		status.Source = verifiedWords(verified)
	}
	if verified := conditions.Get(sync, v1alpha1.CloudVerifiedCondition); verified != nil {
		if status.Cloud = verifiedWords(verified); verified.Status == metav1.ConditionTrue {
			status.Cloud = "verified"
		}
	}
	status.Launches = conditions.GetMessage(sync, v1alpha1.LaunchFailingCondition)
	status.Missing = finding.Few(missingNodes(sync), ", ")
	status.NodeDrift = conditions.GetMessage(sync, v1alpha1.NodeDriftCondition)
	status.Instances = conditions.GetMessage(sync, v1alpha1.InstanceDriftCondition)
	if status.Stuck = conditions.GetMessage(sync, v1alpha1.TerminationStalledCondition); status.Stuck != "" {
		status.Terminations = s.Terminations
	}
	status.Extra = conditions.GetMessage(sync, v1alpha1.ExtraFieldsCondition)
	status.DaemonSets = conditions.GetMessage(sync, v1alpha1.IntolerantDaemonSetsCondition)
	status.ChartsUnguarded = conditions.GetMessage(sync, v1alpha1.ChartsUnguardedCondition)
	status.Support = conditions.GetMessage(sync, v1alpha1.KarpenterUnsupportedCondition)
	status.Images = imagesOf(sync)
	status.Rings = ringsOf(sync)
	status.Denied = conditions.GetMessage(sync, v1alpha1.KarpenterDeniedCondition)
	status.Defect = conditions.GetMessage(sync, v1alpha1.KarpenterDefectCondition)
	status.AutoMode = conditions.GetMessage(sync, v1alpha1.AutoModeCondition)
	status.Unguarded = conditions.GetMessage(sync, v1alpha1.DeletionUnguardedCondition)
	status.Volumes = conditions.GetMessage(sync, v1alpha1.VolumesLeftCondition)
	status.Left = conditions.GetMessage(sync, v1alpha1.ResourcesLeftCondition)
	status.Orphaned = conditions.GetMessage(sync, v1alpha1.OrphanedCondition)
	status.Appliers = conditions.GetMessage(sync, v1alpha1.OtherAppliersCondition)
	status.Rescued = conditions.GetMessage(sync, v1alpha1.NodeClassRescuedCondition)
	return status
}

// verifiedWords describes a condition that reports whether something is verified. Its message describes what was
// verified, or why it is not.
func verifiedWords(verified *metav1.Condition) string {
	switch words := cmp.Or(verified.Message, verified.Reason); verified.Status {
	case metav1.ConditionTrue:
		return words
	case metav1.ConditionFalse:
		return "not verified: " + words
	default:
		return "unknown: " + words
	}
}

// Line is one fact: its subject, its text, and since when if known.
type Line struct {
	About, Text string
	Since       *metav1.Time
}

// Lines returns the facts in addition to state and message, in the order in which they are shown.
func (s Status) Lines() []Line {
	lines := []Line{{About: "commit", Text: s.Commit()}}
	if s.Source != "" {
		lines = append(lines, Line{About: "source", Text: OneLine(s.Source)})
	}
	if w := s.Waiting; w != nil {
		lines = append(lines, Line{"waiting", "for " + w.For, &w.Since})
	}
	lines = append(lines, Line{About: "next", Text: s.Next})
	if k := s.Karpenter; k != nil {
		lines = append(lines, Line{
			About: "karpenter",
			Text:  fmt.Sprintf("%s in %s, cluster %s in %s", strings.TrimSpace(k.Management+" "+k.Version), k.Namespace, k.Cluster, k.Region),
		})
		if fork := plan.ForkOf(k); fork != "" {
			lines = append(lines,
				Line{About: "fork", Text: fork + " is not a release of upstream: which nodes a change of a definition replaces is unknown"})
		}
		if t := k.Target; t != nil {
			lines = append(lines, Line{"charts", fmt.Sprintf("%s: %s", t.Version, t.Step), &t.Since})
		}
	}
	lines = append(lines, Line{About: "cloud", Text: OneLine(cmp.Or(s.Cloud, "not verified yet"))})
	if s.Launches != "" {
		lines = append(lines, Line{About: "launches", Text: "fail: " + s.Launches})
	}
	if s.Rollout != nil {
		lines = append(lines, Line{"rollout", s.RolloutMessage(), &s.Rollout.Since})
		if words := rollout.Expected(*s.Rollout); words != "" {
			lines = append(lines, Line{About: "estimate", Text: OneLine(words)})
		}
	}
	if words := rollout.BrakeWords(s.PoolRollouts); words != "" {
		lines = append(lines, Line{"brake", OneLine(words), nil})
	}
	for _, about := range []Line{
		{About: "nodes", Text: before("drift: ", s.NodeDrift)},
		{About: "instances", Text: s.Instances},
		{About: "stuck", Text: s.Stuck},
		{About: "fields", Text: before("extra: ", s.Extra)},
		{About: "daemonsets", Text: s.DaemonSets},
		{About: "guard", Text: s.Unguarded},
		{About: "policies", Text: s.ChartsUnguarded},
		{About: "denied", Text: s.Denied},
		{About: "support", Text: s.Support},
		{About: "defect", Text: s.Defect},
		{About: "images", Text: s.Images},
		{About: "rings", Text: s.Rings},
		{About: "pools", Text: s.AutoMode},
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

// imagesOf describes the image train in one line; empty if there is nothing to report.
func imagesOf(sync *v1alpha1.NodeSync) string {
	var parts []string
	if t := sync.Status.Images; t != nil {
		if t.URL != "" {
			parts = append(parts, strings.TrimPrefix(strings.Join(t.Aliases, ", ")+": "+t.URL, ": "))
		}
		parts = append(parts, t.Message)
	}
	parts = append(parts, conditions.GetMessage(sync, v1alpha1.ImagesOutdatedCondition))
	return strings.Join(slices.DeleteFunc(parts, func(part string) bool { return part == "" }), "; ")
}

// ringsOf describes in one line how far this cluster of a fleet has come; empty without rings.
func ringsOf(sync *v1alpha1.NodeSync) string {
	p := sync.Status.Promotion
	if sync.Spec.Promotion == nil || p == nil {
		return ""
	}
	parts := []string{conditions.GetMessage(sync, v1alpha1.PromotedCondition)}
	if p.RecordFailure != "" {
		parts = append(parts, "later rings do not see this cluster: "+p.RecordFailure)
	}
	return strings.TrimPrefix(strings.Join(parts, "; "), "; ")
}

// RolloutMessage describes in one line how far a rollout has come; empty if there is none.
func (s Status) RolloutMessage() string {
	if s.Rollout == nil {
		return ""
	}
	r := rollout.Awaits(*s.Rollout, s.PoolRollouts)
	return OneLine(cmp.Or(rollout.Late(r), rollout.Words(r)))
}

// before puts a word before a text; empty if the text is.
func before(word, text string) string {
	if text == "" {
		return ""
	}
	return word + text
}

// Commit describes in short the applied commit, and the attempted one if that differs.
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

// ReadyWord is the status of Ready; Unknown if it is not current.
func ReadyWord(sync *v1alpha1.NodeSync) string {
	if StateOf(sync) == Unknown {
		return "Unknown"
	}
	if ready := conditions.Get(sync, meta.ReadyCondition); ready != nil {
		return string(ready.Status)
	}
	return "Unknown"
}

// Message describes the state of a NodeSync in one line, with what it waits for: the message of Ready or, once the
// definitions are applied, that of the nodes; for a termination that has stalled its cause, including for the rollout
// that waits for it.
func Message(sync *v1alpha1.NodeSync) string {
	switch state := StateOf(sync); {
	case state == Unknown:
		return "unknown: " + WhyUnknown(sync)
	case state == Stuck:
		words := string(Stuck) + ": " + OneLine(conditions.GetMessage(sync, v1alpha1.TerminationStalledCondition))
		if conditions.IsFalse(sync, v1alpha1.RolledOutCondition) {
			words += "; " + string(stateOfNodes(sync)) + ": " + OneLine(conditions.GetMessage(sync, v1alpha1.RolledOutCondition))
		}
		return words
	case state.OfNodes() && !conditions.IsFalse(sync, v1alpha1.RolledOutCondition):
		return OneLine(string(state) + ": " + conditions.GetMessage(sync, v1alpha1.LaunchFailingCondition))
	case state == RollingOut:
		return OneLine(string(RollingOut) + ": " + conditions.GetMessage(sync, v1alpha1.RolledOutCondition))
	case state.OfNodes():
		return OneLine(conditions.GetMessage(sync, v1alpha1.RolledOutCondition))
	}
	return OneLine(conditions.GetMessage(sync, meta.ReadyCondition))
}

// Headline is the state with the number of nodes that are replaced or missing: rolling out: 0 of 2 nodes replaced.
func (s Status) Headline() string {
	switch {
	case !State(s.State).OfNodes():
	case s.Rollout != nil:
		return s.State + ": " + rollout.Replaced(*s.Rollout)
	case s.Missing != "":
		return s.State + ": " + s.Missing
	}
	return s.State
}

// WaitsFor describes in one line what a removal waits for: with the time until it starts, or, if it is stalled, with
// the time of its last progress. grace is spec.removal.grace. Neither time is part of the condition, which is stable.
func WaitsFor(r v1alpha1.Removal, grace time.Duration, now time.Time) string {
	if left := r.RecordedAt.Add(grace).Sub(now).Round(time.Second); r.Reason == v1alpha1.ReasonGrace && left > 0 {
		return fmt.Sprintf("starts in %s, unless it is put back into Git", plan.Short(left))
	}
	if r.Stalled == nil || r.LastProgress.IsZero() {
		return OneLine(r.Message)
	}
	return fmt.Sprintf("no progress since %s (%s): %s", plan.ClockTime(r.LastProgress.Time, now), Age(r.LastProgress, now), OneLine(r.Message))
}

// PhaseWord describes how far a removal has come.
func PhaseWord(r v1alpha1.Removal) string {
	switch {
	case r.Drained():
		return v1alpha1.ReasonDrained
	case r.Stalled != nil:
		return string(r.Phase) + ", Stalled"
	case r.Queued(), r.Returned():
		return r.Reason
	}
	return string(r.Phase)
}

// State is the state of a NodeSync, for people.
type State string

// The states, in the order in which they are checked.
const (
	Deleted   State = "being deleted"
	Suspended State = "suspended"
	Drained   State = "drained"
	Unseen    State = "not reconciled yet"
	Unknown   State = "unknown"
	Stuck     State = "termination stalled"
	InSync    State = "in sync"
	// RollingOut, RolloutHeld, RolloutStopped and RolloutFailing are states of a NodeSync whose definitions are applied
	// and whose nodes do not match them yet.
	RollingOut     State = "rolling out"
	RolloutHeld    State = "rollout held"
	RolloutStopped State = "rollout stopped"
	RolloutFailing State = "rollout failing"
	// LaunchFailing is the state of a NodeSync whose NodePools have too few nodes because their launches fail.
	LaunchFailing State = "launch failing"
	Held          State = "held by the guard"
	Stalled       State = "stalled"
	Drifted       State = "drifted"
	Failed        State = "failed"
	Retrying      State = "failed, tried again"
	Removing      State = "removing"
	Waiting       State = "waiting"
)

// StateOf returns the state according to the conditions.
func StateOf(sync *v1alpha1.NodeSync) State {
	reason := conditions.GetReason(sync, meta.ReadyCondition)
	switch {
	case !sync.DeletionTimestamp.IsZero():
		return Deleted
	case sync.Spec.Suspend:
		return Suspended
	case unwritten(sync) != "":
		return Unknown
	case !conditions.Has(sync, meta.ReadyCondition), sync.Status.ObservedGeneration < sync.Generation:
		return Unseen
	case conditions.IsReady(sync):
		return readyState(sync, reason)
	case conditions.IsStalled(sync):
		return stuckState(reason)
	case reason == v1alpha1.ReasonClassTerminating:
		return Failed // a retry changes nothing
	case conditions.IsFalse(sync, meta.ReadyCondition):
		return Retrying
	case conditions.IsFalse(sync, v1alpha1.RolledOutCondition) && rolloutFails(stateOfNodes(sync)):
		return stateOfNodes(sync)
	case reason == v1alpha1.ReasonRemoving:
		return Removing
	}
	return Waiting
}

// readyState returns the state of a NodeSync that is Ready.
func readyState(sync *v1alpha1.NodeSync, reason string) State {
	switch {
	case reason == v1alpha1.ReasonDrained:
		return Drained
	case WhyUnknown(sync) != "":
		return Unknown
	case conditions.IsTrue(sync, v1alpha1.TerminationStalledCondition):
		return Stuck
	}
	return stateOfNodes(sync)
}

// stateOfNodes returns the state of a NodeSync whose definitions are applied: InSync if each node matches them and none
// is missing. Only here do RolledOut and LaunchFailing become a state.
func stateOfNodes(sync *v1alpha1.NodeSync) State {
	if !conditions.IsFalse(sync, v1alpha1.RolledOutCondition) {
		return stateOfLaunches(sync)
	}
	switch conditions.GetReason(sync, v1alpha1.RolledOutCondition) {
	case v1alpha1.ReasonRolloutBraked:
		if rollout.OnlyHeld(sync.Status.PoolRollouts) {
			return RolloutHeld
		}
		return RolloutStopped
	case v1alpha1.ReasonRolloutFailing, v1alpha1.ReasonRolloutTimedOut:
		return RolloutFailing
	}
	return RollingOut
}

// stateOfLaunches returns the state of a NodeSync whose nodes all match: not InSync if nodes are missing that Git or a
// pod requires, because their launches fail. A failed launch of a NodePool with nodes does not count.
func stateOfLaunches(sync *v1alpha1.NodeSync) State {
	switch {
	case len(missingNodes(sync)) == 0:
		return InSync
	case conditions.GetReason(sync, v1alpha1.LaunchFailingCondition) == v1alpha1.ReasonRolloutTimedOut:
		return RolloutFailing
	}
	return LaunchFailing
}

// missingNodes names the nodes that NodePools do not have because their launches fail.
func missingNodes(sync *v1alpha1.NodeSync) (missing []string) {
	if !conditions.IsTrue(sync, v1alpha1.LaunchFailingCondition) {
		return nil
	}
	for _, l := range sync.Status.LaunchFailing {
		if l.Missing != "" {
			missing = append(missing, l.Missing)
		}
	}
	return missing
}

// rolloutFails reports whether a state is one in which the commit status fails because of the nodes.
func rolloutFails(s State) bool {
	return s == RolloutHeld || s == RolloutStopped || s == RolloutFailing
}

// OfNodes reports whether a state is about nodes that are outdated or missing: the definitions are applied.
func (s State) OfNodes() bool { return s == RollingOut || s == LaunchFailing || rolloutFails(s) }

// unwritten returns why the status is that of an earlier reconcile; empty if the daemon could write it.
func unwritten(sync *v1alpha1.NodeSync) string {
	return OneLine(sync.Annotations[v1alpha1.StatusNotWrittenAnnotation])
}

// WhyUnknown returns why a Ready that is True is not about the newest commit: a status that could not be written stays
// as it was. Empty if it is.
func WhyUnknown(sync *v1alpha1.NodeSync) string {
	s := sync.Status
	switch {
	case unwritten(sync) != "":
		return unwritten(sync)
	case requestPending(sync):
		return "the reconciliation that was requested has not been handled"
	case s.LastAttemptedRevision == "":
		return "the status names no commit"
	case s.LastAttemptedRevision != s.LastAppliedRevision:
		return fmt.Sprintf("%s was attempted, and %s is applied",
			render.ShortRevision(s.LastAttemptedRevision), OrNone(render.ShortRevision(s.LastAppliedRevision)))
	}
	return ""
}

// AwaitsRequest reports whether a NodeSync is Unknown only because the daemon has not handled a request yet.
func AwaitsRequest(sync *v1alpha1.NodeSync) bool {
	return StateOf(sync) == Unknown && unwritten(sync) == "" && requestPending(sync)
}

// requestPending reports whether the daemon has not handled the newest request yet.
func requestPending(sync *v1alpha1.NodeSync) bool {
	requested, asked := meta.ReconcileAnnotationValue(sync.Annotations)
	return asked && requested != sync.Status.LastHandledReconcileAt
}

// Since returns since when the state has lasted; nil if the conditions do not show it.
func Since(sync *v1alpha1.NodeSync) *metav1.Time {
	switch StateOf(sync) {
	case Deleted:
		return sync.DeletionTimestamp
	case Suspended, Unseen, Unknown:
		return nil
	case RollingOut, RolloutHeld, RolloutStopped, RolloutFailing, LaunchFailing:
		if r := sync.Status.Rollout; r != nil {
			return &r.Since
		}
		if len(missingNodes(sync)) > 0 {
			return sinceMissing(sync)
		}
		return conditions.GetLastTransitionTime(sync, v1alpha1.RolledOutCondition)
	case Stuck:
		return conditions.GetLastTransitionTime(sync, v1alpha1.TerminationStalledCondition)
	default:
		return conditions.GetLastTransitionTime(sync, meta.ReadyCondition)
	}
}

// sinceMissing returns since when nodes are missing.
func sinceMissing(sync *v1alpha1.NodeSync) (since *metav1.Time) {
	for _, l := range sync.Status.LaunchFailing {
		if l.Since != nil && (since == nil || l.Since.Before(since)) {
			since = l.Since
		}
	}
	return since
}

// stuckState returns the state of what waits for a person.
func stuckState(reason string) State {
	switch reason {
	case v1alpha1.ReasonHeld:
		return Held
	case v1alpha1.ReasonStalled:
		return Stalled
	case v1alpha1.ReasonDrifted:
		return Drifted
	}
	return Failed
}

// Age returns how long ago something started, in kubectl's format.
func Age(at metav1.Time, now time.Time) string {
	if at.IsZero() {
		return "<unknown>"
	}
	return duration.HumanDuration(now.Sub(at.Time))
}

// LastedFor returns how long something has lasted, for the end of a line.
func LastedFor(since *metav1.Time, now time.Time) string {
	if since.IsZero() {
		return ""
	}
	return ", for " + Age(*since, now)
}

// OneLine replaces line breaks in a message, so that it fits into a table.
func OneLine(message string) string {
	first, _, more := strings.Cut(message, "\n")
	if more {
		first += " …"
	}
	return redact.Visible(first)
}

// OrNone returns a word, or that there is none yet.
func OrNone(word string) string {
	if word == "" {
		return "none yet"
	}
	return word
}

// Cause returns why a node was terminated, with the details.
func Cause(r recorder.Record) string {
	if r.Detail == "" {
		return redact.Visible(string(r.Cause))
	}
	return redact.Visible(fmt.Sprintf("%s (%s)", r.Cause, r.Detail))
}

// Gone returns how long ago a node was terminated, or that it is terminating.
func Gone(r recorder.Record, now time.Time) string {
	if r.Gone.IsZero() {
		return NodeTerminating
	}
	return Age(r.Gone, now)
}

// Pods returns how many pods a node had when its termination started; empty if they were not counted.
func Pods(r recorder.Record) string {
	if r.Pods == nil {
		return ""
	}
	return english.Plural(*r.Pods, "pod", "")
}

// Gap describes the period for which nothing is recorded.
func Gap(g recorder.Gap) string {
	return fmt.Sprintf("not recorded from %s to %s, as the leader changed: what was terminated in between is missing", Stamp(g.From), Stamp(g.To))
}

// Stamp formats a time to the second.
func Stamp(at metav1.Time) string { return at.UTC().Format("2006-01-02T15:04:05Z") }

// OutdatedNode is a node that Karpenter has found outdated.
type OutdatedNode struct {
	NodeClaim string      `json:"nodeClaim"`
	Node      string      `json:"node,omitempty"`
	Pool      string      `json:"pool"`
	Reason    string      `json:"reason"`
	Since     metav1.Time `json:"since"`
	Draining  bool        `json:"draining,omitempty"`
}

// State describes what happens to it.
func (n OutdatedNode) State() string {
	if n.Draining {
		return "draining"
	}
	return "waits to be replaced"
}

// OutdatedNodes returns the nodes of the pools that Karpenter has found outdated, by pool and name.
func OutdatedNodes(pools []*unstructured.Unstructured, claims map[string][]*karpv1.NodeClaim) []OutdatedNode {
	outdated := []OutdatedNode{}
	for _, pool := range pools {
		for _, claim := range claims[pool.GetName()] {
			for _, c := range claim.Status.Conditions {
				if c.Type == karpv1.ConditionTypeDrifted && c.Status == metav1.ConditionTrue {
					outdated = append(outdated, OutdatedNode{
						NodeClaim: claim.Name, Node: claim.Status.NodeName, Pool: pool.GetName(), Reason: c.Reason,
						Since: c.LastTransitionTime, Draining: claim.DeletionTimestamp != nil,
					})
				}
			}
		}
	}
	slices.SortFunc(outdated, func(a, b OutdatedNode) int {
		return cmp.Or(cmp.Compare(a.Pool, b.Pool), cmp.Compare(a.NodeClaim, b.NodeClaim))
	})
	return outdated
}

// Resting returns why nothing of a NodeSync is reconciled: "suspended" or "drained"; empty if it is reconciled.
func Resting(sync *v1alpha1.NodeSync) string {
	switch {
	case sync.Spec.Suspend:
		return "suspended"
	case sync.IsPaused():
		return "drained"
	}
	return ""
}

package status

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/apply"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/report"
	"github.com/plumbline-dev/plumbline/reconcile/rollout"
	"github.com/plumbline-dev/plumbline/render"
)

const (
	// maxDrift is how many objects status.drift names, the newest.
	maxDrift = 20
	// driftLasts is how long it names an object that was corrected.
	driftLasts = 24 * time.Hour
)

// Drift is an object that another client has changed or deleted.
type Drift struct {
	Ref render.Ref `redact:"-"`
	// What lists the fields, with both values.
	What string
	// By are the field managers that own them, if known.
	By []string `redact:"-"`
	// Corrected reports whether this reconcile has corrected it, and Reported whether it is left, as spec.drift says.
	Corrected, Reported bool
}

// DriftsOf returns those of a Plan, given what was written of it; never nil.
func DriftsOf(p *plan.Plan, written []apply.Written) []Drift {
	corrected := map[render.Ref]bool{}
	for _, w := range written {
		corrected[w.Ref] = true
	}
	found := []Drift{}
	for i := range p.Changes {
		c := &p.Changes[i]
		fields, drifts := p.Drifts(c)
		if !drifts {
			continue
		}
		found = append(found,
			Drift{Ref: c.Ref, What: driftWords(c.Live, fields), By: c.Editors, Corrected: corrected[c.Ref], Reported: c.Action == plan.Drifted})
	}
	return found
}

// driftWords describes what another client has changed: from Git's value to that of the cluster.
func driftWords(live *unstructured.Unstructured, fields []plan.Field) string {
	if live == nil {
		return "deleted"
	}
	words := make([]string, 0, len(fields))
	for _, f := range fields {
		words = append(words, fmt.Sprintf("%s: %s → %s", f.Path, orAbsent(f.To), orAbsent(f.From)))
	}
	return finding.Few(words, "; ")
}

func orAbsent(value string) string {
	if value == "" {
		return "absent"
	}
	return finding.Bounded(value, maxDriftValue)
}

// maxDriftValue is how much of a value is shown.
const maxDriftValue = 80

// left returns the drifts that are only reported.
func (s *Step) left() []render.Ref {
	var refs []render.Ref
	for _, d := range s.Drifts {
		if d.Reported {
			refs = append(refs, d.Ref)
		}
	}
	return refs
}

// noteDrift records in the status what differs from Git by no commit, and what was corrected recently.
func (s *Step) noteDrift() {
	if s.Drifts == nil {
		return
	}
	now := s.timestamp()
	var list []v1alpha1.DriftedObject
	for _, d := range s.Drifts {
		o := v1alpha1.DriftedObject{Kind: d.Ref.Kind, Name: d.Ref.Name, Message: finding.Bounded(d.What, maxRemovalMessage), By: d.By, Since: now}
		if before := s.drifted(o); before != nil && before.CorrectedAt == nil {
			o.Since = before.Since
		}
		if d.Corrected {
			o.CorrectedAt = &now
		}
		list = append(list, o)
	}
	for _, before := range s.Before.Status.Drift {
		again := slices.ContainsFunc(list, func(o v1alpha1.DriftedObject) bool {
			return o.Kind == before.Kind && o.Name == before.Name && (before.CorrectedAt == nil || o.Message == before.Message)
		})
		if again {
			continue
		}
		if before.CorrectedAt == nil { // another client has reverted it, or Git now defines it
			before.CorrectedAt = &now
		}
		if s.Began.Sub(before.CorrectedAt.Time) < driftLasts {
			list = append(list, before)
		}
	}
	slices.SortStableFunc(list, func(a, b v1alpha1.DriftedObject) int { // what still differs must not be cut off
		return cmp.Compare(correctedLast(a), correctedLast(b))
	})
	s.Sync.Status.Drift = list[:min(len(list), maxDrift)]
}

// correctedLast returns 0 for an object that still differs from Git, and 1 for one that was corrected.
func correctedLast(o v1alpha1.DriftedObject) int {
	if o.CorrectedAt == nil {
		return 0
	}
	return 1
}

// drifted returns the previous entry of an object in the status.
func (s *Step) drifted(o v1alpha1.DriftedObject) *v1alpha1.DriftedObject {
	for i := range s.Before.Status.Drift {
		if before := &s.Before.Status.Drift[i]; before.Kind == o.Kind && before.Name == o.Name {
			return before
		}
	}
	return nil
}

// reportDrift reports on the commit what differs from it by no commit: objects, nodes, and instances.
func (s *Step) reportDrift(u report.Update) (report.Update, bool) {
	if s.Drifts == nil {
		return u, false
	}
	u.Subject, u.State, u.Description, u.Waits = report.SubjectDrift, report.Success, "no drift", nil
	u.Inputs = "" // the outcome of older commits is not drift
	var open, corrected []string
	for _, o := range s.Sync.Status.Drift {
		words := fmt.Sprintf("%s/%s %s", o.Kind, o.Name, o.Message)
		if len(o.By) > 0 {
			words += " by " + strings.Join(o.By, ", ")
		}
		if o.CorrectedAt == nil {
			open = append(open, words)
		} else {
			corrected = append(corrected, words)
		}
	}
	nodes := s.nodeDrift()
	switch {
	case len(open) > 0:
		u.State, u.Description = report.Failure, fmt.Sprintf("%s: %s", differ(len(open), "object"), finding.Few(open, "; "))
	case nodes != "":
		u.State, u.Description = report.Failure, nodes
	case len(corrected) > 0:
		u.Description = "no drift; edits corrected: " + finding.Few(corrected, "; ")
	}
	if u.State == report.Success {
		s.reportInstances(&u)
	}
	return u, true
}

// nodeDrift describes which nodes differ from the commit, by no commit: outdated, terminating for too long, or missing;
// empty if there are none.
func (s *Step) nodeDrift() string {
	status := &s.Sync.Status
	switch r, stopped := status.Rollout, unexpected(status.PoolRollouts); {
	case r != nil && r.Revision == "" && (r.Outdated > 0 || len(r.StaticPools) == 0):
		return outdatedByNoCommit + rollout.Uncommitted(*r)
	case r != nil && r.Revision != "" && len(r.Inputs) > 0:
		return outdatedByNoCommit + inputWords(r.Inputs)
	case stopped != "":
		return stopped
	case len(status.Terminations) > 0:
		return TerminationWords(status)
	}
	if lost := lostNodes(status.LaunchFailing); lost != "" {
		return "nodes are missing by no commit of this NodeSync: " + lost
	}
	return ""
}

const outdatedByNoCommit = "nodes are outdated by no commit of this NodeSync: "

// inputWords describes what has outdated nodes, by NodePool.
func inputWords(inputs []v1alpha1.DriftInput) string {
	words := make([]string, 0, len(inputs))
	for _, i := range inputs {
		words = append(words, "NodePool/"+i.Pool+": "+i.Words())
	}
	return finding.Few(words, "; ")
}

// unexpected names the NodePools that are stopped because no commit has outdated their nodes; empty if there are none.
func unexpected(pools []v1alpha1.PoolRollout) string {
	var words []string
	for _, p := range pools {
		if p.Reason == v1alpha1.BrakeUnexpectedDrift {
			words = append(words, "NodePool/"+p.Pool+": "+p.Message)
		}
	}
	return finding.Few(words, "; ")
}

// lostNodes names the nodes that static pools have lost by no commit; empty if there are none.
func lostNodes(failing []v1alpha1.LaunchFailure) string {
	var words []string
	for _, l := range failing {
		if l.Lost {
			words = append(words, l.Missing+": "+l.Message)
		}
	}
	return finding.Few(words, "; ")
}

// differ reports that a number of things differ.
func differ(n int, what string) string {
	return english.Plural(n, what, "") + " " + english.PluralWord(n, "differs", "differ")
}

// reportApplied reports on the commit whether all of it is applied, whatever the verdict on its nodes.
func (s *Step) reportApplied(u report.Update, v Verdict) (report.Update, bool) {
	u.Subject, u.Waits = report.SubjectApplied, nil
	if v.ofNodes {
		v = s.stateVerdict()
		u.State, u.Description = v.CommitState(), v.CommitText()
	}
	u.Ended = nil // that is about its nodes
	if s.appliedAll() {
		u.State, u.Description = report.Success, "applied"
	}
	return u, u.State != report.Success || u.Description == "applied"
}

// appliedAll reports whether nothing of the commit remains to be applied: definitions, charts, or removals that are
// held.
func (s *Step) appliedAll() bool {
	charts := s.NotUpgraded == nil && s.chartsDiffer() == nil &&
		!slices.ContainsFunc(s.Waits, func(w finding.Wait) bool { return w.On == "charts" })
	return render.CommitOf(s.Sync.Status.LastAppliedRevision) == s.Commit && s.Unwritten == nil && charts && !s.holds()
}

// InstanceKind is the kind of an EC2 instance that drifts.
const InstanceKind = "Instance"

// maxInstances is how many instances the status names.
const maxInstances = 20

// noteInstances records in the status which instances differ, and since when.
func (s *Step) noteInstances() {
	if s.Instances == nil {
		return
	}
	since := map[string]metav1.Time{}
	if before := s.Before.Status.Instances; before != nil {
		for _, i := range before.Instances {
			since[i.ID] = i.Since
		}
	}
	s.Sync.Status.Instances = nil
	if s.Instances.Count == 0 && s.Instances.Failure == "" && s.Instances.Volumes == nil && s.Instances.Left == nil {
		return
	}
	noted := &v1alpha1.InstanceDrift{
		Failure: s.Instances.Failure, NotComparedSince: s.Instances.NotComparedSince, Count: s.Instances.Count, Orphaned: s.Instances.Orphaned,
		Volumes: s.notedVolumes(), Left: s.notedResources(),
	}
	for _, i := range s.Instances.Instances[:min(len(s.Instances.Instances), maxInstances)] {
		i.Since = cmp.Or(since[i.ID], s.timestamp())
		noted.Instances = append(noted.Instances, i)
	}
	s.Sync.Status.Instances = noted
}

// setInstanceDrift reports instances that differ, while they do, and that they cannot be compared.
func (s *Step) setInstanceDrift() {
	const kind = v1alpha1.InstanceDriftCondition
	switch drift, words := s.Sync.Status.Instances, s.instanceWords(); {
	case drift.Compared():
		s.setTrouble(kind, v1alpha1.ReasonInstancesDiffer, words)
	case words == "":
		s.setUnknown(kind, v1alpha1.ReasonInstancesUnknown, drift.FailureMessage())
	default:
		s.setTrouble(kind, v1alpha1.ReasonInstancesDiffer, words+"; "+drift.FailureMessage())
	}
}

// instanceWords names the instances that differ; empty if none does.
func (s *Step) instanceWords() string {
	drift := s.Sync.Status.Instances
	if drift == nil || drift.Count == 0 {
		return ""
	}
	words := make([]string, 0, len(drift.Instances))
	for _, i := range drift.Instances {
		words = append(words, fmt.Sprintf("%s of %s: %s", i.ID, i.Pool, i.Message))
	}
	return differ(int(drift.Count), "instance") + ": " + finding.Few(words, "; ")
}

// reportInstances adds instances to an update about drift, if no object and no node drifts. While they cannot be compared, the state is
// pending: it is unknown whether they drift, and success would be wrong for as long as AWS denies the query. A cluster without access to
// EC2 turns the comparison off (--compare-instances=0).
func (s *Step) reportInstances(u *report.Update) {
	drift, words := s.Sync.Status.Instances, s.instanceWords()
	failure := drift.FailureMessage()
	switch {
	case words != "":
		u.State, u.Description = report.Failure, strings.TrimSuffix(words+"; "+failure, "; ")
	case !drift.Compared():
		u.State, u.Description = report.Pending, failure+"; otherwise "+u.Description
	case failure != "":
		u.Description += "; " + failure
	}
}

// maxTerminations is how many terminations the status names.
const maxTerminations = 20

// noteTerminations records in the status what has been terminating for longer than expected. If nothing was checked,
// the entries stay without their commands: it is no longer certain that these are safe.
func (s *Step) noteTerminations() {
	status := &s.Sync.Status
	switch {
	case s.Terminations == nil && s.Sync.DrainsNodes(): // the removals report what they wait for
		status.Terminations, status.StalledTerminations = nil, 0
		return
	case s.Terminations == nil:
		for i := range status.Terminations {
			status.Terminations[i].BreakGlass = nil
		}
		return
	}
	status.Terminations, status.StalledTerminations = nil, int32(len(s.Terminations))
	for _, t := range s.Terminations[:min(len(s.Terminations), maxTerminations)] {
		t.Message = finding.Bounded(t.Message, maxRemovalMessage)
		status.Terminations = append(status.Terminations, t)
	}
}

// setTerminationStalled reports what has been terminating for longer than expected, while it is.
func (s *Step) setTerminationStalled() {
	s.setTrouble(v1alpha1.TerminationStalledCondition, v1alpha1.ReasonTerminating, TerminationWords(&s.Sync.Status))
}

// TerminationWords names what has been terminating for longer than expected, and what each waits for; empty if there is
// nothing.
func TerminationWords(status *v1alpha1.NodeSyncStatus) string {
	if len(status.Terminations) == 0 {
		return ""
	}
	words := make([]string, 0, len(status.Terminations))
	for _, t := range status.Terminations {
		of := t.Kind + "/" + t.Name
		if t.Node != "" && t.Node != t.Name {
			of += " (node " + t.Node + ")"
		}
		words = append(words, fmt.Sprintf("%s since %s: %s", of, t.Since.UTC().Format(time.RFC3339), t.Message))
	}
	n := int(status.StalledTerminations)
	return fmt.Sprintf("%s terminating for longer than expected: %s", english.Plural(n, "node is", "nodes are"), finding.Few(words, "; "))
}

// setOrphaned reports orphaned NodePools while they have nodes: nothing manages these, and they are billed. A reconcile
// that did not get to the plan keeps what was reported.
func (s *Step) setOrphaned() {
	if !s.Planned {
		return
	}
	s.Sync.Status.OrphanedNodes = 0
	words, named := "", make([]string, 0, len(s.Orphaned))
	for _, pool := range s.Orphaned {
		s.Sync.Status.OrphanedNodes += int32(pool.Nodes)
		named = append(named, "NodePool/"+pool.Name)
	}
	if len(named) > 0 {
		words = fmt.Sprintf("%s %s orphaned with nodes, and no NodeSync manages %s: add %s to Git again, or delete %s with kubectl",
			finding.Some(named), english.PluralWord(len(named), "was", "were"),
			english.PluralWord(len(named), "it", "them"), english.PluralWord(len(named), "it", "them"), english.PluralWord(len(named), "it", "them"))
	}
	s.setTrouble(v1alpha1.OrphanedCondition, v1alpha1.ReasonOrphaned, words)
}

// setOtherAppliers names, while a NodeSync is deleted with its nodes, the other clients that apply some of its objects:
// nothing drains what they recreate. A reconcile that did not check it keeps what was reported.
func (s *Step) setOtherAppliers() {
	if !s.Planned {
		return
	}
	words := ""
	if len(s.Appliers) > 0 {
		words = fmt.Sprintf("other clients apply objects that this drain removes, and create them again: %s: remove them there, or suspend that client", finding.Few(s.Appliers, "; "))
	}
	s.setTrouble(v1alpha1.OtherAppliersCondition, v1alpha1.ReasonOtherAppliers, words)
}

// notedVolumes returns the volumes that are still attached to nodes that are gone, in the form of the status; nil if
// there are none.
func (s *Step) notedVolumes() *v1alpha1.LeftVolumes {
	left := s.Instances.Volumes
	if left == nil {
		return nil
	}
	since := map[string]metav1.Time{}
	if before := s.Before.Status.Instances; before != nil && before.Volumes != nil {
		for _, v := range before.Volumes.Volumes {
			since[v.Name] = v.Since
		}
	}
	noted := &v1alpha1.LeftVolumes{Failure: left.Failure, Count: left.Count}
	for _, v := range left.Volumes[:min(len(left.Volumes), maxInstances)] {
		v.Since = cmp.Or(since[v.Name], s.timestamp())
		noted.Volumes = append(noted.Volumes, v)
	}
	return noted
}

// setVolumesLeft reports volumes that are attached to nodes or instances that are gone, while they are.
func (s *Step) setVolumesLeft() {
	drift := s.Sync.Status.Instances
	if drift == nil || drift.Volumes == nil || drift.Volumes.Count == 0 {
		s.setTrouble(v1alpha1.VolumesLeftCondition, v1alpha1.ReasonVolumesLeft, "")
		return
	}
	words := make([]string, 0, len(drift.Volumes.Volumes))
	for _, v := range drift.Volumes.Volumes {
		words = append(words, v.Message)
	}
	count := english.Plural(int(drift.Volumes.Count), "volume is", "volumes are")
	s.setTrouble(v1alpha1.VolumesLeftCondition, v1alpha1.ReasonVolumesLeft, count+" still attached to what is gone: "+finding.Few(words, "; "))
}

// notedResources returns what deleted nodes and EC2NodeClasses have left in AWS, in the form of the status; nil if
// there is nothing.
func (s *Step) notedResources() *v1alpha1.LeftResources {
	left := s.Instances.Left
	if left == nil {
		return nil
	}
	since := map[string]metav1.Time{}
	if before := s.Before.Status.Instances; before != nil && before.Left != nil {
		for _, r := range before.Left.Resources {
			since[r.Kind+r.ID] = r.Since
		}
	}
	noted := &v1alpha1.LeftResources{Failure: left.Failure, Count: left.Count}
	for _, r := range left.Resources[:min(len(left.Resources), maxInstances)] {
		r.Since = cmp.Or(since[r.Kind+r.ID], s.timestamp())
		noted.Resources = append(noted.Resources, r)
	}
	return noted
}

// unknownLeft reports that AWS has not answered some query.
const unknownLeft = "what is left in AWS is not known in whole: "

// setResourcesLeft reports interfaces, launch templates and instance profiles of deleted nodes and EC2NodeClasses while
// they exist, and queries that AWS denies.
func (s *Step) setResourcesLeft() {
	const kind = v1alpha1.ResourcesLeftCondition
	drift := s.Sync.Status.Instances
	switch {
	case drift == nil || drift.Left == nil:
		s.setTrouble(kind, v1alpha1.ReasonResourcesLeft, "")
	case drift.Left.Count == 0:
		s.setUnknown(kind, v1alpha1.ReasonResourcesUnknown, unknownLeft+drift.Left.Failure)
	default:
		words := make([]string, 0, len(drift.Left.Resources))
		for _, r := range drift.Left.Resources {
			words = append(words, r.Message)
		}
		count := english.Plural(int(drift.Left.Count), "resource is", "resources are")
		said := count + " left in AWS by what is gone: " + finding.Few(words, "; ")
		if drift.Left.Failure != "" {
			said += "; " + unknownLeft + drift.Left.Failure
		}
		s.setTrouble(kind, v1alpha1.ReasonResourcesLeft, said)
	}
}

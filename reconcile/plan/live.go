package plan

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/karpenter/pkg/scheduling"

	"github.com/plumbline-dev/plumbline/provision/karpenter"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/render"
)

// Live is the state of the cluster.
type Live struct {
	// Objects are all objects of our kinds, of any owner, with their managedFields.
	Objects map[render.Ref]*Object
	// AutoMode are the names of the NodePools that EKS Auto Mode manages, sorted: neither they nor their NodeClaims are among
	// the others.
	AutoMode []string
	// Unreadable are the optional kinds whose objects may not be read, and why: a Plan of one of their objects would be
	// wrong.
	Unreadable map[string]error
	// Served reports whether the API server serves Karpenter's kinds, so that Objects is complete.
	Served     bool
	NodeClaims []NodeClaim
	// Removals are the recorded removals, from the NodeSync's status.
	Removals []v1alpha1.Removal
	// RecentRemovals are the NodePools whose removal the guard has allowed, from the NodeSync's status.
	RecentRemovals []v1alpha1.RecentRemoval
	// RecentTerminations are the changes by which Karpenter terminates nodes, Held is the plan that was last held, and
	// Rollout is the one in progress; all from the NodeSync's status.
	RecentTerminations []v1alpha1.RecentTermination
	Held               *v1alpha1.HeldPlan
	Rollout            *v1alpha1.Rollout
	// Fork is the version of Karpenter's controller, now or after the change in progress, if it is not one of upstream's
	// releases; otherwise empty. Its hashes may differ from those of the library even if their versions are equal.
	Fork string
	// LeavingElsewhere are NodePools that other NodeSyncs are removing.
	LeavingElsewhere []render.Ref
	// Vanished are NodePools that were applied, that are not in the Set, and that another client has deleted.
	Vanished []Vanished
	// Recorded are the objects that the NodeSync has recorded as applied. Such an object belongs to it again as soon as
	// the label says so, even if a person set the label.
	Recorded map[render.Ref]types.UID
	// Memo is that of the last Plan for the same NodeSync; the zero value if there was none.
	Memo Memo
}

// With returns the state of the cluster with the records of the NodeSync's status.
func (l Live) With(status *v1alpha1.NodeSyncStatus) Live {
	l.Removals, l.RecentRemovals = status.Removals, status.RecentRemovals
	l.RecentTerminations, l.Held, l.Rollout = status.RecentTerminations, status.Held, status.Rollout
	l.Fork = ForkOf(status.Karpenter)
	return l
}

// ForkOf returns the version of Karpenter that is in force, or whose controller is being rolled out, if it is a fork;
// otherwise empty. k may be nil.
func ForkOf(k *v1alpha1.KarpenterStatus) string {
	if k == nil {
		return ""
	}
	if karpenter.IsFork(k.Version) {
		return k.Version
	}
	rollsOut := []v1alpha1.ChartStep{v1alpha1.ChartController, v1alpha1.ChartRollingOut, v1alpha1.ChartSettling}
	if t := k.Target; t != nil && slices.Contains(rollsOut, t.Step) && karpenter.IsFork(t.Version) {
		return t.Version
	}
	return ""
}

// Vanished is an object that was applied and no longer exists.
type Vanished struct {
	Ref render.Ref
	UID types.UID
}

// NodeClaim is one of Karpenter's NodeClaims.
type NodeClaim struct {
	Name string
	UID  types.UID
	// Pool is the NodePool in its label, and PoolUID the NodePool that owns it.
	Pool    string
	PoolUID types.UID
	// Class is the EC2NodeClass that it references.
	Class      string
	ProviderID string
	// Image is its AMI; empty until it is launched.
	Image string
	Node  string
	// Deleting reports whether it has a deletionTimestamp, and Deleted is that time; zero if it has none.
	Deleting bool
	Deleted  time.Time
	// Disrupted reports whether Karpenter deleted it: it was empty, drifted or consolidatable.
	Disrupted bool
	// Drifted reports whether Karpenter has marked it Drifted, and replaces it when the budgets of its pool allow.
	Drifted bool
	// DriftReason is the reason; empty if it is not Drifted.
	DriftReason string
	// Labels are those that the requirements of its pool are compared with; empty if they are unknown.
	Labels Labels
	// Hashes are those of the definitions that it was created from.
	Hashes Hashes
	// TerminationGracePeriod is after how long its drain overrides PodDisruptionBudgets and karpenter.sh/do-not-disrupt, as
	// a short duration; empty if it never does.
	TerminationGracePeriod string
	// Created is its creation time, and Launch the time until its node was initialized, in whole seconds; 0 if it is
	// not initialized yet.
	Created time.Time
	Launch  time.Duration
	// Initialized reports whether its node is initialized.
	Initialized bool
}

// Labels are labels as one string, which many NodeClaims share.
type Labels string

// value returns the value of one label; empty if there is none.
func (l Labels) value(key string) string {
	for line := range strings.SplitSeq(string(l), "\n") {
		if k, value, found := strings.Cut(line, "="); found && k == key {
			return value
		}
	}
	return ""
}

// PackLabels encodes labels as one string.
func PackLabels(labels map[string]string) Labels {
	var b strings.Builder
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		b.WriteString(key + "=" + labels[key] + "\n")
	}
	return Labels(b.String())
}

// Map decodes the labels.
func (l Labels) Map() map[string]string {
	labels := map[string]string{}
	for line := range strings.Lines(string(l)) {
		if key, value, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "="); ok {
			labels[key] = value
		}
	}
	return labels
}

// recorded reports whether the NodeSync has applied this object.
func (l Live) recorded(object *unstructured.Unstructured) bool {
	uid, known := l.Recorded[render.RefOf(object)]
	return known && uid == object.GetUID()
}

// object returns the live object of a Ref; nil if there is none.
func (l Live) object(ref render.Ref) *Object { return l.Objects[ref] }

// readable returns why a Set cannot be compared: it has objects of a kind that may not be read; nil if it can.
func (l Live) readable(set *render.Set) error {
	if len(l.Unreadable) == 0 {
		return nil
	}
	for i := range set.Objects {
		if err := l.Unreadable[set.Objects[i].Ref.Kind]; err != nil {
			return fmt.Errorf("plan %s: %w", set.Objects[i].Ref, err)
		}
	}
	return nil
}

// OfKind returns the live objects of a kind, of any owner, by name.
func (l Live) OfKind(kind string) []*unstructured.Unstructured {
	var found []*unstructured.Unstructured
	for ref, object := range l.Objects {
		if ref.Kind == kind {
			found = append(found, object.Unstructured)
		}
	}
	slices.SortFunc(found, func(a, b *unstructured.Unstructured) int { return cmp.Compare(a.GetName(), b.GetName()) })
	return found
}

// claims returns the NodeClaims that reference each object.
func (l Live) claims() map[render.Ref][]*NodeClaim {
	found := map[render.Ref][]*NodeClaim{}
	for i := range l.NodeClaims {
		c := &l.NodeClaims[i]
		for _, ref := range []render.Ref{{Kind: render.NodePool, Name: c.Pool}, {Kind: render.EC2NodeClass, Name: c.Class}} {
			found[ref] = append(found[ref], c)
		}
	}
	return found
}

// removal returns the record of an object's removal.
func (l Live) removal(uid types.UID) (v1alpha1.Removal, bool) {
	for _, r := range l.Removals {
		if r.UID == uid && r.Phase != v1alpha1.RemovalGone {
			return r, true
		}
	}
	return v1alpha1.Removal{}, false
}

// RefOf returns the Ref of a removal.
func RefOf(r v1alpha1.Removal) render.Ref { return render.Ref{Kind: r.Kind, Name: r.Name} }

// Write is an object that a reconcile has written.
type Write struct {
	Ref render.Ref
	// New reports whether it was created, and CreatedAt when.
	New       bool
	CreatedAt metav1.Time
}

// Memo holds the results of one Plan, so that the next does not compare the same objects again: which match Git, and
// how the others differ. It does not affect the result: a Plan with a Memo equals one without. The zero value is empty.
type Memo struct {
	owner  Owner
	schema Schema
	clean  map[render.Ref]cleanObject
	// others were compared and differ. If the guard holds a commit, there are many of them for hours, while NodeClaims
	// trigger one reconcile after another.
	others map[render.Ref]compared
	// rules are the policies, compiled.
	rules *CompiledPolicies
	// matches are the live definitions, prepared for the comparison with NodeClaims.
	matches *MatchMemory
}

// cleanObject is an object that matches Git, and its fields that are not in Git; nil if there are none.
type cleanObject struct {
	comparison
	extra *Extra
}

// comparison identifies the two objects that were compared. A rendered object is read only, so its address identifies
// its content; a live one is identified by its UID and resourceVersion.
type comparison struct {
	rendered        *unstructured.Unstructured
	uid             types.UID
	resourceVersion string
}

// of reports whether these objects were compared.
func (c comparison) of(object *render.Object, live identified) bool {
	return c == comparisonOf(object, live)
}

// identified is a live object, or an Object.
type identified interface {
	GetUID() types.UID
	GetResourceVersion() string
}

// compared is what depends only on the two objects, the owner and the schema. It is read only.
type compared struct {
	comparison
	fields comparedFields
	// problems are what the API server would reject, if validated is true.
	problems  []string
	validated bool
	// before is what was applied last, if the rendered object was compared with it.
	before  *unstructured.Unstructured
	differs bool
	// edit is their effect on nodes; nil if it was not computed.
	edit edit
	// texts are those of the rendered object.
	texts *texts
}

func comparisonOf(object *render.Object, live identified) comparison {
	return comparison{rendered: object.Defaulted, uid: live.GetUID(), resourceVersion: live.GetResourceVersion()}
}

// newMemo returns an empty Memo; its comparisons are for this owner and schema.
func newMemo(owner Owner, schema Schema, objects int) Memo {
	return Memo{owner: owner, schema: schema, clean: make(map[render.Ref]cleanObject, objects), others: map[render.Ref]compared{}}
}

// findClean returns what was found for these objects if they were equal. Neither was terminating then.
func (m Memo) findClean(object *render.Object, live *Object, owner Owner, schema Schema) (cleanObject, bool) {
	known, ok := m.clean[object.Ref]
	return known, ok && m.owner == owner && m.schema == schema && known.of(object, live)
}

// find returns what was found for these objects, if they were compared.
func (m Memo) find(object render.Object, live *Object, owner Owner, schema Schema) (compared, bool) {
	known, ok := m.others[object.Ref]
	return known, ok && m.owner == owner && m.schema == schema && known.of(&object, live)
}

// note caches a decision on two objects. Without a resourceVersion, a change of the object would go unnoticed.
func (m Memo) note(d decision) {
	object, live := d.change.Object, d.change.Live
	switch {
	case live == nil || live.GetResourceVersion() == "" || d.change.Braked:
	case d.clean:
		m.clean[object.Ref] = cleanObject{comparisonOf(&object, live), d.extra}
	case d.compared != nil:
		m.others[object.Ref] = *d.compared
	}
}

// compareOnce compares two objects, unless the last Plan has compared them.
func (m *maker) compareOnce(object render.Object, live *Object, braked bool) (*compared, error) {
	if known, ok := m.live.Memo.find(object, live, m.policy.Owner, m.schema); ok && !braked {
		return &known, nil
	}
	j, err := compareWithLive(object, live, m.policy.Owner, m.schema, braked)
	if err != nil {
		return nil, err
	}
	return &compared{comparison: comparisonOf(&object, live), fields: j, texts: &texts{of: object.Desired}}, nil
}

// refusals returns why the API server would reject the object that a Change would write.
func (c *compared) refusals(ctx context.Context, change *Change, schema Schema) []string {
	if c.validated {
		return c.problems
	}
	var problems []string
	for _, problem := range schema.ValidateTransition(ctx, after(change), change.Live) {
		problems = append(problems, problem.Error())
	}
	// If the context is cancelled, not all rules were checked.
	c.problems, c.validated = problems, ctx.Err() == nil
	return problems
}

// images are the AMIs for the nodes of an EC2NodeClass, in the order of Karpenter's preference.
type images struct {
	amis []ami
	// chosen caches the AMI for each set of labels; empty if none fits.
	chosen map[Labels]string
}

type ami struct {
	id string
	// requirements are what a node's labels must match.
	requirements scheduling.Requirements
}

// imagesOf returns the AMIs from the status of an EC2NodeClass.
func imagesOf(amis []awsv1.AMI) *images {
	known := &images{chosen: map[Labels]string{}}
	for _, a := range amis {
		known.amis = append(known.amis, ami{id: a.ID, requirements: scheduling.NewNodeSelectorRequirements(a.Requirements...)})
	}
	return known
}

// outdate reports whether a NodeClaim runs another AMI than the first that fits its labels, as Karpenter does
// (MapToInstanceTypes in karpenter-provider-aws pkg/providers/amifamily/ami.go, and isAMIDrifted in
// pkg/cloudprovider/drift.go, 1.14.1). Its labels are those of its instance type. If there is no AMI at all, no node is
// outdated, as in Karpenter.
func (i *images) outdate(c *NodeClaim) bool {
	if i == nil || len(i.amis) == 0 || c.Image == "" || c.Labels == "" {
		return false
	}
	return c.Image != i.choose(c.Labels)
}

// choose returns the AMI for labels; empty if none fits.
func (i *images) choose(of Labels) string {
	chosen, asked := i.chosen[of]
	if !asked {
		labels := scheduling.NewLabelRequirements(of.Map())
		for _, a := range i.amis {
			if labels.Compatible(a.requirements) == nil {
				chosen = a.id
				break
			}
		}
		i.chosen[of] = chosen
	}
	return chosen
}

// ResolvedAMIs returns the AMIs that Karpenter has resolved for an EC2NodeClass. current reports whether they are for
// the current spec: until Karpenter has reconciled that, it is unknown which nodes it makes drift.
func ResolvedAMIs(class *unstructured.Unstructured) (amis []awsv1.AMI, current bool) {
	status := statusOf(class)
	return status.AMIs, currentCondition(class, status, awsv1.ConditionTypeAMIsReady) != metav1.ConditionUnknown
}

// currentCondition returns the status of a condition of an EC2NodeClass if it is for the current generation; otherwise
// Unknown.
func currentCondition(class *unstructured.Unstructured, status awsv1.EC2NodeClassStatus, kind string) metav1.ConditionStatus {
	for _, c := range status.Conditions {
		if c.Type == kind && c.ObservedGeneration == class.GetGeneration() {
			return c.Status
		}
	}
	return metav1.ConditionUnknown
}

// statusOf returns the status of an EC2NodeClass; the zero value if it cannot be read.
func statusOf(class *unstructured.Unstructured) awsv1.EC2NodeClassStatus {
	read, err := typed[awsv1.EC2NodeClass](&unstructured.Unstructured{Object: map[string]any{"status": class.Object["status"]}})
	if err != nil {
		return awsv1.EC2NodeClassStatus{}
	}
	return read.Status
}

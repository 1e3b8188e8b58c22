package plan

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/karpenter/pkg/scheduling"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/render"
)

// Live is what the cluster has.
type Live struct {
	// Objects are all objects of the kinds that are ours, of any owner,
	// with their managedFields.
	Objects map[render.Ref]*Object
	// Served reports whether Karpenter's kinds are, so that there is no object but these.
	Served     bool
	NodeClaims []NodeClaim
	// Removals are the recorded ones, from the NodeSync's status.
	Removals []v1alpha1.Removal
	// RecentRemovals are the NodePools that the guard has allowed to leave, from the NodeSync's status.
	RecentRemovals []v1alpha1.RecentRemoval
	// RecentTerminations are the changes by which Karpenter terminates nodes, Held is what was held last, and Rollout is the
	// one in progress; all from the NodeSync's status.
	RecentTerminations []v1alpha1.RecentTermination
	Held               *v1alpha1.HeldPlan
	Rollout            *v1alpha1.Rollout
	// LeavingElsewhere are NodePools that leave by other NodeSyncs.
	LeavingElsewhere []render.Ref
	// Vanished are NodePools that were applied, that the Set lacks, and that
	// another client has deleted.
	Vanished []Vanished
	// Recorded are the objects that the NodeSync has applied, by what it has recorded: one of
	// them is its own as soon as the label says so again, also where a person has set it.
	Recorded map[render.Ref]types.UID
	// Memo is of the last Plan for the same NodeSync; the zero value where there
	// was none.
	Memo Memo
}

// With is what the cluster has, with what the status of the NodeSync records.
func (l Live) With(status *v1alpha1.NodeSyncStatus) Live {
	l.Removals, l.RecentRemovals = status.Removals, status.RecentRemovals
	l.RecentTerminations, l.Held, l.Rollout = status.RecentTerminations, status.Held, status.Rollout
	return l
}

// Vanished is an object that was applied and is not there any more.
type Vanished struct {
	Ref render.Ref
	UID types.UID
}

// NodeClaim is one node as Karpenter claims it.
type NodeClaim struct {
	Name string
	UID  types.UID
	// Pool is the NodePool that it is labelled with, and PoolUID the one that
	// owns it.
	Pool    string
	PoolUID types.UID
	// Class is the EC2NodeClass that it names.
	Class      string
	ProviderID string
	// Image is the AMI that it runs; empty until it is launched.
	Image string
	Node  string
	// Deleting reports whether it has a deletionTimestamp, and Deleted since when; zero if it has none.
	Deleting bool
	Deleted  time.Time
	// Disrupted reports whether Karpenter has ended it by itself: it was empty, drifted or
	// could be consolidated.
	Disrupted bool
	// Drifted reports whether Karpenter has found it outdated, and replaces it when the budgets
	// of its pool allow.
	Drifted bool
	// DriftReason is why; empty if it has not.
	DriftReason string
	// Labels are those that requirements of its pool are compared with; empty if
	// they are not known.
	Labels Labels
	// Hashes are those of the definitions that it was made by.
	Hashes Hashes
	// Created is when it was made, and Launch how long after that its node was initialized, in whole
	// seconds; 0 where it is not yet.
	Created time.Time
	Launch  time.Duration
	// Initialized reports whether it has a node that is.
	Initialized bool
}

// Labels are labels as one text, which many NodeClaims share.
type Labels string

// value is that of one label; empty if there is none.
func (l Labels) value(key string) string {
	for line := range strings.SplitSeq(string(l), "\n") {
		if k, value, found := strings.Cut(line, "="); found && k == key {
			return value
		}
	}
	return ""
}

// PackLabels makes one text of labels.
func PackLabels(labels map[string]string) Labels {
	var b strings.Builder
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		b.WriteString(key + "=" + labels[key] + "\n")
	}
	return Labels(b.String())
}

// Map takes the labels apart.
func (l Labels) Map() map[string]string {
	labels := map[string]string{}
	for line := range strings.Lines(string(l)) {
		if key, value, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "="); ok {
			labels[key] = value
		}
	}
	return labels
}

// recorded reports whether the NodeSync has applied this very object.
func (l Live) recorded(object *unstructured.Unstructured) bool {
	uid, known := l.Recorded[render.RefOf(object)]
	return known && uid == object.GetUID()
}

// object returns the live object of a Ref; nil if there is none.
func (l Live) object(ref render.Ref) *Object { return l.Objects[ref] }

// OfKind are the live objects of a kind, of any owner, by name.
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

// claims are the NodeClaims that hang on each object.
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

// removal finds the record of an object's removal.
func (l Live) removal(uid types.UID) (v1alpha1.Removal, bool) {
	for _, r := range l.Removals {
		if r.UID == uid && r.Phase != v1alpha1.RemovalGone {
			return r, true
		}
	}
	return v1alpha1.Removal{}, false
}

// RefOf is the entry of a removal.
func RefOf(r v1alpha1.Removal) render.Ref { return render.Ref{Kind: r.Kind, Name: r.Name} }

// Write is an object that a reconcile has written.
type Write struct {
	Ref render.Ref
	// New reports whether it was created, and CreatedAt when.
	New       bool
	CreatedAt metav1.Time
}

// Memo holds what one Plan has found of objects, so that the next does not compare them
// again: which are as Git says, and how the others differ. It is no part of what is
// planned: a Plan with a Memo equals one without. The zero value knows nothing.
type Memo struct {
	owner  Owner
	schema Schema
	clean  map[render.Ref]cleanObject
	// others were compared and found to differ. Where the guard holds a commit, they are
	// many, and stay so for hours while NodeClaims wake one reconcile after another.
	others map[render.Ref]compared
	// rules are the policies, compiled.
	rules *CompiledPolicies
	// matches are the definitions that live, as NodeClaims are compared with them.
	matches *MatchMemory
}

// cleanObject is one that is as Git says, and the fields that it has beside those of Git;
// nil if there are none.
type cleanObject struct {
	comparison
	extra *Extra
}

// comparison names the two objects that were compared. A rendered object is read
// only, so that its address stands for what is in it; a live one is named by its
// UID and resourceVersion.
type comparison struct {
	rendered        *unstructured.Unstructured
	uid             types.UID
	resourceVersion string
}

// of reports whether these very objects were compared.
func (c comparison) of(object *render.Object, live identified) bool {
	return c == comparisonOf(object, live)
}

// identified is a live object, or an Object.
type identified interface {
	GetUID() types.UID
	GetResourceVersion() string
}

// compared is what hangs on the two objects, the owner and the schema, and on nothing else.
// It is read only.
type compared struct {
	comparison
	judgement judgement
	// problems are what the API server would refuse, where that was asked.
	problems []string
	asked    bool
	// before is what was applied last, where it was asked whether the rendered object
	// differs from it.
	before  *unstructured.Unstructured
	differs bool
	// edit is what they say of nodes; nil if nobody has asked.
	edit edit
	// texts are those of the rendered object.
	texts *texts
}

func comparisonOf(object *render.Object, live identified) comparison {
	return comparison{rendered: object.Defaulted, uid: live.GetUID(), resourceVersion: live.GetResourceVersion()}
}

// newMemo is empty; the comparisons in it are made for an owner, by a schema.
func newMemo(owner Owner, schema Schema, objects int) Memo {
	return Memo{owner: owner, schema: schema, clean: make(map[render.Ref]cleanObject, objects), others: map[render.Ref]compared{}}
}

// findClean returns what was found of these very objects, if they were found equal. Neither
// was terminating then.
func (m Memo) findClean(object *render.Object, live *Object, owner Owner, schema Schema) (cleanObject, bool) {
	known, ok := m.clean[object.Ref]
	return known, ok && m.owner == owner && m.schema == schema && known.of(object, live)
}

// find is what was found of these very objects, if they were compared.
func (m Memo) find(object render.Object, live *Object, owner Owner, schema Schema) (compared, bool) {
	known, ok := m.others[object.Ref]
	return known, ok && m.owner == owner && m.schema == schema && known.of(&object, live)
}

// note keeps a decision on two objects. An object without a resourceVersion does not say
// when it changes.
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

// judged compares two objects, unless the last Plan has.
func (m *maker) judged(object render.Object, live *Object, braked bool) (*compared, error) {
	if known, ok := m.live.Memo.find(object, live, m.policy.Owner, m.schema); ok && !braked {
		return &known, nil
	}
	j, err := judge(object, live, m.policy.Owner, m.schema, braked)
	if err != nil {
		return nil, err
	}
	return &compared{comparison: comparisonOf(&object, live), judgement: j, texts: &texts{of: object.Desired}}, nil
}

// refusals are what the API server would say against the object that a Change would make.
func (c *compared) refusals(ctx context.Context, change *Change, schema Schema) []string {
	if c.asked {
		return c.problems
	}
	var problems []string
	for _, problem := range schema.ValidateTransition(ctx, after(change), change.Live) {
		problems = append(problems, problem.Error())
	}
	// Of a context that has ended not all rules are checked.
	c.problems, c.asked = problems, ctx.Err() == nil
	return problems
}

// images are the AMIs that the nodes of an EC2NodeClass are to have, in the order of Karpenter's
// preference.
type images struct {
	amis []ami
	// chosen is the AMI for each set of labels that was asked about; empty if none fits.
	chosen map[Labels]string
}

type ami struct {
	id string
	// requirements are what a node's labels have to fit.
	requirements scheduling.Requirements
}

// imagesOf are those of AMIs as the status of an EC2NodeClass has them.
func imagesOf(amis []awsv1.AMI) *images {
	known := &images{chosen: map[Labels]string{}}
	for _, a := range amis {
		known.amis = append(known.amis, ami{id: a.ID, requirements: scheduling.NewNodeSelectorRequirements(a.Requirements...)})
	}
	return known
}

// outdate reports whether a NodeClaim runs another AMI than its labels call for: the first that fits,
// as Karpenter has it (MapToInstanceTypes in karpenter-provider-aws pkg/providers/amifamily/ami.go,
// and isAMIDrifted in pkg/cloudprovider/drift.go, 1.14.1). Its labels are those of its instance type.
// Where there is no AMI at all Karpenter finds no node outdated, and nor does this.
func (i *images) outdate(c *NodeClaim) bool {
	if i == nil || len(i.amis) == 0 || c.Image == "" || c.Labels == "" {
		return false
	}
	return c.Image != i.choose(c.Labels)
}

// choose is the AMI that labels call for; empty if none fits.
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

// ResolvedAMIs are the AMIs that Karpenter has found for an EC2NodeClass. current reports that they are
// those of its spec as it is, and not of one before: until Karpenter has looked at that, nobody
// knows which nodes are outdated by it.
func ResolvedAMIs(class *unstructured.Unstructured) (amis []awsv1.AMI, current bool) {
	status := statusOf(class)
	return status.AMIs, currentCondition(class, status, awsv1.ConditionTypeAMIsReady) != metav1.ConditionUnknown
}

// currentCondition returns the status of a condition of an EC2NodeClass, if it is about the spec as it is; Unknown otherwise.
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

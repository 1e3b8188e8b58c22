package plan

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/render"
)

// Live is what the cluster has.
type Live struct {
	// Objects are all objects of the kinds that are ours, of any owner,
	// with their managedFields.
	Objects map[render.Ref]*Object
	// Served says that Karpenter's kinds are, so that there is no object but these.
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
	// Deleting says that it has a deletionTimestamp, and Deleted since when; zero where it has none.
	Deleting bool
	Deleted  time.Time
	// Disrupted says that Karpenter has ended it by itself: it was empty, drifted or
	// could be consolidated.
	Disrupted bool
	// Drifted says that Karpenter has found it outdated, and replaces it when the budgets
	// of its pool allow.
	Drifted bool
	// DriftReason is why; empty where it has not.
	DriftReason string
	// Labels are those that requirements of its pool are compared with; empty where
	// they are not known.
	Labels Labels
	// Hashes are those of the definitions that it was made by.
	Hashes Hashes
	// Created is when it was made, and Launch how long after that its node was initialized, in whole
	// seconds; 0 where it is not yet.
	Created time.Time
	Launch  time.Duration
	// Initialized says that it has a node that is.
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

// Noded are the pools that have a node which stays.
func (l Live) Noded() map[string]bool {
	noded := map[string]bool{}
	for i := range l.NodeClaims {
		if claim := &l.NodeClaims[i]; claim.Node != "" && !claim.Deleting {
			noded[claim.Pool] = true
		}
	}
	return noded
}

// recorded says whether the NodeSync has applied this very object.
func (l Live) recorded(object *unstructured.Unstructured) bool {
	uid, known := l.Recorded[render.Ref{Kind: object.GetKind(), Name: object.GetName()}]
	return known && uid == object.GetUID()
}

// object returns the live object of a Ref; nil where there is none.
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

func refOf(r v1alpha1.Removal) render.Ref { return render.Ref{Kind: r.Kind, Name: r.Name} }

// Write is an object that a pass has written.
type Write struct {
	Ref render.Ref
	// New says that it was created, and CreatedAt when.
	New       bool
	CreatedAt metav1.Time
}

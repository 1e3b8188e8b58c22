package reconcile

import (
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	"github.com/fluxcd/pkg/runtime/conditions"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// otherSyncs says of each other NodeSync what is known of its Git. A daemon that
// was restarted knows of none until each has had a pass.
func (p *pass) otherSyncs(all []v1alpha1.NodeSync) []plan.OtherSync {
	others := make([]plan.OtherSync, 0, len(all))
	for i := range all {
		if all[i].UID == p.sync.UID {
			continue
		}
		others = append(others, p.otherSync(&all[i]))
	}
	return others
}

// otherSync is what is known of one other NodeSync. One that is being deleted has
// nothing in Git any more.
func (p *pass) otherSync(sync *v1alpha1.NodeSync) plan.OtherSync {
	other := plan.OtherSync{Owner: plan.OwnerOf(sync.Namespace, sync.Name)}
	switch {
	case !sync.DeletionTimestamp.IsZero():
		other.Known = true
		return other
	case sync.Namespace != p.Settings.Namespace:
		return other // nobody serves it
	}
	if other.Suspended = sync.Spec.Suspend; other.Suspended {
		return p.suspendedSync(sync, other)
	}
	other.Awaited = true
	if ready := conditions.Get(sync, meta.ReadyCondition); ready != nil && ready.Status == metav1.ConditionFalse {
		other.Failure = ready.Reason
	}
	heard := p.memories.heardOf(client.ObjectKeyFromObject(sync), sync.UID)
	other.Entries = heard.refs
	other.Known = heard.refs != nil && heard.generation == sync.Generation && !p.newerThan(heard)
	return other
}

// goesTo names the NodeSync that an object goes to, by what is known of all at this
// moment: another one may have rendered, and applied, since the Plan was made.
func (p *pass) goesTo(object *unstructured.Unstructured, all []v1alpha1.NodeSync) string {
	if to, ok := plan.GoesTo(object, p.otherSyncs(all)); ok {
		return to.String()
	}
	return ""
}

// newerThan says whether our commit is news since another NodeSync has fetched what
// it has rendered: an entry may have moved between the two, from one repository to
// another, too. One that has rendered the very commit has it all, unless we are
// deleted, and do not look for a newer one any more.
func (p *pass) newerThan(other heard) bool {
	if !p.newsAt().After(other.at) {
		return false
	}
	ours := p.memory.snapshot
	return !p.sync.DeletionTimestamp.IsZero() || ours == nil || other.commit == "" || ours.Commit != other.commit
}

// newsAt is when entries may have left this NodeSync last: with its commit, or with its
// deletion.
func (p *pass) newsAt() time.Time {
	at := &p.memory.commitAt
	if !p.sync.DeletionTimestamp.IsZero() {
		if at = &p.memory.deletedAt; at.IsZero() {
			*at = p.now
		}
	}
	if at.After(p.now) {
		*at = p.now // the clock was put back
	}
	return *at
}

// awaitOthers notes whether this NodeSync waits for what others have in Git, and
// has those fetched that are behind.
func (p *pass) awaitOthers(all []v1alpha1.NodeSync) {
	awaits := len(p.plan.Kept) > 0
	for i := range p.plan.Changes {
		awaits = awaits || p.plan.Changes[i].Reason == plan.ReasonOtherSync
	}
	p.memories.await(p.name(), awaits)
	if !awaits {
		return
	}
	for i := range all {
		other := &all[i]
		name := client.ObjectKeyFromObject(other)
		if other.UID == p.sync.UID || other.Spec.Suspend || other.Namespace != p.Settings.Namespace {
			continue
		}
		if heard := p.memories.heardOf(name, other.UID); p.newerThan(heard) {
			p.memories.push(name, p.newsAt())
			p.Look(name)
		}
	}
}

// waitForOthers notes what stays because of another NodeSync.
func (p *pass) waitForOthers() {
	for _, k := range p.plan.Kept {
		p.Wait("NodeSync/"+k.By, k.Message)
	}
}

// rendered notes what this NodeSync has in Git, and wakes those that wait for that.
func (p *pass) rendered(set *render.Set) {
	for _, name := range p.memories.remember(p.name(), set, p.memory.snapshotOf, p.memory.snapshotAt) {
		p.Look(name)
	}
}

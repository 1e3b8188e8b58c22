package reconcile

import (
	"bytes"
	"compress/gzip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/apply"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/removal"
	"github.com/plumbline-dev/plumbline/render"
)

// TestALostRecordEndsNothing shows that nothing is removed if the branch was reset, the status was restored to that
// commit, and the record of what was applied was deleted, restored, or has lost its revision: then only the pool of the
// newer commit shows that there was one.
func TestALostRecordEndsNothing(t *testing.T) {
	newest, stays := render.Ref{Kind: render.NodePool, Name: "newest"}, render.Ref{Kind: render.NodePool, Name: "stays"}
	head, before := "main@sha1:"+commit, "main@sha1:"+applied
	record := func(pools ...render.Ref) apply.Record {
		r := apply.Record{Objects: map[render.Ref]types.UID{}, Pools: map[string]bool{}, Revision: head}
		for _, ref := range pools {
			r.Objects[ref], r.Pools[ref.Name] = types.UID(ref.Name), true
		}
		return r
	}
	for name, c := range map[string]struct {
		recorded func(*bed)
		applied  string
		held     bool
	}{
		"deleted":                  {recorded: func(*bed) {}, applied: head, held: true},
		"deleted, a newer commit":  {recorded: func(*bed) {}, applied: before, held: true},
		"restored":                 {recorded: func(b *bed) { b.recordApplied(record(stays)) }, applied: head, held: true},
		"without its revision":     {recorded: func(b *bed) { b.recordApplied(record(newest, stays)); b.stripRevision() }, applied: head, held: true},
		"a commit that removes it": {recorded: func(b *bed) { b.recordApplied(record(newest, stays)) }, applied: before},
		"of an older plumbline":    {recorded: func(b *bed) { b.recordApplied(record(newest, stays)); b.recordOfBefore() }, applied: before},
		"killed before it was recorded": {applied: before, recorded: func(b *bed) {
			r := record(newest, stays)
			delete(r.Objects, newest) // its name is recorded before it is created
			b.recordApplied(r)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			pool := appliedPool(newest.Name)
			pool.SetUID(types.UID(newest.Name))
			b := newBed(t, nodeSync(func(n *v1alpha1.NodeSync) { n.Status.LastAppliedRevision = c.applied }), pool)
			c.recorded(b)
			for range 3 {
				b.forgetAll()
				p := b.passWithout(pool)
				p.takes(t.Context(), p.seeVanished, p.makePlan, p.applyPlan, p.removes((*removal.Step).RecordApplied))
				if p.Fault != nil || len(p.plan.Removals) != 1 {
					t.Fatalf("removals %+v, fault %v", p.plan.Removals, p.Fault)
				}
				want := ""
				if c.held {
					want = v1alpha1.ReasonStatusLost
				}
				if got := p.plan.Removals[0]; got.Held != c.held || got.Reason != want {
					t.Fatalf("held %t, for %q: %s", got.Held, got.Reason, got.Message)
				}
				if !c.held {
					return
				}
				b.forgetAll() // a kill: what is not written yet is lost
				p.takes(t.Context(), p.removes((*removal.Step).Run))
				if _, err := p.conclude(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			status := b.read().Status
			if len(status.Removals) != 1 || status.Removals[0].Phase != v1alpha1.RemovalHeld || status.Removals[0].Reason != v1alpha1.ReasonStatusLost {
				t.Errorf("removals %+v", status.Removals)
			}
			store, err := apply.LoadRecord(t.Context(), b.client, b.read())
			if err != nil || store.Lost() || store.Record.Revision != c.applied {
				t.Errorf("what is recorded as held is in doubt no more, and the record has %q: lost %t, %v", store.Record.Revision, store.Lost(), err)
			}
			if !strings.Contains(strings.Join(b.told(), "\n"), "RecordLost") {
				t.Error("nothing tells that the record is lost")
			}
		})
	}
}

// TestARecordStaysLostThroughAKill shows this for a kill between the write of the record and that of the status, which
// has the removal as held.
func TestARecordStaysLostThroughAKill(t *testing.T) {
	pool := appliedPool("newest")
	pool.SetUID("1")
	for name, r := range map[string]*apply.Record{
		"deleted":  nil,
		"restored": {Revision: "main@sha1:" + commit},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, nodeSync(func(n *v1alpha1.NodeSync) { n.Status.LastAppliedRevision = "main@sha1:" + commit }), pool)
			if r != nil {
				b.recordApplied(*r)
			}
			for range 2 {
				b.forgetAll()
				p := b.passWithout(pool)
				p.takes(t.Context(), p.seeVanished, p.makePlan, p.removes((*removal.Step).RecordApplied))
				if p.Fault != nil {
					t.Fatal(p.Fault)
				}
				if len(p.plan.Removals) != 1 || p.plan.Removals[0].Reason != v1alpha1.ReasonStatusLost {
					t.Fatalf("removals %+v", p.plan.Removals)
				}
			}
		})
	}
}

// TestANameIsRecordedBeforeTheObject shows that a daemon that is killed between the two knows by the name that a pool
// which was removed from Git since was its own.
func TestANameIsRecordedBeforeTheObject(t *testing.T) {
	for name, c := range map[string]struct {
		change plan.Change
		want   bool
	}{
		"created":         {plan.Change{Ref: render.Ref{Kind: render.NodePool, Name: "new"}, Action: plan.Create}, true},
		"adopted":         {plan.Change{Ref: render.Ref{Kind: render.NodePool, Name: "new"}, Action: plan.Adopt}, true},
		"in conflict":     {plan.Change{Ref: render.Ref{Kind: render.NodePool, Name: "new"}, Action: plan.Conflict}, false},
		"an EC2NodeClass": {plan.Change{Ref: render.Ref{Kind: render.EC2NodeClass, Name: "new"}, Action: plan.Create}, false},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, nodeSync(unchanged))
			p := b.pass()
			p.live.Served = true
			p.plan.Plan = &plan.Plan{Changes: []plan.Change{c.change}}
			p.takes(t.Context(), p.seeVanished, p.removes((*removal.Step).RecordNames))
			store, err := apply.LoadRecord(t.Context(), b.client, b.read())
			if err != nil || p.Fault != nil || store.Record.Pools["new"] != c.want || len(store.Record.Objects) > 0 {
				t.Errorf("the record has %+v: %v, %v", store.Record, err, p.Fault)
			}
		})
	}
}

// passWithout starts a reconcile of a commit that contains the pool "stays", and not a live one.
func (b *bed) passWithout(pool *unstructured.Unstructured) *pass {
	p, stays := b.pass(), appliedPool("stays")
	p.snapshot = &render.Snapshot{Revision: "main@sha1:" + commit, Commit: commit}
	p.stages.CRDs.Ready, p.stages.Controller.Ready = true, true
	p.want.Set = setWith(stays.GetName())
	p.want.Set.Revision, p.want.Set.Objects[0].Desired, p.want.Set.Objects[0].Defaulted = p.snapshot.Revision, stays, stays
	ref := render.Ref{Kind: render.NodePool, Name: pool.GetName()}
	p.live = plan.Live{Served: true, Removals: p.sync.Status.Removals, Objects: map[render.Ref]*plan.Object{ref: plan.NewObject(pool)}}
	return p
}

// forgetAll is a restart of the daemon.
func (b *bed) forgetAll() {
	fresh := newBed(b.t, nodeSync(unchanged)).Reconciler
	fresh.Client, fresh.Standby, fresh.Uncached, fresh.Labelled = b.Client, b.Standby, b.Uncached, b.Labelled
	fresh.Cluster = b.Cluster
	fresh.Events, fresh.Source, fresh.Reports, fresh.Settings = b.Events, b.Source, b.Reports, b.Settings
	b.Reconciler = fresh
}

func (b *bed) changeRecord(change func(*corev1.ConfigMap)) {
	b.t.Helper()
	record := &corev1.ConfigMap{}
	err := b.client.Get(b.t.Context(), client.ObjectKey{Namespace: namespace, Name: v1alpha1.AppliedName("prod")}, record)
	if err == nil {
		change(record)
		err = b.client.Update(b.t.Context(), record)
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

// stripRevision removes the annotation from the record.
func (b *bed) stripRevision() { b.changeRecord(func(r *corev1.ConfigMap) { r.Annotations = nil }) }

// recordOfBefore rewrites the record like an earlier version that recorded no revision.
func (b *bed) recordOfBefore() {
	b.changeRecord(func(r *corev1.ConfigMap) {
		var packed bytes.Buffer
		writer := gzip.NewWriter(&packed)
		_, err := writer.Write([]byte(`{"objects":{"NodePool/newest":"newest","NodePool/stays":"stays"},"pools":["newest","stays"]}`))
		if err == nil {
			err = writer.Close()
		}
		if err != nil {
			b.t.Fatal(err)
		}
		r.Annotations, r.BinaryData = nil, map[string][]byte{"applied.json.gz": packed.Bytes()}
	})
}

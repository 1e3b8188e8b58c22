package reconcile

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/apply"
	"github.com/plumbline-dev/plumbline/render"
)

// recordPool records that a NodePool was applied.
func (b *bed) recordPool(name string, uid types.UID) {
	b.t.Helper()
	b.recordApplied(apply.Record{
		Objects: map[render.Ref]types.UID{{Kind: render.NodePool, Name: name}: uid}, Pools: map[string]bool{name: true},
	})
}

func (b *bed) recordApplied(r apply.Record) {
	b.t.Helper()
	store, err := apply.LoadRecord(b.t.Context(), b.client, b.read())
	if err == nil {
		err = store.Save(b.t.Context(), b.client, b.read(), r)
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

// vanish deletes the pool, and its NodeClaim with it.
func (b *bed) vanish() {
	b.t.Helper()
	if err := b.client.Delete(b.t.Context(), b.livePool()); err != nil {
		b.t.Fatal(err)
	}
	b.endClaim()
	if claim := b.liveClaim(); claim != nil {
		if err := b.client.Delete(b.t.Context(), claim); err != nil {
			b.t.Fatal(err)
		}
	}
}

// staysWhile reconciles a NodeSync that must stay, and must report why.
func (b *bed) staysWhile(why string) {
	b.t.Helper()
	for range 8 {
		b.clock.forward(2 * time.Second)
		b.reconcile()
	}
	if !b.exists() {
		b.t.Fatalf("the NodeSync is gone, and its instance is not:\n%s", strings.Join(b.told(), "\n"))
	}
	status := b.read().Status
	words := ""
	for _, r := range status.Removals {
		words += r.Message + "\n"
	}
	if status.Waiting != nil {
		words += status.Waiting.Message
	}
	if !strings.Contains(words, why) {
		b.t.Errorf("it says %q, want %q", words, why)
	}
}

// TestDrainAfterThePoolsWereDeleted shows that instances that still run keep a NodeSync that is deleted after kubectl
// delete nodepools --all.
func TestDrainAfterThePoolsWereDeleted(t *testing.T) {
	for name, prepare := range map[string]func(*bed){
		"the pool was recorded":                func(b *bed) { b.recordPool("general", "p1") },
		"an older daemon has recorded nothing": func(*bed) {},
	} {
		t.Run(name, func(t *testing.T) {
			b := leaving(t, func(n *v1alpha1.NodeSync) { n.Spec.OnDelete = v1alpha1.OnDeleteDrain })
			prepare(b)
			b.vanish()
			b.staysWhile("i-0123456789abcdef0 (running)")
			b.cloud.running[0].State = "terminated"
			b.passes("the NodeSync goes", func() bool { return !b.exists() })
			if told := strings.Join(b.told(), "\n"); !strings.Contains(told, "the deletion is concluded: EC2 has terminated all of its instances") {
				t.Errorf("told:\n%s", told)
			}
		})
	}
}

// TestDrainDoesNotWaitForOthers shows that instances of a pool that this NodeSync has never applied do not keep it.
func TestDrainDoesNotWaitForOthers(t *testing.T) {
	b := leaving(t, func(n *v1alpha1.NodeSync) { n.Spec.OnDelete = v1alpha1.OnDeleteDrain })
	b.recordPool("general", "p1")
	b.vanish()
	b.cloud.running[0].State = "terminated"
	b.cloud.running = append(b.cloud.running, cloud.Instance{ID: "i-1", Zone: "eu-west-1a", State: "running", Pool: "another"})
	b.passes("the NodeSync goes", func() bool { return !b.exists() })
}

// TestDrainEndsWithAQuestion shows that the last query, for the tags of the cluster, finds what the removals have not
// seen.
func TestDrainEndsWithAQuestion(t *testing.T) {
	b := leaving(t, func(n *v1alpha1.NodeSync) { n.Spec.OnDelete = v1alpha1.OnDeleteDrain })
	b.recordApplied(apply.Record{Pools: map[string]bool{"general": true}})
	b.vanish()
	b.staysWhile("i-0123456789abcdef0 (running)")
	b.cloud.running = nil // absent, and it was never seen terminating
	b.staysWhile("i-0123456789abcdef0 (not found in EC2)")
	b.clock.forward(10 * time.Minute)
	b.passes("the NodeSync goes", func() bool { return !b.exists() })
}

// TestDrainWithoutAnAccount shows that what cannot be queried is not verified.
func TestDrainWithoutAnAccount(t *testing.T) {
	b := leaving(t, func(n *v1alpha1.NodeSync) { n.Spec.OnDelete = v1alpha1.OnDeleteDrain })
	b.recordApplied(apply.Record{Pools: map[string]bool{"general": true}})
	b.vanish()
	b.cloud.err = &cloud.DeniedError{Action: "ec2:DescribeInstances", Err: errUnreachable}
	b.staysWhile("set onDelete: Orphan to keep the nodes")
}

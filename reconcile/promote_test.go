package reconcile

import (
	"context"
	"crypto/ed25519"
	"encoding/pem"
	"strings"
	"testing"
	"time"

	"github.com/fluxcd/pkg/runtime/conditions"
	gossh "golang.org/x/crypto/ssh"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/fault"
	"github.com/plumbline-dev/plumbline/reconcile/promotion"
	"github.com/plumbline-dev/plumbline/reconcile/source"
	"github.com/plumbline-dev/plumbline/reconcile/source/signature"
)

const ringsFile = `apiVersion: config.plumbline.dev/v1alpha1
kind: Rings
clusters: [{name: dev, nodeSync: dev}, {name: eu, nodeSync: @NAME@}]
rings:
- {name: canary, clusters: [dev]}
- {name: prod, clusters: [eu]}
`

// ringKey is the private key of a cluster in PEM form, and its signer.
func ringKey(t *testing.T, number byte) ([]byte, signature.Signer) {
	t.Helper()
	seed := make([]byte, ed25519.SeedSize)
	seed[0] = number
	block, err := gossh.MarshalPrivateKey(ed25519.NewKeyFromSeed(seed), "")
	if err != nil {
		t.Fatal(err)
	}
	text := pem.EncodeToMemory(block)
	signer, err := signature.NewSigner(text, nil)
	if err != nil {
		t.Fatal(err)
	}
	return text, signer
}

// TestPromotion: a reconcile takes the commit that the rings allow, records that before it writes anything, and pushes what
// became of it. A new process continues with both.
func TestPromotion(t *testing.T) {
	identity, eu := ringKey(t, 1)
	_, dev := ringKey(t, 2)
	one, two := strings.Repeat("1", 40), strings.Repeat("2", 40)
	sync := nodeSync(func(n *v1alpha1.NodeSync) {
		n.Status.LastAppliedRevision = "main@sha1:" + one
		n.Spec.Interval = metav1.Duration{Duration: time.Minute}
		n.Spec.Promotion = &v1alpha1.Promotion{
			Cluster: "eu", Ring: "prod", SigningKey: v1alpha1.LocalReference{Name: "fleet-key"},
			Clusters: []v1alpha1.PromotionCluster{{Name: "dev", Keys: []string{dev.Public()}}, {Name: "eu", NodeSync: n.Name, Keys: []string{eu.Public()}}},
		}
	})
	key := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "fleet-key"}, Data: map[string][]byte{"identity": identity}}
	b := newBed(t, sync, key)
	b.source.pushes = make(chan []byte, 8)
	rings := []byte(strings.ReplaceAll(ringsFile, "@NAME@", sync.Name))
	b.source.branch = []source.BranchCommit{
		{Hash: two, Parents: []string{one}, File: rings, FileID: "r", Content: two}, {Hash: one, File: rings, FileID: "r", Content: one},
	}
	fetches := func() *pass {
		t.Helper()
		b.clock.forward(2 * time.Minute)
		p := b.pass()
		if err := p.fetch(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := p.verify(t.Context()); err != nil {
			t.Fatal(err)
		}
		return p
	}
	p := fetches()
	if p.snapshot.Commit != one || p.sync.Status.Promotion.Taken != one || len(p.sync.Status.Promotion.Waits) != 1 {
		t.Fatalf("before canary has reported: %s, %+v", p.snapshot.Commit, p.sync.Status.Promotion)
	}
	p.summarize(t.Context())
	if c := conditions.Get(p.sync, v1alpha1.PromotedCondition); c == nil || c.Reason != string(promotion.ClusterSilent) {
		t.Errorf("Promoted = %+v", c)
	}
	record := promotion.Record{Cluster: "dev", NodeSync: "dev", Serial: b.clock.now().Unix(), At: b.clock.now(), Verdicts: []promotion.Verdict{
		{Commit: two, State: promotion.Succeeded, Since: b.clock.now().Add(-time.Hour)},
	}}
	data, err := record.Commit(dev.Sign)
	if err != nil {
		t.Fatal(err)
	}
	b.source.records.Of = map[string]source.Record{"refs/plumbline/dev/dev": {Hash: strings.Repeat("a", 40), Data: data}}
	p = fetches()
	if p.snapshot.Commit != two || b.source.picked != two {
		t.Fatalf("canary has succeeded: %s, %+v", p.snapshot.Commit, p.sync.Status.Promotion)
	}
	out := p.outcome()
	if stored, err := p.reconciliation.conclusion(&out).Record(t.Context()); !stored || err != nil {
		t.Fatal(stored, err)
	}
	if taken := b.read().Status.Promotion.Taken; taken != two {
		t.Errorf("before something is written, the status has %s", taken)
	}
	failed := p.outcome()
	failed.fault = &fault.Error{Class: fault.Terminal, Reason: v1alpha1.ReasonInvalid, Err: context.DeadlineExceeded}
	concluded := p.reconciliation.conclusion(&failed)
	result := p.publishRecord(t.Context(), &failed, concluded, ctrl.Result{RequeueAfter: time.Hour})
	if result.RequeueAfter > time.Hour {
		t.Errorf("the next reconcile comes in %s", result.RequeueAfter)
	}
	pushed := b.source.awaitPush(t)
	keys, err := signature.KeysFromSecret("eu", map[string][]byte{"eu.sshpub": []byte(eu.Public())})
	if err != nil {
		t.Fatal(err)
	}
	me := promotion.Member{Cluster: "eu", NodeSync: sync.Name}
	got, err := promotion.Envelope{Data: pushed}.Open(me, keys, b.clock.now())
	if err != nil || got.Of(two) == nil || got.Of(two).State != promotion.Failed {
		t.Errorf("others read %+v, %v", got, err)
	}
	b.source.records.Of[me.References()[0]] = source.Record{Hash: strings.Repeat("b", 40), Data: pushed}
	known := b.read()
	known.ResourceVersion = ""
	again := newBed(t, known, key)
	again.source.branch, again.source.records = b.source.branch, b.source.records
	again.clock.forward(10 * time.Minute)
	p = again.pass()
	if err := p.fetch(t.Context()); err != nil {
		t.Fatal(err)
	}
	if own := p.memory.publisher.Record(); own == nil || own.Of(two) == nil || p.snapshot.Commit != two {
		t.Errorf("a new process begins with %+v and takes %s", own, p.snapshot.Commit)
	}
}

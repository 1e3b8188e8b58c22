package reconcile

import (
	"strings"
	"testing"

	"github.com/fluxcd/pkg/runtime/conditions"
	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/evaluate"
	"github.com/plumbline-dev/plumbline/reconcile/status"
	"github.com/plumbline-dev/plumbline/reconcile/upgrade/installtest"
	"github.com/plumbline-dev/plumbline/render"
)

func TestCollision(t *testing.T) {
	verified := func(k *v1alpha1.KarpenterStatus) { k.ClusterARN = prodEU("111122223333", "").ARN }
	for name, c := range map[string]struct {
		controller *appsv1.Deployment
		change     func(*v1alpha1.KarpenterStatus)
		cluster    cloud.Cluster
		want       bool
	}{
		"it runs under the other's name":           {controller: runningAs("prod-eu", 2), cluster: prodEU("111122223333", "theirs"), want: true},
		"its name is not told":                     {controller: runningAs("", 2), cluster: prodEU("111122223333", "theirs"), want: true},
		"it runs under its own":                    {controller: runningAs("staging", 2), cluster: prodEU("111122223333", "theirs")},
		"it is scaled to 0":                        {controller: runningAs("prod-eu", 0), cluster: prodEU("111122223333", "theirs")},
		"this is the cluster":                      {controller: runningAs("prod-eu", 2), cluster: prodEU("111122223333", "ours")},
		"plumbline's role has changed accounts":    {controller: runningAs("prod-eu", 2), change: verified, cluster: prodEU("999988887777", "theirs")},
		"verified before, as the very same":        {controller: runningAs("prod-eu", 2), change: verified, cluster: prodEU("111122223333", "theirs"), want: true},
		"adopted from others, under their name":    {controller: runningAs("prod-eu", 1), change: first, cluster: prodEU("111122223333", "theirs"), want: true},
		"nobody else's cluster is in that account": {controller: runningAs("prod-eu", 1), change: first},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, nodeSync(unchanged), append(installtest.Installed()[1:], c.controller)...)
			if c.cluster.Name != "" {
				b.inAccount(c.cluster)
			}
			change := c.change
			if change == nil {
				change = inForce
			}
			p := b.atTheCharts(change)
			v := p.verdict()
			if got := v.Reason == v1alpha1.ReasonClusterNameCollision; got != c.want {
				t.Fatalf("verdict: %+v, want the collision: %t", v, c.want)
			}
			if c.want && (v.Class != status.Stuck || !strings.Contains(v.Message, "kubectl scale deployment karpenter -n kube-system --replicas=0")) {
				t.Errorf("verdict: %+v", v)
			}
		})
	}
}

// TestACollisionIsReportedOnce shows that a collision is reported once, as a warning, and stays reported while
// reconciles stop before they can check.
func TestACollisionIsReportedOnce(t *testing.T) {
	b := newBed(t, nodeSync(unchanged), append(installtest.Installed()[1:], runningAs("prod-eu", 2))...)
	b.inAccount(prodEU("111122223333", "theirs"))
	b.concluded(b.atTheCharts(inForce))
	told := b.told()
	if len(told) != 1 || !strings.HasPrefix(told[0], "Warning ClusterNameCollision Karpenter runs here with the name of another cluster") {
		t.Errorf("told %q", told)
	}
	b.concluded(b.atTheCharts(inForce))
	b.concluded(b.pass(), stopped(t, &render.EmptyError{}))
	if told := b.told(); len(told) > 0 {
		t.Errorf("told again: %q", told)
	}
	if ready := conditions.GetReason(b.read(), "Ready"); ready != v1alpha1.ReasonClusterNameCollision {
		t.Errorf("Ready is %s", ready)
	}
	deployment := &appsv1.Deployment{}
	if err := b.client.Get(t.Context(), client.ObjectKey{Namespace: "kube-system", Name: "karpenter"}, deployment); err != nil {
		t.Fatal(err)
	}
	none := int32(0)
	deployment.Spec.Replicas = &none
	if err := b.client.Update(t.Context(), deployment); err != nil {
		t.Fatal(err)
	}
	if v := b.atTheCharts(inForce).verdict(); v.Reason == v1alpha1.ReasonClusterNameCollision {
		t.Errorf("it is scaled to 0: %+v", v)
	}
}

// TestACopiedNameMayBeCorrected shows that a cluster name that AWS has never confirmed can be changed.
func TestACopiedNameMayBeCorrected(t *testing.T) {
	ours, theirs := cloud.Cluster{Name: "ours", ARN: "arn:ours", CertificateAuthority: pemOf("ours")}, prodEU("111122223333", "theirs")
	for name, c := range map[string]struct {
		before v1alpha1.KarpenterStatus
		aws    cloud.Cluster
		want   bool
	}{
		"before anything was installed":       {before: v1alpha1.KarpenterStatus{Management: "Managed"}, aws: ours, want: true},
		"others install Karpenter":            {before: v1alpha1.KarpenterStatus{Management: "External"}, aws: ours, want: true},
		"installed, unverified":               {before: v1alpha1.KarpenterStatus{Management: "Managed", Identity: "i"}, aws: ours, want: true},
		"to a name that is not this one's":    {before: v1alpha1.KarpenterStatus{Management: "Managed", Identity: "i"}, aws: theirs},
		"from a name that was verified":       {before: v1alpha1.KarpenterStatus{Management: "Managed", Identity: "i", ClusterARN: "arn"}, aws: ours},
		"External, and it was verified":       {before: v1alpha1.KarpenterStatus{Management: "External", ClusterARN: "arn"}, aws: ours},
		"to another, before it was installed": {before: v1alpha1.KarpenterStatus{Management: "Managed"}, aws: theirs, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, nodeSync(unchanged))
			b.inAccount(c.aws)
			p := b.pass()
			c.before.Namespace, c.before.Cluster, c.before.Region = "kube-system", "copied", "eu-west-1"
			p.sync.Status.Karpenter = &c.before
			p.want.Karpenter = &render.Karpenter{Management: render.Management(c.before.Management), Namespace: "kube-system", Cluster: render.Cluster{Name: "ours", Region: "eu-west-1"}}
			var err error
			p.want.Renamed, err = evaluate.CheckFixed(p.sync.Status.Karpenter, p.want.Karpenter)
			if err == nil {
				err = p.verifyCloud(t.Context())
			}
			if (err == nil) != c.want {
				t.Fatalf("%v, want it to be accepted: %t", err, c.want)
			}
			if err != nil {
				return
			}
			p.sync.Status.Karpenter = p.want.Fixed(p.sync.Status.Karpenter)
			p.memory.account.Note(p.sync.Status.Karpenter, p.account)
			k := p.sync.Status.Karpenter
			if k.Cluster != "ours" || k.Identity != c.before.Identity || (k.ClusterARN == "arn:ours") != (c.aws.Name == "ours") {
				t.Errorf("status %+v", k)
			}
		})
	}
}

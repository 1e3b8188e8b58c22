package reconcile

import (
	"context"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline-dev/plumbline/provision/charts"
	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/fault"
	"github.com/plumbline-dev/plumbline/reconcile/status"
	"github.com/plumbline-dev/plumbline/reconcile/upgrade/installtest"
	"github.com/plumbline-dev/plumbline/render"
)

// prodEU returns the EKS cluster prod-eu of an account, with a certificate authority.
func prodEU(account, authority string) cloud.Cluster {
	return cloud.Cluster{Name: "prod-eu", ARN: "arn:aws:eks:eu-west-1:" + account + ":cluster/prod-eu", CertificateAuthority: pemOf(authority)}
}

// inAccount makes AWS answer with a cluster, and the API server with authority "ours".
func (b *bed) inAccount(cluster cloud.Cluster) {
	b.cloud.err, b.cloud.cluster = nil, cluster
	b.Cluster.CertificateAuthority = pemOf("ours")
}

// atTheCharts returns a reconcile that has reached the charts, after AWS was queried.
func (b *bed) atTheCharts(change func(*v1alpha1.KarpenterStatus)) *pass {
	b.t.Helper()
	p := b.installing()
	p.want.Karpenter.Cluster = render.Cluster{Name: "prod-eu", Region: "eu-west-1"}
	identity, err := p.chartStep().Identity()
	if err != nil {
		b.t.Fatal(err)
	}
	p.sync.Status.Karpenter = &v1alpha1.KarpenterStatus{
		Management: "Managed", Namespace: "kube-system", Cluster: "prod-eu", Region: "eu-west-1", Version: "1.14.1", Identity: identity,
	}
	change(p.sync.Status.Karpenter)
	for _, step := range []func(context.Context) error{p.verifyCloud, p.seeCollision} {
		if err := step(b.t.Context()); err != nil {
			b.t.Fatal(err)
		}
	}
	return p
}

func first(k *v1alpha1.KarpenterStatus) { k.Version, k.Identity = "", "" }

func inForce(*v1alpha1.KarpenterStatus) {}

// TestChartsOfAnotherClusterStay shows that no change of the charts is written under the name of another cluster.
func TestChartsOfAnotherClusterStay(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*v1alpha1.KarpenterStatus)
		// goesOn reports whether definitions are written under the controller in force.
		goesOn bool
	}{
		"a first install": {change: first},
		"an upgrade":      {change: func(k *v1alpha1.KarpenterStatus) { k.Version, k.Identity = "1.8.6", "older" }},
		"a way back": {change: func(k *v1alpha1.KarpenterStatus) {
			k.Controller = &v1alpha1.ReleaseStatus{Revision: 1, Version: "1.8.6"}
			k.Target = &v1alpha1.ChartTarget{Step: v1alpha1.ChartRollingBack, Identity: k.Identity}
			k.Identity = "older"
		}},
		"a repair": {change: inForce, goesOn: true},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, nodeSync(unchanged), installtest.Installed()...)
			b.inAccount(prodEU("999988887777", "theirs"))
			p := b.atTheCharts(c.change)
			err := p.installCharts(t.Context())
			stopped := p.stages.Unkept
			if !c.goesOn {
				stopped = err
			} else if err != nil {
				t.Fatal(err)
			}
			if f := fault.Classify(stopped); f == nil || f.Class != fault.Terminal || f.Reason != v1alpha1.ReasonRefused || !strings.Contains(f.Error(), "999988887777") {
				t.Errorf("it says %v", stopped)
			}
			if len(b.install.Asked) > 0 || b.install.Rehearsed > 0 {
				t.Errorf("Helm was asked: %v", b.install.Asked)
			}
		})
	}
}

// TestNoQuestionIsNoAnswer shows that nothing is installed for the first time if the account was not checked.
func TestNoQuestionIsNoAnswer(t *testing.T) {
	b := newBed(t, nodeSync(unchanged))
	p := b.installing()
	first(p.sync.Status.Karpenter)
	if f := fault.Classify(p.installCharts(t.Context())); f == nil || f.Reason != v1alpha1.ReasonCloudUnverified {
		t.Errorf("it says %v", f)
	}
	if len(b.install.Asked) > 0 || b.install.Rehearsed > 0 {
		t.Errorf("Helm was asked: %v", b.install.Asked)
	}
}

// TestAFirstInstallWaitsForTheAccount shows that a first install waits for the account, and proceeds by itself, or if
// the NodeSync allows it.
func TestAFirstInstallWaitsForTheAccount(t *testing.T) {
	install := func(b *bed) error { return b.atTheCharts(first).installCharts(t.Context()) }
	b := newBed(t, nodeSync(unchanged), installtest.Installed()...)
	f := fault.Classify(install(b))
	if f == nil || f.Class != fault.Waiting || f.Reason != v1alpha1.ReasonCloudUnverified || !strings.Contains(f.Error(), "no route") {
		t.Fatalf("it says %v", f)
	}
	b.inAccount(prodEU("111122223333", "ours"))
	b.clock.forward(time.Hour)
	if err := b.atTheCharts(first).mayChangeCharts(t.Context()); err != nil {
		t.Errorf("AWS has confirmed it, and it says %v", err)
	}
	allowed := newBed(t, nodeSync(func(n *v1alpha1.NodeSync) { n.Spec.Guard.AllowUnverifiedAccount = true }), installtest.Installed()...)
	if err := allowed.atTheCharts(first).mayChangeCharts(t.Context()); err != nil {
		t.Errorf("it is allowed, and it says %v", err)
	}
}

// TestChartsAreChangedOnAFreshAnswer shows that AWS is queried again before charts are changed, although a positive
// answer about the account is valid for minutes.
func TestChartsAreChangedOnAFreshAnswer(t *testing.T) {
	b := newBed(t, nodeSync(unchanged), installtest.Installed()...)
	b.Settings.CloudInterval = 10 * time.Second
	b.inAccount(prodEU("111122223333", "ours"))
	p := b.atTheCharts(inForce)
	if p.account == nil || !p.account.OK {
		t.Fatalf("not verified: %+v", p.account)
	}
	b.concluded(p)
	b.inAccount(prodEU("999988887777", "theirs"))
	b.clock.forward(5 * time.Second)
	if err := b.atTheCharts(inForce).mayChangeCharts(t.Context()); err != nil || b.cloud.asked != 1 {
		t.Errorf("within the interval: %v, asked %d times", err, b.cloud.asked)
	}
	b.clock.forward(10 * time.Second)
	p = b.atTheCharts(inForce)
	if err := p.mayChangeCharts(t.Context()); err == nil || b.cloud.asked != 2 {
		t.Errorf("after the interval: %v, asked %d times", err, b.cloud.asked)
	}
	if p.account.OK {
		t.Error("the answer of before is concluded")
	}
}

// TestAnAnswerIsAboutOneName shows that AWS's answer about one cluster does not apply to the one that the next commit
// names.
func TestAnAnswerIsAboutOneName(t *testing.T) {
	b := newBed(t, nodeSync(unchanged), installtest.Installed()...)
	b.inAccount(prodEU("111122223333", "ours"))
	b.concluded(b.atTheCharts(inForce))
	p := b.pass()
	p.want.Karpenter = &render.Karpenter{Cluster: render.Cluster{Name: "prod-us", Region: "eu-west-1"}}
	if err := p.verifyCloud(t.Context()); err != nil || b.cloud.asked != 2 {
		t.Errorf("asked %d times, %v", b.cloud.asked, err)
	}
}

// runningAs returns Karpenter's Deployment with replicas, under the name of a cluster.
func runningAs(cluster string, replicas int32) *appsv1.Deployment {
	d := installtest.Installed()[0].(*appsv1.Deployment)
	d.Spec.Replicas = &replicas
	d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "controller", Env: []corev1.EnvVar{{Name: "CLUSTER_NAME", Value: cluster}}}}
	return d
}

// TestWhatIsKeptIsNotCorrectedElsewhere shows that drift of the charts' objects is reported once the account is this
// cluster's again.
func TestWhatIsKeptIsNotCorrectedElsewhere(t *testing.T) {
	b := newBed(t, nodeSync(unchanged), installtest.Installed()...)
	b.inAccount(prodEU("999988887777", "theirs"))
	verified := func(k *v1alpha1.KarpenterStatus) { k.ClusterARN = prodEU("111122223333", "").ARN }
	p := b.atTheCharts(verified)
	if err := p.installCharts(t.Context()); err != nil {
		t.Fatal(err)
	}
	if v := p.verdict(); v.Class != status.Stuck || v.Reason != v1alpha1.ReasonRefused || !strings.Contains(v.Message, "left unchanged") {
		t.Errorf("verdict: %+v", v)
	}
	b.inAccount(prodEU("111122223333", "ours"))
	b.clock.forward(time.Hour)
	if err := b.atTheCharts(verified).installCharts(t.Context()); err != nil || b.install.Asked[charts.ControllerChart] != 1 {
		t.Errorf("the account is back: %v, Helm was asked %v", err, b.install.Asked)
	}
}

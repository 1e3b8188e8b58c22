package account

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/provision/cloud/resolve"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// aws has one instance without a NodeClaim, or an error, after a while.
type instancesAWS struct {
	err   error
	after time.Duration
	asked int
	// terminated is the providerID of an instance that is shown only if it is asked for.
	terminated string
	// none reports whether no instance differs.
	none bool
	// volumes are attached in EC2, unless unasked says why they are not known.
	volumes []cloud.Resource
	unasked error
	// behind is what is left beside volumes, and profiles reports that instance profiles were asked for.
	behind   []cloud.Answer
	profiles bool
	// cluster has VolumeAttachments and Nodes.
	cluster client.Reader
}

func (a *instancesAWS) Fleet(_ context.Context, q cloud.Query) ([]cloud.Instance, error) {
	if a.asked++; a.terminated != "" {
		if !slices.Contains(q.ProviderIDs, a.terminated) {
			return nil, nil
		}
		_, id, err := cloud.ParseProviderID(a.terminated)
		return []cloud.Instance{{ID: id, State: "terminated"}}, err
	}
	<-time.After(a.after)
	if a.none {
		return nil, a.err
	}
	return []cloud.Instance{{ID: "i-1", Zone: "a", State: "running", Pool: "general", Launched: time.Unix(0, 0)}}, a.err
}

// reader has what the test has set, or nothing.
func (a *instancesAWS) reader(t *testing.T) client.Reader {
	if a.cluster != nil {
		return a.cluster
	}
	return clusterOf(t)
}

func (a *instancesAWS) AttachedVolumes(context.Context, string) ([]cloud.Resource, error) {
	return a.volumes, a.unasked
}

func (a *instancesAWS) LeftBehind(_ context.Context, _ string, profiles bool) ([]cloud.Answer, error) {
	a.profiles = profiles
	return a.behind, nil
}

func (a *instancesAWS) SecurityGroups(context.Context, *awsv1.EC2NodeClass) ([]string, error) {
	return nil, nil
}

// pass is what one finds at a time, and when the next is wanted, from then.
func (a *instancesAWS) pass(t *testing.T, asker *InstanceAsker, change func(*InstanceLook)) (*v1alpha1.InstanceDrift, time.Duration) {
	t.Helper()
	now := time.Now()
	look := InstanceLook{
		Cloud: func(context.Context) (InstanceCloud, error) { return a, nil }, Reader: a.reader(t), Cluster: "demo", Now: now, Every: 10 * time.Minute, Live: plan.Live{},
		Set: &render.Set{Objects: []render.Object{{Ref: render.Ref{Kind: render.NodePool, Name: "general"}}}},
	}
	change(&look)
	var found finding.Findings
	drift := asker.See(t.Context(), look, &found)
	if found.WakeAt.IsZero() {
		return drift, 0
	}
	return drift, found.WakeAt.Sub(now)
}

// TestNoPassWaits: each has the last answer, and AWS is asked seldom.
func TestNoPassWaits(t *testing.T) {
	as := func(*InstanceLook) {}
	synctest.Test(t, func(t *testing.T) {
		ec2, asker := &instancesAWS{after: 5 * time.Second}, &InstanceAsker{}
		began := time.Now()
		if drift, wake := ec2.pass(t, asker, as); drift != nil || wake != soon || !time.Now().Equal(began) {
			t.Errorf("first: %v, next in %s, after %s", drift, wake, time.Since(began))
		}
		<-time.After(10 * time.Second)
		drift, wake := ec2.pass(t, asker, as)
		if drift == nil || drift.Count != 1 || drift.Instances[0].ID != "i-1" || wake != time.Minute-10*time.Second {
			t.Errorf("while one differs: %v, next in %s", drift, wake)
		}
		ec2.none = true
		<-time.After(time.Minute)
		ec2.pass(t, asker, as)
		<-time.After(10 * time.Second)
		if drift, wake := ec2.pass(t, asker, as); ec2.asked != 2 || drift.Count != 0 || wake != 10*time.Minute-10*time.Second {
			t.Errorf("once none differs: asked %d times: %v, next in %s", ec2.asked, drift, wake)
		}
		<-time.After(2 * time.Minute)
		if ec2.pass(t, asker, as); ec2.asked != 2 {
			t.Errorf("asked %d times", ec2.asked)
		}
		ec2.pass(t, asker, func(l *InstanceLook) { l.Urgent = true })
		<-time.After(10 * time.Second)
		synctest.Wait()
		if ec2.asked != 3 {
			t.Errorf("a Node that no NodeClaim has is urgent: asked %d times", ec2.asked)
		}
		ec2.err = errors.New("AWS denies ec2:DescribeInstances")
		<-time.After(10 * time.Minute)
		ec2.pass(t, asker, as)
		<-time.After(10 * time.Second)
		drift, _ = ec2.pass(t, asker, as)
		if diff := cmp.Diff(&v1alpha1.InstanceDrift{Failure: "AWS denies ec2:DescribeInstances"}, drift); diff != "" {
			t.Errorf("denied (-want +got):\n%s", diff)
		}
	})
}

// TestABusyAWS leaves the last answer, and is asked again sooner.
func TestABusyAWS(t *testing.T) {
	as := func(*InstanceLook) {}
	synctest.Test(t, func(t *testing.T) {
		ec2, asker := &instancesAWS{}, &InstanceAsker{}
		ec2.pass(t, asker, as)
		synctest.Wait()
		for _, err := range []error{&resolve.BusyError{}, &cloud.PartialError{}} {
			ec2.err = err
			<-time.After(10 * time.Minute)
			ec2.pass(t, asker, as)
			synctest.Wait()
			if drift, wake := ec2.pass(t, asker, as); drift.Count != 1 || wake != again {
				t.Errorf("%T: %v, next in %s", err, drift, wake)
			}
		}
		look := func() *v1alpha1.InstanceDrift {
			<-time.After(10 * time.Minute)
			ec2.pass(t, asker, as)
			synctest.Wait()
			drift, _ := ec2.pass(t, asker, as)
			return drift
		}
		if drift := look(); drift.Count != 1 || !strings.HasPrefix(drift.Failure, "no complete answer since ") {
			t.Errorf("after half an hour: %+v", drift)
		}
		ec2.err = nil
		if drift := look(); drift.Count != 1 || drift.Failure != "" {
			t.Errorf("once AWS answers: %+v", drift)
		}
	})
}

// TestNothingIsAsked where there is nothing to ask, or nobody knows whose account it is.
func TestNothingIsAsked(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*InstanceLook)
		want   *v1alpha1.InstanceDrift
	}{
		"never":        {func(l *InstanceLook) { l.Every = 0 }, &v1alpha1.InstanceDrift{}},
		"not verified": {func(l *InstanceLook) { l.Unverified = "the account is not verified" }, &v1alpha1.InstanceDrift{Failure: "AWS is not queried: the account is not verified"}},
	} {
		t.Run(name, func(t *testing.T) {
			ec2 := &instancesAWS{}
			drift, wake := ec2.pass(t, &InstanceAsker{}, tc.change)
			if diff := cmp.Diff(tc.want, drift); diff != "" || ec2.asked != 0 || wake != 0 {
				t.Errorf("asked %d, next in %s (-want +got):\n%s", ec2.asked, wake, diff)
			}
		})
	}
}

// TestTheFirstComparisonIsAtTheStart: a Node whose NodeClaim disappeared while no daemon ran is found by nothing else.
func TestTheFirstComparisonIsAtTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		at := metav1.NewTime(time.Now().Add(-time.Hour))
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
			Name: "leaving", Labels: map[string]string{karpv1.NodePoolLabelKey: "general"}, CreationTimestamp: at, DeletionTimestamp: &at, Finalizers: []string{karpv1.TerminationFinalizer},
		}}
		ec2, asker := &instancesAWS{none: true, cluster: clusterOf(t, node)}, &InstanceAsker{}
		_, wake := ec2.pass(t, asker, func(l *InstanceLook) { l.Before = &v1alpha1.InstanceDrift{} }) // the status has an earlier one
		synctest.Wait()
		if left := asker.Left(); wake != soon || len(left) != 1 || left[0].Name != "leaving" {
			t.Errorf("next in %s, terminating %+v", wake, left)
		}
	})
}

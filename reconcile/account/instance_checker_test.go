package account

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/provision/cloud/resolve"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// instancesAWS returns one instance without a NodeClaim, or an error, after a while.
type instancesAWS struct {
	err   error
	after time.Duration
	asked int
	// terminated is the providerID of an instance that is returned only if it is queried by ID.
	terminated string
	// none reports whether no instance differs.
	none bool
	// volumes are attached in EC2, unless unasked is the error of the query.
	volumes []cloud.Resource
	unasked error
	// behind is what else is left, and profiles reports whether instance profiles were queried.
	behind   []cloud.Answer
	profiles bool
	// id is the ID of the instance, i-1 if empty, and has are its security groups.
	id  string
	has []string
	// groups are what each class resolves to; ungrouped and unlisted are why AWS does not answer that, and what is left.
	groups              []string
	ungrouped, unlisted error
	// cluster has VolumeAttachments and Nodes.
	cluster client.Reader
	// shown, if not nil, are the instances that EC2 returns, and userData is their user data, by providerID; unread is its
	// error.
	shown    []cloud.Instance
	userData map[string]string
	unread   error
}

func (a *instancesAWS) UserData(_ context.Context, providerID string) (string, error) {
	return a.userData[providerID], a.unread
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
	if a.shown != nil {
		return slices.Clone(a.shown), a.err
	}
	if a.none {
		return nil, a.err
	}
	id := a.id
	if id == "" {
		id = "i-1"
	}
	return []cloud.Instance{{ID: id, Zone: "a", State: "running", Pool: "general", Launched: time.Unix(0, 0), SecurityGroups: a.has}}, a.err
}

// reader returns the reader that the test has set, or an empty one.
func (a *instancesAWS) reader(t *testing.T) client.Reader {
	if a.cluster != nil {
		return a.cluster
	}
	return clusterOf(t)
}

func (a *instancesAWS) AttachedVolumes(context.Context, string) ([]cloud.Resource, error) {
	if a.unasked != nil { // as EC2's client does, which has no volumes then
		return nil, a.unasked
	}
	return a.volumes, nil
}

func (a *instancesAWS) LeftBehind(_ context.Context, _ string, profiles bool) ([]cloud.Answer, error) {
	a.profiles = profiles
	return slices.Clone(a.behind), a.unlisted
}

func (a *instancesAWS) SecurityGroups(context.Context, *awsv1.EC2NodeClass) ([]string, error) {
	return a.groups, a.ungrouped
}

// pass returns what one reconcile finds at a time, and after how long the next is requested.
func (a *instancesAWS) pass(t *testing.T, asker *InstanceChecker, change func(*InstanceLook)) (*v1alpha1.InstanceDrift, time.Duration) {
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

// TestNoPassWaits checks that each reconcile gets the last result, and that AWS is seldom queried.
func TestNoPassWaits(t *testing.T) {
	as := func(*InstanceLook) {}
	synctest.Test(t, func(t *testing.T) {
		ec2, asker := &instancesAWS{after: 5 * time.Second}, &InstanceChecker{}
		began := time.Now()
		if drift, wake := ec2.pass(t, asker, as); drift != nil || wake != checkResultAfter || !time.Now().Equal(began) {
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
		if drift, wake = ec2.pass(t, asker, as); wake != time.Minute-10*time.Second {
			t.Errorf("after the first failure: next in %s", wake)
		}
		compared := metav1.NewTime(began.Add(time.Minute + 10*time.Second + 2*time.Minute + 10*time.Second))
		if diff := cmp.Diff(&v1alpha1.InstanceDrift{Failure: "AWS denies ec2:DescribeInstances", NotComparedSince: &compared}, drift); diff != "" {
			t.Errorf("denied (-want +got):\n%s", diff)
		}
	})
}

// TestABusyAWS checks that the last result remains, and that AWS is queried again sooner.
func TestABusyAWS(t *testing.T) {
	as := func(*InstanceLook) {}
	synctest.Test(t, func(t *testing.T) {
		ec2, asker := &instancesAWS{}, &InstanceChecker{}
		ec2.pass(t, asker, as)
		synctest.Wait()
		for _, err := range []error{&resolve.BusyError{}, &cloud.PartialError{}} {
			ec2.err = err
			<-time.After(10 * time.Minute)
			ec2.pass(t, asker, as)
			synctest.Wait()
			if drift, wake := ec2.pass(t, asker, as); drift.Count != 1 || wake != retryBusyAfter {
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
		ec2.err, asker = &resolve.BusyError{}, &InstanceChecker{}
		as = func(l *InstanceLook) { l.Before = &v1alpha1.InstanceDrift{Count: 2} }
		for range 4 {
			look()
		}
		if drift := look(); drift.Count != 2 || !strings.HasPrefix(drift.Failure, "no complete answer since ") {
			t.Errorf("after a restart: %+v", drift)
		}
	})
}

// TestOneQuestionWithoutAnswer leaves what the others answer: instances are compared, and what is unknown stays as it was. It is
// reported, at once if AWS denies it or nothing was known before, and after half an hour if AWS is only busy.
func TestOneQuestionWithoutAnswer(t *testing.T) {
	hashes := map[string]string{awsv1.AnnotationEC2NodeClassHash: "1", awsv1.AnnotationEC2NodeClassHashVersion: "v4"}
	class := plan.NewObject(&unstructured.Unstructured{Object: map[string]any{"apiVersion": "karpenter.k8s.aws/v1", "kind": render.EC2NodeClass, "metadata": map[string]any{"name": "default"}}})
	class.SetAnnotations(hashes)
	as := func(l *InstanceLook) {
		l.Live = plan.Live{
			Objects:    map[render.Ref]*plan.Object{{Kind: render.EC2NodeClass, Name: "default"}: class},
			NodeClaims: []plan.NodeClaim{{Name: "n", Pool: "general", Class: "default", ProviderID: "aws:///a/i-1", Hashes: plan.HashesOf(hashes)}},
		}
	}
	busy, denied := error(&resolve.BusyError{Action: "some"}), errors.New("AWS denies it")
	const groups = "its security groups are , expected sg-1 from EC2NodeClass/default"
	// known is what an AWS that answers everything has found.
	known := []string{groups, "vol-1", "lt-1"}
	for name, c := range map[string]struct {
		err    error
		before bool
		after  time.Duration
		want   []string
	}{
		"busy, and nothing is known":   {err: busy, want: []string{"", "security groups of EC2NodeClass/default: AWS is not asked", "AWS is not asked", "AWS is not asked"}},
		"denied, and nothing is known": {err: denied, want: []string{"", "security groups of EC2NodeClass/default: AWS denies it", "AWS denies it", "AWS denies it"}},
		"busy for a moment":            {err: busy, before: true, after: 10 * time.Minute, want: append([]string{}, known...)},
		"busy for long":                {err: busy, before: true, after: time.Hour, want: append(slices.Clone(known), "security groups of EC2NodeClass/default: AWS is not asked", "AWS is not asked", "AWS is not asked")},
		"denied":                       {err: denied, before: true, after: 10 * time.Minute, want: append(slices.Clone(known), "security groups of EC2NodeClass/default: AWS denies it", "AWS denies it", "AWS denies it")},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ec2, asker := &instancesAWS{groups: []string{"sg-1"}, volumes: []cloud.Resource{{ID: "vol-1", Instance: "i-9"}}, behind: templates(template("lt-1", "old"))}, &InstanceChecker{}
				look := func() *v1alpha1.InstanceDrift {
					ec2.pass(t, asker, as)
					synctest.Wait()
					drift, _ := ec2.pass(t, asker, as)
					return drift
				}
				if c.before {
					look()
					<-time.After(10 * time.Minute)
					look() // what is left is found twice
				}
				ec2.ungrouped, ec2.unasked, ec2.unlisted = c.err, c.err, c.err
				<-time.After(c.after)
				drift := look()
				if drift == nil || drift.Count != 1 || !strings.Contains(drift.Instances[0].Message, "tag "+karpv1.NodePoolLabelKey+" is missing") {
					t.Fatalf("the instance is not compared: %+v", drift)
				}
				got := []string{""}
				if at := strings.Index(drift.Instances[0].Message, ofGroups); at >= 0 {
					got[0] = drift.Instances[0].Message[at:]
				}
				failures := []string{drift.Failure}
				if drift.Volumes != nil {
					for _, v := range drift.Volumes.Volumes {
						got = append(got, v.Name)
					}
					failures = append(failures, drift.Volumes.Failure)
				}
				if drift.Left != nil {
					for _, r := range drift.Left.Resources {
						got = append(got, r.ID)
					}
					failures = append(failures, drift.Left.Failure)
				}
				for _, words := range failures {
					if words, _, _ = strings.Cut(words, " for some now"); words != "" {
						got = append(got, words)
					}
				}
				if diff := cmp.Diff(c.want, got); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			})
		})
	}
}

// TestAFailedComparisonKeepsTheLastAnswer checks that what was known stays known, with the failure: otherwise one failed query
// would end each alert.
func TestAFailedComparisonKeepsTheLastAnswer(t *testing.T) {
	refuses := func(list client.ObjectList) func(*testing.T, *instancesAWS, *InstanceLook) {
		return func(t *testing.T, _ *instancesAWS, l *InstanceLook) {
			l.Reader = interceptor.NewClient(clusterOf(t, attachment("a", "gone")), interceptor.Funcs{
				List: func(ctx context.Context, c client.WithWatch, into client.ObjectList, opts ...client.ListOption) error {
					if reflect.TypeOf(into) == reflect.TypeOf(list) {
						return errors.New("refused")
					}
					return c.List(ctx, into, opts...)
				},
			})
		}
	}
	denies := func(_ *testing.T, ec2 *instancesAWS, _ *InstanceLook) { ec2.err = errors.New("refused") }
	for name, c := range map[string]struct {
		fails   func(*testing.T, *instancesAWS, *InstanceLook)
		restart bool
		want    []string
	}{
		"EC2 refuses the instances":             {fails: denies, want: []string{"refused"}},
		"the first comparison after a restart":  {fails: denies, restart: true, want: []string{"refused"}},
		"the cluster refuses the Nodes":         {fails: refuses(&metav1.PartialObjectMetadataList{}), want: []string{"list Nodes: refused"}},
		"the cluster refuses VolumeAttachments": {fails: refuses(&storagev1.VolumeAttachmentList{}), want: []string{"list VolumeAttachments: refused"}},
		"the account is not verified": {
			fails: func(_ *testing.T, _ *instancesAWS, l *InstanceLook) { l.Unverified = "the account is not verified" },
			want:  []string{"AWS is not queried: the account is not verified"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ec2, asker := &instancesAWS{volumes: []cloud.Resource{{ID: "vol-1", Instance: "i-9"}}, behind: templates(template("lt-1", "old"))}, &InstanceChecker{}
				ec2.cluster = clusterOf(t, attachment("a", "gone"))
				var before *v1alpha1.InstanceDrift
				fails := func(*testing.T, *instancesAWS, *InstanceLook) {}
				look := func() []string {
					<-time.After(10 * time.Minute)
					as := func(l *InstanceLook) {
						l.Before, l.Live = before, classed(map[string]string{"default": ""})
						fails(t, ec2, l)
					}
					ec2.pass(t, asker, as)
					synctest.Wait()
					drift, _ := ec2.pass(t, asker, as)
					if before = drift; drift == nil {
						return nil
					}
					found := ids(drift)
					for _, i := range drift.Instances {
						found = append(found, i.ID)
					}
					failure := drift.Failure
					if drift.Volumes != nil {
						for _, v := range drift.Volumes.Volumes {
							found = append(found, v.Name)
						}
						failure += drift.Volumes.Failure
					}
					if failure != "" {
						found = append(found, failure)
					}
					return found
				}
				known := []string{"lt-1", "i-1", "a", "vol-1"}
				look()
				if diff := cmp.Diff(known, look()); diff != "" { // what is left is found twice
					t.Fatalf("known (-want +got):\n%s", diff)
				}
				if fails = c.fails; c.restart {
					asker = &InstanceChecker{}
				}
				for range 2 {
					if diff := cmp.Diff(append(slices.Clone(known), c.want...), look()); diff != "" {
						t.Errorf("(-want +got):\n%s", diff)
					}
				}
				if before.Count != 1 || before.Orphaned != 1 {
					t.Errorf("%d instances differ, %d orphaned", before.Count, before.Orphaned)
				}
			})
		})
	}
}

// TestSinceWhenInstancesAreNotCompared: since the last answer, or the first query if there was none; the status keeps it over a restart.
func TestSinceWhenInstancesAreNotCompared(t *testing.T) {
	denied, busy, unverified := errors.New("AWS denies ec2:DescribeInstances"), error(&cloud.PartialError{}), errors.New("")
	for name, c := range map[string]struct {
		// answers are those of one query every ten minutes, and restart is the one before which the daemon restarts; want is after which
		// one the last comparison was, -1 if there is none to report.
		answers []error
		restart int
		want    []int
	}{
		"denied from the start":            {answers: []error{denied, denied, denied}, want: []int{0, 0, 0}},
		"denied later":                     {answers: []error{nil, nil, denied, denied}, want: []int{-1, -1, 1, 1}},
		"denied from the start, restarted": {answers: []error{denied, denied, denied}, restart: 2, want: []int{0, 0, 0}},
		"denied later, restarted":          {answers: []error{nil, denied, denied}, restart: 2, want: []int{-1, 0, 0}},
		"answered again":                   {answers: []error{denied, nil, denied}, want: []int{0, -1, 1}},
		"busy for half an hour":            {answers: []error{nil, busy, busy, busy}, want: []int{-1, -1, -1, 0}},
		"the account is not verified":      {answers: []error{nil, unverified, unverified, nil}, want: []int{-1, 0, 0, -1}},
		"and denied after that":            {answers: []error{nil, unverified, denied}, want: []int{-1, 0, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ec2, asker, asked := &instancesAWS{none: true}, &InstanceChecker{}, []time.Time{}
				var before *v1alpha1.InstanceDrift
				for i, answer := range c.answers {
					if c.restart == i && i > 0 {
						asker = &InstanceChecker{}
					}
					ec2.err, asked = answer, append(asked, time.Now())
					as := func(l *InstanceLook) {
						if l.Before = before; errors.Is(answer, unverified) {
							l.Unverified = "the account is not verified"
						}
					}
					ec2.pass(t, asker, as)
					synctest.Wait()
					before, _ = ec2.pass(t, asker, as)
					switch want := c.want[i]; {
					case want < 0 && !before.Compared():
						t.Errorf("after query %d: not compared since %s", i, before.NotComparedSince)
					case want >= 0 && (before.Compared() || !before.NotComparedSince.Equal(new(metav1.NewTime(asked[want])))):
						t.Errorf("after query %d: not compared since %v, want %s", i, before.NotComparedSince, asked[want])
					}
					<-time.After(10 * time.Minute)
				}
			})
		})
	}
}

// TestABusyAWSAfterAFailure checks that AWS is not busy without a word while no answer is known.
func TestABusyAWSAfterAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ec2, asker := &instancesAWS{err: errors.New("refused")}, &InstanceChecker{}
		look := func() *v1alpha1.InstanceDrift {
			ec2.pass(t, asker, func(*InstanceLook) {})
			synctest.Wait()
			drift, _ := ec2.pass(t, asker, func(*InstanceLook) {})
			<-time.After(10 * time.Minute)
			return drift
		}
		look()
		ec2.err, ec2.unasked, ec2.unlisted = nil, &resolve.BusyError{Action: "some"}, &resolve.BusyError{Action: "some"}
		for n := range 2 {
			if drift := look(); drift.Volumes == nil || drift.Volumes.Failure == "" || drift.Left == nil || drift.Left.Failure == "" {
				t.Errorf("%d: %+v", n, drift)
			}
		}
	})
}

// ofGroups is how the message about security groups starts.
const ofGroups = "its security groups are "

// TestGroupsDuringARollout checks that security groups that differed before it stay reported, because a braked one lasts for weeks:
// until they are corrected, and for no instance that has replaced another. A restart of the daemon changes nothing.
func TestGroupsDuringARollout(t *testing.T) {
	hashes := map[string]string{awsv1.AnnotationEC2NodeClassHash: "1", awsv1.AnnotationEC2NodeClassHashVersion: "v4"}
	class := plan.NewObject(&unstructured.Unstructured{Object: map[string]any{"apiVersion": "karpenter.k8s.aws/v1", "kind": render.EC2NodeClass, "metadata": map[string]any{"name": "default"}}})
	class.SetAnnotations(hashes)
	for name, c := range map[string]struct {
		has               []string
		replaced, restart bool
		// cut reports whether the message in the status does not have the groups, because it was too long.
		cut  bool
		want string
	}{
		"they still differ":                          {has: []string{"sg-9"}, want: "its security groups are sg-9, expected sg-1, sg-2 from EC2NodeClass/default"},
		"one was added":                              {has: []string{"sg-9", "sg-1"}, want: "its security groups are sg-1, sg-9, expected sg-1, sg-2 from EC2NodeClass/default"},
		"they are corrected":                         {has: []string{"sg-2", "sg-1"}},
		"another node has no word":                   {has: []string{"sg-9"}, replaced: true},
		"they differ, after a restart":               {has: []string{"sg-9"}, restart: true, want: "its security groups are sg-9, expected sg-1, sg-2 from EC2NodeClass/default"},
		"after a restart, the message was too long":  {has: []string{"sg-8"}, restart: true, cut: true, want: "its security groups are sg-8, expected sg-1, sg-2 from EC2NodeClass/default"},
		"they are corrected, after a restart":        {has: []string{"sg-2", "sg-1"}, restart: true},
		"they are corrected, and the message is cut": {has: []string{"sg-2", "sg-1"}, restart: true, cut: true},
		"another node, after a restart":              {has: []string{"sg-9"}, restart: true, replaced: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ec2, asker, id, rolling := &instancesAWS{groups: []string{"sg-1", "sg-2"}, has: []string{"sg-9"}}, &InstanceChecker{}, "i-1", false
				var before *v1alpha1.InstanceDrift
				look := func() (words string) {
					<-time.After(10 * time.Minute)
					as := func(l *InstanceLook) {
						l.Rolling, l.Before = rolling, before
						l.Live = plan.Live{
							Objects:    map[render.Ref]*plan.Object{{Kind: render.EC2NodeClass, Name: "default"}: class},
							NodeClaims: []plan.NodeClaim{{Name: "n", Pool: "general", Class: "default", ProviderID: "aws:///a/" + id, Hashes: plan.HashesOf(hashes)}},
						}
					}
					ec2.pass(t, asker, as)
					synctest.Wait()
					drift, _ := ec2.pass(t, asker, as)
					for _, i := range drift.Instances {
						if at := strings.Index(i.Message, ofGroups); at >= 0 && i.ID == id {
							words = i.Message[at:]
						}
					}
					if before = drift.DeepCopy(); drift.Failure != "" {
						t.Error(drift.Failure)
					}
					return words
				}
				if words := look(); words == "" {
					t.Fatal("no difference before the rollout")
				}
				if c.restart {
					asker = &InstanceChecker{}
				}
				if c.cut {
					before.Instances[0].Message = "tag a…"
				}
				rolling, ec2.has = true, c.has
				if c.replaced {
					id, ec2.id = "i-2", "i-2"
				}
				for range 2 {
					if words := look(); words != c.want {
						t.Errorf("got %q, want %q", words, c.want)
					}
				}
			})
		})
	}
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
			drift, wake := ec2.pass(t, &InstanceChecker{}, tc.change)
			if diff := cmp.Diff(tc.want, drift, cmpopts.IgnoreFields(v1alpha1.InstanceDrift{}, "NotComparedSince")); diff != "" || ec2.asked != 0 || wake != 0 {
				t.Errorf("asked %d, next in %s (-want +got):\n%s", ec2.asked, wake, diff)
			}
		})
	}
}

// TestTheFirstComparisonIsAtTheStart checks this because nothing else finds a Node whose NodeClaim was deleted while no
// daemon ran.
func TestTheFirstComparisonIsAtTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		at := metav1.NewTime(time.Now().Add(-time.Hour))
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
			Name: "leaving", Labels: map[string]string{karpv1.NodePoolLabelKey: "general"}, CreationTimestamp: at, DeletionTimestamp: &at, Finalizers: []string{karpv1.TerminationFinalizer},
		}}
		ec2, asker := &instancesAWS{none: true, cluster: clusterOf(t, node)}, &InstanceChecker{}
		_, wake := ec2.pass(t, asker, func(l *InstanceLook) { l.Before = &v1alpha1.InstanceDrift{} }) // the status contains an earlier one
		synctest.Wait()
		if left := asker.Left(); wake != checkResultAfter || len(left) != 1 || left[0].Name != "leaving" {
			t.Errorf("next in %s, terminating %+v", wake, left)
		}
	})
}

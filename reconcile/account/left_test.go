package account

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/provision/cloud/resolve"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// template returns a launch template of a class.
func template(id, class string) cloud.Resource {
	return cloud.Resource{Kind: cloud.KindLaunchTemplate, ID: id, Name: "karpenter.k8s.aws/" + id, Tags: map[string]string{"karpenter.k8s.aws/ec2nodeclass": class}}
}

// templates returns an answer with some launch templates.
func templates(some ...cloud.Resource) []cloud.Answer {
	return []cloud.Answer{{Kind: cloud.KindLaunchTemplate, Resources: some}}
}

// ids returns what is left, and the failure.
func ids(drift *v1alpha1.InstanceDrift) (found []string) {
	if drift == nil || drift.Left == nil {
		return nil
	}
	for _, r := range drift.Left.Resources {
		found = append(found, r.ID)
	}
	if drift.Left.Failure != "" {
		found = append(found, drift.Left.Failure)
	}
	return found
}

// classed returns a Live with EC2NodeClasses, each with or without an instance profile, and NodeClaims of a class.
func classed(profiles map[string]string, claims ...string) plan.Live {
	live := plan.Live{Objects: map[render.Ref]*plan.Object{}}
	for name, profile := range profiles {
		object := &unstructured.Unstructured{Object: map[string]any{}}
		object.SetUID(types.UID("uid-" + name))
		if profile != "" {
			_ = unstructured.SetNestedField(object.Object, profile, "spec", "instanceProfile")
		}
		live.Objects[render.Ref{Kind: render.EC2NodeClass, Name: name}] = plan.NewObject(object)
	}
	for _, class := range claims {
		live.NodeClaims = append(live.NodeClaims, plan.NodeClaim{Class: class})
	}
	return live
}

// TestWhatIsLeftIsSeenTwice checks that a leftover counts once it is seen a second time, soon after the first, until it
// is gone.
func TestWhatIsLeftIsSeenTwice(t *testing.T) {
	as := func(l *InstanceLook) { l.Live = classed(map[string]string{"default": ""}) }
	synctest.Test(t, func(t *testing.T) {
		ec2, asker := &instancesAWS{none: true, behind: templates(template("lt-1", "old"), template("lt-2", "default"))}, &InstanceChecker{}
		look := func(after time.Duration, want []string, next time.Duration) {
			t.Helper()
			<-time.After(after)
			ec2.pass(t, asker, as)
			synctest.Wait()
			drift, wake := ec2.pass(t, asker, as)
			if diff := cmp.Diff(want, ids(drift)); diff != "" || wake != next {
				t.Errorf("next in %s, want %s (-want +got):\n%s", wake, next, diff)
			}
		}
		look(0, nil, retryBusyAfter)
		look(retryBusyAfter, []string{"lt-1"}, 10*time.Minute)
		// one query has no response, so its last answer remains
		ec2.behind[0].Resources, ec2.behind[0].Err = nil, &cloud.DeniedError{Action: "ec2:DescribeLaunchTemplates"}
		look(10*time.Minute, []string{"lt-1", "AWS denies ec2:DescribeLaunchTemplates to plumbline's role: allow it (see manifests/iam-policy.json)"}, 10*time.Minute)
		ec2.behind = templates(template("lt-2", "default"))
		look(10*time.Minute, nil, 10*time.Minute)
		// a resource that exists only for a moment
		ec2.behind = templates(template("lt-3", "old"))
		look(10*time.Minute, nil, retryBusyAfter)
		ec2.behind = templates()
		look(retryBusyAfter, nil, 10*time.Minute)
	})
}

// TestAListThatIsDeniedConfirmsNothing checks that a leftover that was seen once counts only when it is listed again: Karpenter may be
// about to delete it. If its kind was not listed in between, the first time still counts.
func TestAListThatIsDeniedConfirmsNothing(t *testing.T) {
	as := func(l *InstanceLook) { l.Live = classed(map[string]string{"default": ""}) }
	denied := &cloud.DeniedError{Action: "ec2:DescribeLaunchTemplates"}
	const words = "AWS denies ec2:DescribeLaunchTemplates to plumbline's role: allow it (see manifests/iam-policy.json)"
	synctest.Test(t, func(t *testing.T) {
		ec2, asker := &instancesAWS{none: true, behind: templates(template("lt-1", "old"))}, &InstanceChecker{}
		look := func(what string, want ...string) {
			t.Helper()
			<-time.After(10 * time.Minute)
			ec2.pass(t, asker, as)
			synctest.Wait()
			drift, _ := ec2.pass(t, asker, as)
			if diff := cmp.Diff(want, ids(drift)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", what, diff)
			}
		}
		list := func(err error, some ...string) {
			ec2.behind = templates()
			for _, id := range some {
				ec2.behind[0].Resources = append(ec2.behind[0].Resources, template(id, "old"))
			}
			ec2.behind[0].Err = err
		}
		look("seen once")
		list(denied)
		look("its list is denied", words)
		look("and again", words)
		list(nil, "lt-1", "lt-2")
		look("seen a second time", "lt-1")
		list(denied)
		look("one is confirmed, the other is not", "lt-1", words)
		list(nil, "lt-1", "lt-2")
		look("both are seen again", "lt-1", "lt-2")
		list(nil)
		look("both are gone")
		list(nil, "lt-2")
		look("it is back, and counts as seen once")
	})
}

// TestARemovalThatIsOver checks that AWS is queried at once after a removal, and that a restart keeps what was
// reported.
func TestARemovalThatIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ec2, asker := &instancesAWS{none: true, behind: templates(template("lt-1", "old"))}, &InstanceChecker{}
		before := &v1alpha1.InstanceDrift{Left: &v1alpha1.LeftResources{Resources: []v1alpha1.LeftResource{{Kind: string(cloud.KindLaunchTemplate), ID: "lt-1"}}}}
		with := func(removals int) func(*InstanceLook) {
			return func(l *InstanceLook) { l.Removals, l.Before = removals, before }
		}
		ec2.pass(t, asker, with(1))
		synctest.Wait()
		if drift, _ := ec2.pass(t, asker, with(1)); cmp.Diff([]string{"lt-1"}, ids(drift)) != "" {
			t.Errorf("after a restart: %v", ids(drift))
		}
		<-time.After(time.Minute)
		ec2.pass(t, asker, with(0))
		synctest.Wait()
		if ec2.asked != 2 {
			t.Errorf("asked %d times", ec2.asked)
		}
	})
}

// TestProfilesAreAskedFor checks that instance profiles are queried if Karpenter may have created some, and that each
// is identified by its class.
func TestProfilesAreAskedFor(t *testing.T) {
	for name, c := range map[string]struct {
		live plan.Live
		want bool
	}{
		"no class":                        {classed(nil), true},
		"a class with a role":             {classed(map[string]string{"a": "", "b": "own"}, "a"), true},
		"classes with profiles":           {classed(map[string]string{"a": "own"}, "a"), false},
		"a NodeClaim whose class is gone": {classed(map[string]string{"a": ""}, "b"), false},
	} {
		t.Run(name, func(t *testing.T) {
			q, ec2 := &question{}, &instancesAWS{behind: templates(template("lt-1", "b"))}
			q.live(c.live)
			left := q.findLeftBehind(t.Context(), ec2)
			if ec2.profiles != c.want {
				t.Errorf("asked for profiles: %t", ec2.profiles)
			}
			if used := name != "no class" && len(left.Resources) == 0; used != q.living.Classes["b"] {
				t.Errorf("left %v, classes %v", left.Resources, q.living.Classes)
			}
		})
	}
}

// TestUnanswered checks that one sentence names all that is denied.
func TestUnanswered(t *testing.T) {
	got := unanswered([]cloud.Answer{{Err: &cloud.DeniedError{Action: "a"}}, {Err: errors.New("no answer to c")}, {Err: &cloud.DeniedError{Action: "b"}}, {}})
	if diff := cmp.Diff("AWS denies a, b to plumbline's role: allow it (see manifests/iam-policy.json); no answer to c", got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestACommandOnlyForWhatIsOurs checks that a command is included only for what an instance or an EC2NodeClass of this
// cluster has left, because another cluster may use the same tags. After a restart, the command remains for what was
// known before.
func TestACommandOnlyForWhatIsOurs(t *testing.T) {
	profile := func(id, uid string) cloud.Resource {
		return cloud.Resource{Kind: cloud.KindInstanceProfile, ID: id, Name: "/karpenter/eu-west-1/demo/" + uid + "/"}
	}
	nic := func(id, instance string) cloud.Resource {
		return cloud.Resource{Kind: cloud.KindNetworkInterface, ID: id, State: "available", Tags: map[string]string{"node.k8s.amazonaws.com/instance_id": instance}}
	}
	past := classed(map[string]string{"old": ""})
	past.NodeClaims = []plan.NodeClaim{{ProviderID: "aws:///eu-west-1a/i-00000000000000001"}}
	now := classed(map[string]string{"default": ""})
	for name, c := range map[string]struct {
		left    cloud.Resource
		foreign bool
		before  seen
		want    bool
	}{
		"the profile of a class that was here":                    {left: profile("p-1", "uid-old"), want: true},
		"the profile of a class that never was":                   {left: profile("p-2", "uid-theirs")},
		"an interface of an instance that was here":               {left: nic("eni-1", "i-00000000000000001"), want: true},
		"an interface of one that never was":                      {left: nic("eni-2", "i-00000000000000002")},
		"a template of a class that was here":                     {left: template("lt-1", "old"), want: true},
		"a template of a class that never was":                    {left: template("lt-2", "theirs")},
		"a template while instances run that are not known":       {left: template("lt-1", "old"), foreign: true},
		"what was known to be ours before the daemon was started": {left: nic("eni-3", "i-00000000000000003"), before: seen{"NetworkInterface/eni-3": {Owned: true}}, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			q := &question{before: c.before}
			q.history.note(past, time.Time{})
			q.history.note(now, time.Time{})
			if c.foreign {
				q.fleet.Shown = []cloud.Instance{{ID: "i-00000000000000009", State: "running"}}
			}
			q.live(now)
			left := q.findLeftBehind(t.Context(), &instancesAWS{behind: []cloud.Answer{{Kind: c.left.Kind, Resources: []cloud.Resource{c.left}}}})
			if len(left.Resources) != 1 {
				t.Fatalf("%+v", left)
			}
			got := left.Resources[0]
			if command := strings.Contains(got.Message, "aws "); got.Owned != c.want || command != c.want {
				t.Errorf("owned %t, want %t: %s", got.Owned, c.want, got.Message)
			}
		})
	}
}

// TestAnInstanceThatIsNotKnown checks that an unknown instance may belong to another cluster.
func TestAnInstanceThatIsNotKnown(t *testing.T) {
	f := Fleet{Cluster: "demo", Had: map[string]bool{"i-1": true}}
	if words := f.withoutClaimMessage(&cloud.Instance{ID: "i-1", State: "running"}); !strings.HasSuffix(words, "this cluster had a NodeClaim for it: if it is not needed, terminate it in EC2") {
		t.Error(words)
	}
	if words := f.withoutClaimMessage(&cloud.Instance{ID: "i-2", State: "running"}); !strings.HasSuffix(words, "find out whether another cluster has the name demo before you terminate it") {
		t.Error(words)
	}
}

// clusterOf returns a cluster with some VolumeAttachments and Nodes.
func clusterOf(t *testing.T, objects ...client.Object) client.WithWatch {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, storagev1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()
}

func attachment(name, node string, change ...func(*storagev1.VolumeAttachment)) client.Object {
	volume := "pv-" + name
	v := &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.Unix(1, 0)},
		Spec:       storagev1.VolumeAttachmentSpec{Attacher: "ebs.csi.aws.com", NodeName: node, Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &volume}},
	}
	for _, c := range change {
		c(v)
	}
	return v
}

// TestVolumesLeft checks the volumes of deleted nodes and of terminated instances.
func TestVolumesLeft(t *testing.T) {
	node := func(name string) client.Object { return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}} }
	undetached := func(v *storagev1.VolumeAttachment) {
		v.Status.DetachError = &storagev1.VolumeError{Message: "volume is busy"}
	}
	fresh := func(v *storagev1.VolumeAttachment) { v.CreationTimestamp = metav1.Now() }
	cases := map[string]struct {
		cluster []client.Object
		volumes []cloud.Resource
		unasked error
		want    []string
	}{
		"none": {},
		"of a NodeClaim, whose Node is not asked for": {cluster: []client.Object{attachment("a", "claimed")}},
		"of another node":               {cluster: []client.Object{attachment("a", "system"), node("system")}},
		"of a node that comes just now": {cluster: []client.Object{attachment("a", "gone", fresh)}},
		"of a node that is gone": {
			cluster: []client.Object{attachment("b", "gone"), attachment("a", "gone"), attachment("c", "claimed")},
			want: []string{
				"a: VolumeAttachment a still attaches PersistentVolume pv-a to node gone, which no longer exists: check whether the controller of ebs.csi.aws.com runs, and what it reports: kubectl describe volumeattachment a",
				"b: VolumeAttachment b still attaches PersistentVolume pv-b to node gone, which no longer exists: check whether the controller of ebs.csi.aws.com runs, and what it reports: kubectl describe volumeattachment b",
			},
		},
		"that its driver could not detach": {
			cluster: []client.Object{attachment("a", "gone", undetached)},
			want:    []string{"a: VolumeAttachment a still attaches PersistentVolume pv-a to node gone, which no longer exists: its driver failed to detach it: volume is busy"},
		},
		"in EC2": {
			volumes: []cloud.Resource{{ID: "vol-1", State: "in-use", Instance: "i-1", Alive: true}, {ID: "vol-2", State: "in-use", Instance: "i-2"}, {ID: "vol-3", State: "in-use", Instance: "i-3"}},
			want: []string{
				"vol-2: EBS volume vol-2 is in-use, attached to i-2, which EC2 has terminated: if it stays, aws ec2 detach-volume --volume-id vol-2",
				"vol-3: EBS volume vol-3 is in-use, attached to i-3, which EC2 has terminated: it is unknown whether this cluster had that instance: find out whether another cluster has or had the name before you detach it",
			},
		},
		"in EC2, which denies the question": {
			cluster: []client.Object{attachment("a", "gone", undetached)}, unasked: errors.New("AWS denies ec2:DescribeVolumes"),
			want: []string{
				"a: VolumeAttachment a still attaches PersistentVolume pv-a to node gone, which no longer exists: its driver failed to detach it: volume is busy",
				"failure: AWS denies ec2:DescribeVolumes",
			},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			q := &question{history: clusterHistory{instances: map[string]bool{"i-2": true}}, cluster: clusterOf(t, c.cluster...), fleet: Fleet{Claims: []plan.NodeClaim{{Node: "claimed"}}, Settled: time.Now().Add(-time.Minute)}}
			found := q.volumes(t.Context(), &instancesAWS{volumes: c.volumes, unasked: c.unasked})
			var words []string
			if found != nil {
				for _, v := range found.Volumes {
					words = append(words, v.Name+": "+v.Message)
				}
				if found.Failure != "" {
					words = append(words, "failure: "+found.Failure)
				}
			}
			if diff := cmp.Diff(c.want, words); diff != "" {
				t.Errorf("left (-want +got):\n%s", diff)
			}
		})
	}
}

// TestANodeIsAskedForOnce checks that a node is read once, however many volumes it has.
func TestANodeIsAskedForOnce(t *testing.T) {
	asked := 0
	reader := interceptor.NewClient(clusterOf(t, attachment("a", "gone"), attachment("b", "gone")), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, opts ...client.GetOption) error {
			asked++
			return c.Get(ctx, key, object, opts...)
		},
	})
	q := &question{cluster: reader, fleet: Fleet{Settled: time.Now()}}
	if found := q.volumes(t.Context(), &instancesAWS{}); found.Count != 2 || asked != 1 {
		t.Errorf("%+v, asked %d times", found, asked)
	}
}

// TestVolumesComeWithTheInstances checks that volumes are in the same result as instances, and that the last result
// remains if AWS is too busy for them.
func TestVolumesComeWithTheInstances(t *testing.T) {
	as := func(*InstanceLook) {}
	synctest.Test(t, func(t *testing.T) {
		ec2, asker := &instancesAWS{volumes: []cloud.Resource{{ID: "vol-1", Instance: "i-1"}}}, &InstanceChecker{}
		look := func() *v1alpha1.InstanceDrift {
			ec2.pass(t, asker, as)
			synctest.Wait()
			drift, _ := ec2.pass(t, asker, as)
			return drift
		}
		drift := look()
		if drift.Orphaned != 1 || drift.Volumes == nil || drift.Volumes.Count != 1 || !strings.Contains(drift.Volumes.Volumes[0].Message, "vol-1") {
			t.Errorf("%+v", drift)
		}
		ec2.volumes, ec2.unasked = nil, &resolve.BusyError{}
		<-time.After(10 * time.Minute)
		if diff := cmp.Diff(drift, look()); diff != "" {
			t.Errorf("too busy (-want +got):\n%s", diff)
		}
	})
}

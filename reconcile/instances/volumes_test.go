package instances

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
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/provision/cloud/resolve"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
)

// clusterOf has some VolumeAttachments and Nodes.
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

// TestVolumesLeft: those of nodes that are gone, and of instances that EC2 has ended.
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
				"a: VolumeAttachment a still has PersistentVolume pv-a on node gone, which is gone: see whether the controller of ebs.csi.aws.com runs, and what it says of it: kubectl describe volumeattachment a",
				"b: VolumeAttachment b still has PersistentVolume pv-b on node gone, which is gone: see whether the controller of ebs.csi.aws.com runs, and what it says of it: kubectl describe volumeattachment b",
			},
		},
		"that its driver could not detach": {
			cluster: []client.Object{attachment("a", "gone", undetached)},
			want:    []string{"a: VolumeAttachment a still has PersistentVolume pv-a on node gone, which is gone: its driver could not detach it: volume is busy"},
		},
		"in EC2": {
			volumes: []cloud.Resource{{ID: "vol-1", State: "in-use", Instance: "i-1", Alive: true}, {ID: "vol-2", State: "in-use", Instance: "i-2"}, {ID: "vol-3", State: "in-use", Instance: "i-3"}},
			want: []string{
				"vol-2: EBS volume vol-2 is in-use, attached to i-2, which EC2 has terminated: where it stays so, aws ec2 detach-volume --volume-id vol-2",
				"vol-3: EBS volume vol-3 is in-use, attached to i-3, which EC2 has terminated: nothing proves that this cluster had that instance: find out whether another cluster has the name, or had it, before you detach it",
			},
		},
		"in EC2, which denies the question": {
			cluster: []client.Object{attachment("a", "gone", undetached)}, unasked: errors.New("AWS denies ec2:DescribeVolumes"),
			want: []string{
				"a: VolumeAttachment a still has PersistentVolume pv-a on node gone, which is gone: its driver could not detach it: volume is busy",
				"failure: AWS denies ec2:DescribeVolumes",
			},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			q := &question{had: had{instances: map[string]bool{"i-2": true}}, cluster: clusterOf(t, c.cluster...), fleet: Fleet{Claims: []plan.NodeClaim{{Node: "claimed"}}, Settled: time.Now().Add(-time.Minute)}}
			found, err := q.volumes(t.Context(), &aws{volumes: c.volumes, unasked: c.unasked})
			if err != nil {
				t.Fatal(err)
			}
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

// TestANodeIsAskedForOnce, however many volumes it has.
func TestANodeIsAskedForOnce(t *testing.T) {
	asked := 0
	reader := interceptor.NewClient(clusterOf(t, attachment("a", "gone"), attachment("b", "gone")), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, opts ...client.GetOption) error {
			asked++
			return c.Get(ctx, key, object, opts...)
		},
	})
	q := &question{cluster: reader, fleet: Fleet{Settled: time.Now()}}
	if found, err := q.volumes(t.Context(), &aws{}); err != nil || found.Count != 2 || asked != 1 {
		t.Errorf("%+v, %v, asked %d times", found, err, asked)
	}
}

// TestVolumesComeWithTheInstances, and an AWS that is too busy for them leaves the last answer.
func TestVolumesComeWithTheInstances(t *testing.T) {
	as := func(*Look) {}
	synctest.Test(t, func(t *testing.T) {
		ec2, asker := &aws{volumes: []cloud.Resource{{ID: "vol-1", Instance: "i-1"}}}, &Asker{}
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

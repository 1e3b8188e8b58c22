package ebs

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	nodeName = "node-1"
	pvName   = "pvc-1"
	inUseOne = corev1.UniqueVolumeName("kubernetes.io/csi/ebs.csi.aws.com^vol-1")
)

// running returns a cluster in which one pod uses one volume, attached and mounted on one node.
func running() *view {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName, Annotations: map[string]string{kwokAnnotation: "fake"}}}
	node.Labels = map[string]string{corev1.LabelTopologyZone: "eu-west-1a"}
	node.Spec.ProviderID = "aws:///eu-west-1a/i-1"
	node.Status.VolumesInUse = []corev1.UniqueVolumeName{inUseOne}

	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db", Annotations: map[string]string{volumesAnnotation: mounted}}}
	pod.Spec.NodeName = nodeName
	pod.Spec.Volumes = []corev1.Volume{{Name: "data"}}
	pod.Spec.Volumes[0].PersistentVolumeClaim = &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}

	class := StorageClass
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "data", UID: "1"}}
	claim.Annotations = map[string]string{selectedNode: nodeName}
	claim.Spec.StorageClassName, claim.Spec.VolumeName = &class, pvName
	claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1500Mi")}

	volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: pvName, Annotations: map[string]string{provisionedBy: DriverName}}}
	volume.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: DriverName, VolumeHandle: "vol-1"}
	volume.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimDelete
	volume.Status.Phase = corev1.VolumeBound

	source := pvName
	attachment := &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: "csi-1", UID: "a", Finalizers: []string{attacherFinalizer}}}
	attachment.Spec = storagev1.VolumeAttachmentSpec{Attacher: DriverName, NodeName: nodeName}
	attachment.Spec.Source.PersistentVolumeName = &source
	attachment.Status.Attached = true
	attachment.Status.AttachmentMetadata = map[string]string{deviceKey: "/dev/xvdaa"}

	return &view{
		pods:        []*corev1.Pod{pod, systemPod(nodeApp, nodeName), systemPod(controllerApp, "system")},
		nodes:       map[string]*corev1.Node{nodeName: node},
		claims:      map[claimKey]*corev1.PersistentVolumeClaim{{"shop", "data"}: claim},
		volumes:     map[string]*corev1.PersistentVolume{pvName: volume},
		classes:     map[string]*storagev1.StorageClass{StorageClass: storageClass()},
		attachments: []*storagev1.VolumeAttachment{attachment},
		csiNodes:    map[string]*storagev1.CSINode{nodeName: csiNode(node)},
	}
}

func systemPod(app, node string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: app, Labels: map[string]string{appLabel: app}}}
	pod.Spec.NodeName = node
	pod.Status.Phase = corev1.PodRunning
	return pod
}

// steps is everything that a pass would do, by name.
type steps struct {
	Register, Request, Leftover, Attach, Release, Stuck, Usage, Mount []string
}

func stepsOf(v *view, busy bool) steps {
	var s steps
	for _, r := range registrations(v) {
		s.Register = append(s.Register, r.Node.Name)
	}
	for _, r := range requests(v) {
		s.Request = append(s.Request, r.Claim.Name+" in "+r.Zone)
	}
	for _, l := range leftovers(v) {
		s.Leftover = append(s.Leftover, l.Name)
	}
	attach, release := attachments(v, nil)
	for _, a := range attach {
		s.Attach = append(s.Attach, a.Volume+" to "+a.Instance+" as "+a.Device)
	}
	for _, a := range release {
		if a.Stuck {
			s.Stuck = append(s.Stuck, a.Volume)
		} else {
			s.Release = append(s.Release, a.Volume+" from "+a.Instance)
		}
	}
	for _, u := range usages(v, func(place) bool { return busy }) {
		s.Usage = append(s.Usage, u.Node.Name)
		for _, name := range u.InUse {
			s.Usage = append(s.Usage, string(name))
		}
	}
	for _, pod := range mountable(v) {
		s.Mount = append(s.Mount, pod.Name)
	}
	return s
}

func withoutPod(v *view, name string) {
	v.pods = slices.DeleteFunc(v.pods, func(p *corev1.Pod) bool { return p.Name == name })
}

func TestSteps(t *testing.T) {
	now := metav1.Now()
	cases := map[string]struct {
		change func(*view)
		// busy is true if a volume is still being unmounted.
		busy bool
		want steps
	}{
		"nothing to do": {change: func(*view) {}},
		"the daemonset's pod appears": {
			change: func(v *view) { delete(v.csiNodes, nodeName) },
			want:   steps{Register: []string{nodeName}},
		},
		"the daemonset's pod goes": {
			change: func(v *view) { withoutPod(v, nodeApp) },
			want:   steps{Register: []string{nodeName}},
		},
		"a claim whose pod has a node": {
			change: func(v *view) {
				v.claims[claimKey{"shop", "data"}].Spec.VolumeName = ""
				clear(v.volumes)
				v.attachments = nil
				v.nodes[nodeName].Status.VolumesInUse = nil
			},
			want: steps{Request: []string{"data in eu-west-1a"}},
		},
		"a claim without a node yet": {
			change: func(v *view) {
				claim := v.claims[claimKey{"shop", "data"}]
				claim.Spec.VolumeName, claim.Annotations = "", nil
				clear(v.volumes)
				v.attachments = nil
				v.nodes[nodeName].Status.VolumesInUse = nil
			},
		},
		"an attachment to make takes a free device": {
			change: func(v *view) {
				taken := v.attachments[0].DeepCopy()
				taken.Name, taken.UID = "csi-0", "b"
				v.attachments[0].Status = storagev1.VolumeAttachmentStatus{}
				v.attachments = append(v.attachments, taken)
			},
			want: steps{Attach: []string{"vol-1 to i-1 as /dev/xvdab"}},
		},
		"an attached volume is mounted": {
			change: func(v *view) { v.pods[0].Annotations = nil },
			want:   steps{Mount: []string{"db"}},
		},
		"no mount before the attachment": {
			change: func(v *view) {
				v.pods[0].Annotations = nil
				v.attachments[0].Status.Attached = false
			},
			want: steps{Attach: []string{"vol-1 to i-1 as /dev/xvdab"}},
		},
		"no mount without the daemonset's pod": {
			change: func(v *view) {
				v.pods[0].Annotations = nil
				withoutPod(v, nodeApp)
			},
			want: steps{Register: []string{nodeName}},
		},
		"the pod is gone: unmounted": {
			change: func(v *view) { withoutPod(v, "db") },
			want:   steps{Usage: []string{nodeName}},
		},
		"the pod is gone a moment ago: not unmounted yet": {
			change: func(v *view) { withoutPod(v, "db") },
			busy:   true,
		},
		"the pod is gone, and the daemonset's pod before it: mounted for ever": {
			change: func(v *view) {
				withoutPod(v, "db")
				withoutPod(v, nodeApp)
			},
			want: steps{Register: []string{nodeName}},
		},
		"unmounted and to be detached": {
			change: func(v *view) {
				withoutPod(v, "db")
				v.nodes[nodeName].Status.VolumesInUse = nil
				v.attachments[0].DeletionTimestamp = &now
			},
			want: steps{Release: []string{"vol-1 from i-1"}},
		},
		"to be detached while it is mounted": {
			change: func(v *view) { v.attachments[0].DeletionTimestamp = &now },
			want:   steps{Stuck: []string{"vol-1"}},
		},
		"a node without its kubelet reports nothing": {
			change: func(v *view) {
				withoutPod(v, "db")
				v.nodes[nodeName].Annotations = nil
			},
		},
		"another driver's volume is none of ours": {
			change: func(v *view) {
				v.volumes[pvName].Spec.CSI.Driver = "efs.csi.aws.com"
				v.attachments[0].Spec.Attacher = "efs.csi.aws.com"
				v.attachments[0].Status.Attached = false
				v.nodes[nodeName].Status.VolumesInUse = nil
			},
		},
		"a released volume still attached stays": {
			change: func(v *view) { v.volumes[pvName].Status.Phase = corev1.VolumeReleased },
		},
		"a released volume goes": {
			change: func(v *view) {
				v.volumes[pvName].Status.Phase = corev1.VolumeReleased
				v.attachments = nil
			},
			want: steps{Leftover: []string{pvName}},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			v := running()
			tc.change(v)
			if diff := cmp.Diff(tc.want, stepsOf(v, tc.busy)); diff != "" {
				t.Errorf("steps (-want +got):\n%s", diff)
			}
		})
	}
}

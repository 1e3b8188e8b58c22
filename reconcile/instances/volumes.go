package instances

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/provision/cloud/resolve"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
)

// pageSize is how many objects one answer of the API server has.
const pageSize = 500

// volumes finds what nodes that are gone have left attached: VolumeAttachments, and volumes in EC2.
// One of the two that cannot be read leaves the other as it is, and is named; an error says that AWS
// was too busy.
func (q *question) volumes(ctx context.Context, aws Cloud) (*v1alpha1.LeftVolumes, error) {
	var all []v1alpha1.LeftVolume
	attachments, err := q.attachments(ctx)
	for i := range attachments {
		all = append(all, ofAttachment(&attachments[i]))
	}
	attached, unasked := aws.AttachedVolumes(ctx, q.query.Cluster)
	if errors.As(unasked, new(*resolve.BusyError)) {
		return nil, unasked
	}
	for i := range attached {
		if v, left := ofVolume(&attached[i], q.had.instances[attached[i].Instance]); left {
			all = append(all, v)
		}
	}
	found := &v1alpha1.LeftVolumes{Count: int32(len(all)), Volumes: all}
	if err := errors.Join(err, unasked); err != nil {
		found.Failure = finding.Bounded(err.Error(), maxMessage)
	}
	if found.Count == 0 && found.Failure == "" {
		return nil, nil
	}
	return found, nil
}

// attachments are the VolumeAttachments whose node is gone, by name. Of the nodes of NodeClaims it
// is known that they are there; the others are asked for, each once.
func (q *question) attachments(ctx context.Context) ([]storagev1.VolumeAttachment, error) {
	gone := map[string]bool{}
	for i := range q.fleet.Claims {
		gone[q.fleet.Claims[i].Node] = false
	}
	var found []storagev1.VolumeAttachment
	for page := ""; ; {
		list := &storagev1.VolumeAttachmentList{}
		if err := q.cluster.List(ctx, list, client.Limit(pageSize), client.Continue(page)); err != nil {
			return nil, fmt.Errorf("list VolumeAttachments: %w", err)
		}
		for i := range list.Items {
			v := &list.Items[i]
			if _, known := gone[v.Spec.NodeName]; !known {
				var err error
				if gone[v.Spec.NodeName], err = q.isGone(ctx, v.Spec.NodeName); err != nil {
					return nil, err
				}
			}
			if gone[v.Spec.NodeName] && v.CreationTimestamp.Time.Before(q.fleet.Settled) {
				found = append(found, *v)
			}
		}
		if page = list.Continue; page == "" {
			slices.SortFunc(found, func(a, b storagev1.VolumeAttachment) int { return cmp.Compare(a.Name, b.Name) })
			return found, nil
		}
	}
}

// isGone says whether there is no Node of a name.
func (q *question) isGone(ctx context.Context, name string) (bool, error) {
	node := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}}
	err := q.cluster.Get(ctx, client.ObjectKey{Name: name}, node)
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("read whether node %s, which a VolumeAttachment names, is there: %w", name, err)
	}
	return apierrors.IsNotFound(err), nil
}

// ofAttachment says what is left of a node that is gone.
func ofAttachment(v *storagev1.VolumeAttachment) v1alpha1.LeftVolume {
	left := v1alpha1.LeftVolume{Name: v.Name, Driver: v.Spec.Attacher, Node: v.Spec.NodeName}
	what := "a volume"
	if name := v.Spec.Source.PersistentVolumeName; name != nil {
		left.Volume, what = *name, "PersistentVolume "+*name
	}
	does := "see whether the controller of " + v.Spec.Attacher + " runs, and what it says of it: kubectl describe volumeattachment " + v.Name
	if failed := v.Status.DetachError; failed != nil && failed.Message != "" {
		does = "its driver could not detach it: " + finding.Bounded(failed.Message, maxMessage/2)
	}
	left.Message = fmt.Sprintf("VolumeAttachment %s still has %s on node %s, which is gone: %s", v.Name, what, v.Spec.NodeName, does)
	return left
}

// ofVolume says whether a volume in EC2 is attached to an instance that has ended. owned says that this cluster is known to
// have had the instance: another cluster may have the same name, and the command is not for its volumes.
func ofVolume(v *cloud.Resource, owned bool) (v1alpha1.LeftVolume, bool) {
	if v.Alive {
		return v1alpha1.LeftVolume{}, false
	}
	does := "nothing proves that this cluster had that instance: find out whether another cluster has the name, or had it, before you detach it"
	if owned {
		does = "where it stays so, aws ec2 detach-volume --volume-id " + v.ID
	}
	return v1alpha1.LeftVolume{
		Name: v.ID, Node: v.Instance,
		Message: fmt.Sprintf("EBS volume %s is %s, attached to %s, which EC2 has terminated: %s", v.ID, v.State, v.Instance, does),
	}, true
}

// orphaned counts the instances that no NodeClaim has.
func orphaned(found []v1alpha1.DriftedInstance) int32 {
	n := int32(0)
	for _, i := range found {
		if i.NodeClaim == "" {
			n++
		}
	}
	return n
}

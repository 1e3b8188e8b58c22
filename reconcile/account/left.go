package account

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/provision/leftover"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/cluster"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// live records the live objects whose resources in AWS are in use. If each EC2NodeClass names its instance profile,
// Karpenter has created none; for a NodeClaim whose class does not exist, the profile of its instance is unknown.
func (q *question) live(live plan.Live) {
	l := leftover.Living{Classes: map[string]bool{}, UIDs: map[string]bool{}, Profiles: map[string]bool{}, Instances: map[string]bool{}}
	classes, named := 0, 0
	for ref, object := range live.Objects {
		if ref.Kind != render.EC2NodeClass {
			continue
		}
		classes++
		l.Classes[ref.Name], l.UIDs[string(object.GetUID())] = true, true
		own, _, _ := unstructured.NestedString(object.Object, "spec", "instanceProfile")
		made, _, _ := unstructured.NestedString(object.Object, "status", "instanceProfile")
		if own != "" {
			named++
		}
		l.Profiles[own], l.Profiles[made] = true, true
	}
	q.profiles = classes == 0 || named < classes
	for i := range live.NodeClaims {
		if class := live.NodeClaims[i].Class; !l.Classes[class] {
			l.Classes[class], q.profiles = true, false
		}
	}
	q.living = l
}

// findLeftBehind finds interfaces, launch templates and instance profiles of nodes and EC2NodeClasses that are gone. A
// kind that cannot be listed is named, and stays as it was answered last; so do all if AWS was too busy.
func (q *question) findLeftBehind(ctx context.Context, aws InstanceCloud) *v1alpha1.LeftResources {
	for i := range q.fleet.Shown {
		q.living.Instances[q.fleet.Shown[i].ID] = !q.fleet.Shown[i].Gone()
	}
	answers, err := aws.LeftBehind(ctx, q.query.Cluster, q.profiles)
	if err != nil {
		return q.previouslyLeft(err)
	}
	left := &v1alpha1.LeftResources{}
	q.unlisted = map[string]bool{}
	for _, answer := range answers {
		if answer.Err != nil {
			q.unlisted[string(answer.Kind)] = true
		}
	}
	if q.last.Left != nil {
		left.Resources = slices.DeleteFunc(slices.Clone(q.last.Left.Resources), func(r v1alpha1.LeftResource) bool { return !q.unlisted[r.Kind] })
	}
	left.Failure = finding.Bounded(unanswered(answers), maxMessage)
	for _, found := range leftover.OfDeleted(slices.DeleteFunc(answers, func(a cloud.Answer) bool { return a.Err != nil }), q.living) {
		owned := q.history.created(found) && (found.Kind != cloud.KindLaunchTemplate || !q.foreign()) ||
			q.before[string(found.Kind)+"/"+found.ID].Owned
		if !owned {
			q.noteUnexplained(found)
		}
		left.Resources = append(left.Resources, v1alpha1.LeftResource{
			Kind: string(found.Kind), ID: found.ID, Owned: owned, Message: finding.Bounded(leftBehindWords(found, owned), maxMessage),
		})
	}
	return left
}

// previouslyLeft is the last answer of findLeftBehind, if there is a new one of nothing.
func (q *question) previouslyLeft(err error) *v1alpha1.LeftResources {
	q.leftBehindUnasked = true
	failure := finding.Bounded(q.unanswered(err), maxMessage)
	if q.last.Left == nil && failure == "" {
		return nil
	}
	left := &v1alpha1.LeftResources{}
	if q.last.Left != nil {
		left = q.last.Left.DeepCopy()
	}
	left.Failure = cmp.Or(failure, left.Failure)
	return left
}

// foreign reports whether an instance runs that this cluster is not known to have had: another cluster may have the
// same name, and EC2NodeClasses of the same names.
func (q *question) foreign() bool {
	return slices.ContainsFunc(q.fleet.Shown, func(i cloud.Instance) bool { return !i.Gone() && !q.history.instances[i.ID] })
}

// unanswered returns what AWS denies, and what else it has not answered; empty if it has answered all.
func unanswered(answers []cloud.Answer) string {
	var denies, words []string
	for _, answer := range answers {
		var denied *cloud.DeniedError
		switch {
		case errors.As(answer.Err, &denied):
			denies = append(denies, denied.Action)
		case answer.Err != nil:
			words = append(words, answer.Err.Error())
		}
	}
	if len(denies) > 0 {
		words = append([]string{"AWS denies " + strings.Join(denies, ", ") + " to plumbline's role: allow it (see manifests/iam-policy.json)"},
			words...)
	}
	return strings.Join(words, "; ")
}

// leftBehindWords returns what is left, and how to delete it. Another cluster may have the same name, and its tags are
// the same, so the command is included only if this cluster is known to have created the resource.
func leftBehindWords(f leftover.Found, owned bool) string {
	of := ""
	if f.What != "" {
		of = " (" + f.What + ")"
	}
	if !owned {
		return fmt.Sprintf("%s %s%s: its tags have this cluster's name, but it is unknown whether this cluster created it: find out whether another cluster has or had the name before you delete it", leftover.Noun(f.Kind), f.ID, of)
	}
	does := ""
	switch f.Kind {
	case cloud.KindNetworkInterface:
		does = "aws ec2 delete-network-interface --network-interface-id " + f.ID
	case cloud.KindLaunchTemplate:
		does = "aws ec2 delete-launch-template --launch-template-id " + f.ID
	case cloud.KindInstanceProfile:
		does = "remove its role, then aws iam delete-instance-profile --instance-profile-name " + f.ID
	case cloud.KindInstance, cloud.KindVolume:
	}
	return fmt.Sprintf("%s %s%s: if it stays, %s", leftover.Noun(f.Kind), f.ID, of, does)
}

// seen are the resources that were left in the last result, by kind and ID.
type seen map[string]v1alpha1.LeftResource

// reported returns those in the status.
func reported(before *v1alpha1.InstanceDrift) seen {
	s := seen{}
	if before != nil && before.Left != nil {
		for _, r := range before.Left.Resources {
			s[r.Kind+"/"+r.ID] = r
		}
	}
	return s
}

// confirm returns those that were also in the previous result, and whether there are others: Karpenter and the CNI
// plugin delete unneeded resources a moment later. The others are remembered for the next result, and so is what was seen
// of the kinds that are unlisted now.
func (s *seen) confirm(found *v1alpha1.LeftResources, unlisted map[string]bool) (confirmed *v1alpha1.LeftResources, others bool) {
	now := maps.Clone(*s)
	maps.DeleteFunc(now, func(_ string, r v1alpha1.LeftResource) bool { return !unlisted[r.Kind] })
	confirmed = &v1alpha1.LeftResources{Failure: found.Failure}
	for _, r := range found.Resources {
		id := r.Kind + "/" + r.ID
		if now[id] = r; (*s)[id].ID == "" {
			others = true
			continue
		}
		confirmed.Resources = append(confirmed.Resources, r)
	}
	*s = now
	if confirmed.Count = int32(len(confirmed.Resources)); confirmed.Count == 0 && confirmed.Failure == "" {
		return nil, others
	}
	return confirmed, others
}

// pageSize is how many objects one LIST returns.
const pageSize = 500

// volumes finds what nodes that are gone have left attached: VolumeAttachments, and volumes in EC2; nil if there is none.
// One of the two that cannot be read leaves the other as it is, is named, and stays as it was answered last.
func (q *question) volumes(ctx context.Context, aws InstanceCloud) *v1alpha1.LeftVolumes {
	var all []v1alpha1.LeftVolume
	last := cmp.Or(q.last.Volumes, &v1alpha1.LeftVolumes{})
	attachments, err := q.attachments(ctx)
	if err != nil {
		all = volumesOf(last, false)
	}
	for i := range attachments {
		all = append(all, ofAttachment(&attachments[i]))
	}
	attached, unasked := aws.AttachedVolumes(ctx, q.query.Cluster)
	if unasked != nil {
		all = append(all, volumesOf(last, true)...)
		if q.unanswered(unasked) == "" && last.Failure == "" {
			unasked = nil
		}
	}
	for i := range attached {
		if v, left := ofVolume(&attached[i], q.history.instances[attached[i].Instance]); left {
			all = append(all, v)
		}
	}
	found := &v1alpha1.LeftVolumes{Count: int32(len(all)), Volumes: all}
	if err := errors.Join(err, unasked); err != nil {
		found.Failure = finding.Bounded(err.Error(), maxMessage)
	}
	if found.Count == 0 && found.Failure == "" {
		return nil
	}
	return found
}

// volumesOf returns the volumes in EC2 of an answer, or its VolumeAttachments: only these have a driver.
func volumesOf(answer *v1alpha1.LeftVolumes, inEC2 bool) (some []v1alpha1.LeftVolume) {
	for _, v := range answer.Volumes {
		if (v.Driver == "") == inEC2 {
			some = append(some, v)
		}
	}
	return some
}

// attachments returns the VolumeAttachments whose node does not exist, by name. The nodes of NodeClaims are known to
// exist; each other node is read once.
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
				if gone[v.Spec.NodeName], err = cluster.NodeGone(ctx, q.cluster, v.Spec.NodeName); err != nil {
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

// ofAttachment returns what is left of a deleted node.
func ofAttachment(v *storagev1.VolumeAttachment) v1alpha1.LeftVolume {
	left := v1alpha1.LeftVolume{Name: v.Name, Driver: v.Spec.Attacher, Node: v.Spec.NodeName}
	what := "a volume"
	if name := v.Spec.Source.PersistentVolumeName; name != nil {
		left.Volume, what = *name, "PersistentVolume "+*name
	}
	does := "check whether the controller of " + v.Spec.Attacher + " runs, and what it reports: kubectl describe volumeattachment " + v.Name
	if failed := v.Status.DetachError; failed != nil && failed.Message != "" {
		does = "its driver failed to detach it: " + finding.Bounded(failed.Message, maxMessage/2)
	}
	left.Message = fmt.Sprintf("VolumeAttachment %s still attaches %s to node %s, which no longer exists: %s",
		v.Name, what, v.Spec.NodeName, does)
	return left
}

// ofVolume reports whether a volume in EC2 is attached to a terminated instance. owned reports whether this cluster is
// known to have had the instance: another cluster may have the same name, and the command must not be applied to its
// volumes.
func ofVolume(v *cloud.Resource, owned bool) (v1alpha1.LeftVolume, bool) {
	if v.Alive {
		return v1alpha1.LeftVolume{}, false
	}
	does := "it is unknown whether this cluster had that instance: find out whether another cluster has or had the name before you detach it"
	if owned {
		does = "if it stays, aws ec2 detach-volume --volume-id " + v.ID
	}
	return v1alpha1.LeftVolume{
		Name: v.ID, Node: v.Instance,
		Message: fmt.Sprintf("EBS volume %s is %s, attached to %s, which EC2 has terminated: %s", v.ID, v.State, v.Instance, does),
	}, true
}

// orphaned returns the number of instances without a NodeClaim.
func orphaned(found []v1alpha1.DriftedInstance) int32 {
	n := int32(0)
	for _, i := range found {
		if i.NodeClaim == "" {
			n++
		}
	}
	return n
}

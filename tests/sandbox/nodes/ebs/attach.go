package ebs

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// attacherFinalizer keeps a VolumeAttachment until the volume is detached.
	attacherFinalizer = "external-attacher/ebs-csi-aws-com"
	// deviceKey is the driver's record of the device in an attachment's metadata.
	deviceKey = "devicePath"
)

// attachment is a VolumeAttachment and what it stands for in EC2.
type attachment struct {
	Object           *storagev1.VolumeAttachment
	Instance, Volume string
	// Device is a free device of the node, if the attachment is to be created.
	Device string
	// Stuck is true if the node's operating system still has the volume mounted, so that EC2 would call it busy.
	Stuck bool
}

// attachments returns those of this driver: those to create, and those to release. The view may not contain yet what
// was done already.
func attachments(v *view, done map[string]attachment) (attach, release []attachment) {
	taken := devices(v, done)
	for _, object := range v.attachments {
		if object.Spec.Attacher != DriverName || object.Spec.Source.PersistentVolumeName == nil {
			continue
		}
		a := attachment{Object: object}
		volume, node := v.ours(*object.Spec.Source.PersistentVolumeName), v.nodes[object.Spec.NodeName]
		if volume != nil {
			a.Volume = volume.Spec.CSI.VolumeHandle
		}
		if node != nil {
			a.Instance = instanceOf(node)
		}
		if object.DeletionTimestamp != nil {
			if slices.Contains(object.Finalizers, attacherFinalizer) {
				a.Stuck = node != nil && volume != nil && slices.Contains(node.Status.VolumesInUse, inUse(volume))
				release = append(release, a)
			}
			continue
		}
		if !object.Status.Attached && volume != nil && node != nil {
			a.Device = freeDevice(taken[node.Name])
			taken[node.Name] = append(taken[node.Name], a.Device)
			attach = append(attach, a)
		}
	}
	return attach, release
}

// devices returns those that each node has in use.
func devices(v *view, done map[string]attachment) map[string][]string {
	taken := map[string][]string{}
	for _, a := range done {
		taken[a.Object.Spec.NodeName] = append(taken[a.Object.Spec.NodeName], a.Device)
	}
	for _, a := range v.attachments {
		if device := a.Status.AttachmentMetadata[deviceKey]; device != "" {
			taken[a.Spec.NodeName] = append(taken[a.Spec.NodeName], device)
		}
	}
	return taken
}

// freeDevice returns the first name of /dev/xvdaa … /dev/xvdaz that is not in use; a node has no more volumes than
// that.
func freeDevice(taken []string) string {
	for letter := 'a'; letter <= 'z'; letter++ {
		if device := "/dev/xvda" + string(letter); !slices.Contains(taken, device) {
			return device
		}
	}
	return ""
}

// attach does the external attacher's work.
func (d *Driver) attach(ctx context.Context, v *view) error {
	wanted, unwanted := attachments(v, d.attached)
	var errs []error
	for _, a := range wanted {
		if err := d.attachOne(ctx, a); err != nil {
			errs = append(errs, fmt.Errorf("attach %s to %s: %w", a.Volume, a.Instance, err))
		}
	}
	for _, a := range unwanted {
		if err := d.release(ctx, a); err != nil {
			errs = append(errs, fmt.Errorf("detach %s from %s: %w", a.Volume, a.Instance, err))
		}
	}
	return errors.Join(errs...)
}

// attachOne writes the finalizer before it attaches, so that every attached volume is detached later.
func (d *Driver) attachOne(ctx context.Context, a attachment) error {
	api := d.client.StorageV1().VolumeAttachments()
	object := a.Object.DeepCopy()
	if !slices.Contains(object.Finalizers, attacherFinalizer) {
		object.Finalizers = append(object.Finalizers, attacherFinalizer)
		var err error
		if object, err = api.Update(ctx, object, metav1.UpdateOptions{}); err != nil {
			return fmt.Errorf("write the finalizer: %w", err)
		}
	}
	done, known := d.attached[string(object.UID)]
	if !known {
		if err := d.cloud.AttachVolume(a.Instance, a.Volume, a.Device); err != nil {
			return d.report(ctx, object, err)
		}
		done = a
		d.attached[string(object.UID)] = done
	}
	object.Status = storagev1.VolumeAttachmentStatus{
		Attached:           true,
		AttachmentMetadata: map[string]string{deviceKey: done.Device},
	}
	if _, err := api.UpdateStatus(ctx, object, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("write the status: %w", err)
	}
	return nil
}

// report writes an error of EC2 to where people look for it.
func (d *Driver) report(ctx context.Context, object *storagev1.VolumeAttachment, cause error) error {
	if object.Status.AttachError != nil && object.Status.AttachError.Message == cause.Error() {
		return cause
	}
	object.Status.AttachError = &storagev1.VolumeError{Time: metav1.Now(), Message: cause.Error()}
	_, err := d.client.StorageV1().VolumeAttachments().UpdateStatus(ctx, object, metav1.UpdateOptions{})
	return errors.Join(cause, err)
}

// release detaches a volume that the node has released, or whose instance is gone, and then removes the finalizer.
func (d *Driver) release(ctx context.Context, a attachment) error {
	done, known := d.attached[string(a.Object.UID)]
	if known {
		a.Instance, a.Volume = done.Instance, done.Volume
	}
	alive := a.Instance != "" && !d.gone(a.Instance)
	if alive && a.Stuck {
		return nil // a change of the node's status wakes the driver
	}
	if alive && a.Volume != "" && (known || a.Object.Status.Attached) {
		if err := d.cloud.DetachVolume(a.Instance, a.Volume); err != nil && !d.gone(a.Instance) {
			return err
		}
		delete(d.attached, string(a.Object.UID))
	}
	object := a.Object.DeepCopy()
	object.Finalizers = slices.DeleteFunc(object.Finalizers, func(f string) bool { return f == attacherFinalizer })
	if _, err := d.client.StorageV1().VolumeAttachments().Update(ctx, object, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("take the finalizer off: %w", err)
	}
	return nil
}

// attachedTo reports whether a volume is attached to a node, according to the attacher's status.
func (v *view) attachedTo(node string, volume *corev1.PersistentVolume) bool {
	return slices.ContainsFunc(v.attachments, func(a *storagev1.VolumeAttachment) bool {
		return a.Spec.NodeName == node && a.Status.Attached && a.DeletionTimestamp == nil &&
			a.Spec.Source.PersistentVolumeName != nil && *a.Spec.Source.PersistentVolumeName == volume.Name
	})
}

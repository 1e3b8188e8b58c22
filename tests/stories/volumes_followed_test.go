package stories_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"

	"github.com/plumbline-dev/plumbline/tests/stories/workload"
)

// followedVolumes are the volumes of claims, and what happens to them while pods move.
type followedVolumes struct {
	client kubernetes.Interface

	mu sync.Mutex
	// volumes are the initial PersistentVolumes by their claims, and handles the EBS volumes behind them.
	volumes, handles map[string]string
	// at are the nodes that a PersistentVolume is attached to, by VolumeAttachment.
	at map[string]map[string]string
	// ends is when the pod of a PersistentVolume started to terminate, and took the time from then until the volume was
	// attached to another node.
	ends  map[string]time.Time
	took  map[string]time.Duration
	wrong []error
}

// followVolumes records the volumes, and watches them until the story ends.
func followVolumes(ctx context.Context, client kubernetes.Interface) (*followedVolumes, error) {
	f := &followedVolumes{client: client, at: map[string]map[string]string{}, ends: map[string]time.Time{}, took: map[string]time.Duration{}}
	var err error
	if f.volumes, f.handles, err = f.claimed(ctx); err != nil {
		return nil, err
	}
	attachments, err := client.StorageV1().VolumeAttachments().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for i := range attachments.Items {
		f.attachment(watch.Event{Type: watch.Added, Object: &attachments.Items[i]})
	}
	follow := func(what string, watching watch.Interface, err error, note func(watch.Event)) error {
		if err != nil {
			return fmt.Errorf("watch the %s: %w", what, err)
		}
		go func() {
			defer watching.Stop()
			for event := range watching.ResultChan() {
				f.mu.Lock()
				note(event)
				f.mu.Unlock()
			}
			if ctx.Err() == nil {
				f.fail("the watch of the %s has ended", what)
			}
		}()
		return nil
	}
	watching, err := client.StorageV1().VolumeAttachments().Watch(ctx, metav1.ListOptions{ResourceVersion: attachments.ResourceVersion})
	if err := follow("VolumeAttachments", watching, err, f.attachment); err != nil {
		return nil, err
	}
	watching, err = client.CoreV1().Pods(workload.Namespace).Watch(ctx, metav1.ListOptions{})
	return f, follow("Pods", watching, err, f.pod)
}

// claimed returns the PersistentVolumes by their claims, and their handles.
func (f *followedVolumes) claimed(ctx context.Context) (volumes, handles map[string]string, err error) {
	list, err := f.client.CoreV1().PersistentVolumes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, nil, err
	}
	volumes, handles = map[string]string{}, map[string]string{}
	for i := range list.Items {
		if v := &list.Items[i]; v.Spec.ClaimRef != nil && v.Spec.CSI != nil {
			volumes[v.Spec.ClaimRef.Name], handles[v.Name] = v.Name, v.Spec.CSI.VolumeHandle
		}
	}
	return volumes, handles, nil
}

// attachment records where a volume is attached: from when its driver has attached it until the VolumeAttachment is
// gone.
func (f *followedVolumes) attachment(event watch.Event) {
	a, is := event.Object.(*storagev1.VolumeAttachment)
	if !is || a.Spec.Source.PersistentVolumeName == nil {
		return
	}
	volume := *a.Spec.Source.PersistentVolumeName
	if e := a.Status.AttachError; e != nil {
		f.wrong = append(f.wrong, fmt.Errorf("volume %s to %s: %s", volume, a.Spec.NodeName, e.Message))
	}
	if event.Type == watch.Deleted {
		delete(f.at[volume], a.Name)
		return
	}
	if _, known := f.at[volume][a.Name]; known || !a.Status.Attached {
		return
	}
	if f.at[volume] == nil {
		f.at[volume] = map[string]string{}
	}
	f.at[volume][a.Name] = a.Spec.NodeName
	if len(f.at[volume]) > 1 {
		f.wrong = append(f.wrong, fmt.Errorf("volume %s is attached to %v at a time", volume, slices.Sorted(maps.Values(f.at[volume]))))
	}
	if began, ended := f.ends[volume]; ended {
		f.took[volume] = time.Since(began)
	}
}

// pod records when a pod with a volume starts to terminate.
func (f *followedVolumes) pod(event watch.Event) {
	pod, is := event.Object.(*corev1.Pod)
	if !is || pod.DeletionTimestamp == nil {
		return
	}
	for _, in := range pod.Spec.Volumes {
		if in.PersistentVolumeClaim == nil {
			continue
		}
		volume := f.volumes[in.PersistentVolumeClaim.ClaimName]
		if _, noted := f.ends[volume]; volume != "" && !noted {
			f.ends[volume] = time.Now()
		}
	}
}

func (f *followedVolumes) fail(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.wrong = append(f.wrong, fmt.Errorf(format, args...))
}

// moved returns how long each of the volumes took to move to another node. It returns an error if their number is not
// n, or if one was lost, replaced or attached twice.
func (f *followedVolumes) moved(ctx context.Context, n int) (map[string]time.Duration, error) {
	volumes, handles, err := f.claimed(ctx)
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	wrong := f.wrong
	if !maps.Equal(volumes, f.volumes) || !maps.Equal(handles, f.handles) {
		wrong = append(wrong, fmt.Errorf("the volumes were %v, and are %v", f.handles, handles))
	}
	if len(f.took) != n {
		wrong = append(wrong, fmt.Errorf("%d volumes were attached to another node, want %d", len(f.took), n))
	}
	return maps.Clone(f.took), errors.Join(wrong...)
}

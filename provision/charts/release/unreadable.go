package release

import (
	"context"
	"errors"
	"fmt"

	helmrelease "helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/storage/driver"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/metadata"
)

// A revision's Secret may be cut off, by a person or a tool that restores backups.
// Helm skips it when it looks for the last revision, creates the next
// under the same name, and fails for ever because that name is taken. Asked for it
// by number it panics (pkg/storage/driver/secrets.go, Get).

// readable are the revisions of a release that Helm can read, in no order.
func (h *helm) readable(name string) ([]*helmrelease.Release, error) {
	history, err := h.config.Releases.History(name)
	if errors.Is(err, driver.ErrReleaseNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the revisions of helm release %s: %w", name, err)
	}
	return history, nil
}

// newest is the last of some revisions; nil where there is none.
func newest(history []*helmrelease.Release) *helmrelease.Release {
	var last *helmrelease.Release
	for _, one := range history {
		if last == nil || one.Version > last.Version {
			last = one
		}
	}
	return last
}

// lastReadable is the newest revision of a release that Helm can read; 0 where it
// can read none.
func (i *Installer) lastReadable(t task) (int, error) {
	helm, err := newHelm(i.config, t.namespace, i.options.Logger)
	if err != nil {
		return 0, err
	}
	history, err := helm.readable(t.Name)
	if last := newest(history); last != nil {
		return last.Version, err
	}
	return 0, err
}

// discard deletes the Secrets of the revisions that Helm cannot read, from after
// the last that it can up to the last there is. They contain nothing that could be used.
func (i *Installer) discard(ctx context.Context, t task, r Release) error {
	for revision := r.Readable + 1; revision <= r.Revision; revision++ {
		name := recordName(t.Name, revision)
		i.options.Logger.Info("deleting a revision of a helm release that cannot be read", "secret", name, "namespace", t.namespace)
		if err := i.records(t.namespace).Delete(ctx, name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("delete secret %s/%s, which cannot be read: %w", t.namespace, name, err)
		}
	}
	return nil
}

// records are the Secrets of a namespace, in which Helm keeps its revisions.
func (i *Installer) records(namespace string) metadata.ResourceInterface {
	return i.objects.Resource(corev1.SchemeGroupVersion.WithResource("secrets")).Namespace(namespace)
}

// recordName is the Secret in which Helm keeps a revision of a release.
func recordName(release string, revision int) string {
	return fmt.Sprintf("sh.helm.release.v1.%s.v%d", release, revision)
}

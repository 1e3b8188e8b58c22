package evaluate

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/fault"
	"github.com/plumbline-dev/plumbline/reconcile/upgrade"
	"github.com/plumbline-dev/plumbline/render"
)

// Configure reads plumbline.yaml and refuses a commit that changes what the first install has fixed. A commit whose
// files took too long to read is not read again for a while.
func (s *DesiredStep) Configure(ctx context.Context) error {
	if err := s.slowRecently(s.readKey()); err != nil {
		return err
	}
	return s.tooSlow(s.readKey(), s.configure(ctx))
}

func (s *DesiredStep) configure(ctx context.Context) error {
	karpenter, err := render.ReadKarpenter(*s.Snapshot, s.Sync.Spec.Path)
	if err != nil {
		return err
	}
	if s.Renamed, err = CheckFixed(s.Sync.Status.Karpenter, karpenter); err != nil {
		return err
	}
	if err := CheckNamespace(karpenter.Namespace, s.KarpenterNamespaces); err != nil {
		return err
	}
	if karpenter.Management == render.Managed {
		if err := s.soleManager(ctx); err != nil {
			return err
		}
	}
	s.Karpenter, s.Files = karpenter, render.NewFiles(*s.Snapshot)
	s.FileValues, err = karpenter.ReadValues(s.Files, s.Sync.Spec.Path)
	return err
}

// CheckNamespace refuses a namespace of Karpenter in which the daemon may not read. If served is empty, all are
// allowed.
func CheckNamespace(namespace string, served []string) error {
	if len(served) == 0 || slices.Contains(served, namespace) {
		return nil
	}
	return fault.Refused(fmt.Errorf("refused: namespace is %q, but the daemon reads Karpenter's objects only in %s: set karpenterNamespace in the values of plumbline's chart, "+
		"or without Helm --karpenter-namespaces, and move the Role plumbline-karpenter there", namespace, strings.Join(served, ", ")))
}

// soleManager checks that only one NodeSync manages the charts of a cluster: two would each install their own version
// over the other's, again and again. Before a first install it bypasses the cache: two NodeSyncs may start in the same
// instant.
func (s *DesiredStep) soleManager(ctx context.Context) error {
	reader := s.Cached
	if !installs(s.Sync) {
		reader = s.Uncached
	}
	all := &v1alpha1.NodeSyncList{}
	if err := reader.List(ctx, all, client.InNamespace(s.Sync.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("read the NodeSyncs: %w", err)
	}
	return CheckManager(all.Items, s.Sync)
}

// CheckManager refuses a NodeSync that would manage the charts if another one already does.
func CheckManager(all []v1alpha1.NodeSync, sync *v1alpha1.NodeSync) error {
	for i := range all {
		other := &all[i]
		if k := other.Status.Karpenter; k == nil || k.Management != string(render.Managed) || other.UID == sync.UID || !comesBefore(other, sync) {
			continue
		}
		return fault.Conflict(fmt.Errorf(
			"NodeSync %s/%s already installs Karpenter's charts: set management: External in the plumbline.yaml of this NodeSync, or delete the other one", other.Namespace, other.Name))
	}
	return nil
}

// installs reports whether a NodeSync has installed a chart.
func installs(sync *v1alpha1.NodeSync) bool {
	k := sync.Status.Karpenter
	return k != nil && (k.CRDs != nil || k.Controller != nil)
}

// comesBefore reports whether a, and not b, manages the charts: the one that has installed them, else the older one.
func comesBefore(a, b *v1alpha1.NodeSync) bool {
	if installs(a) != installs(b) {
		return installs(a)
	}
	if a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.Name < b.Name
	}
	return a.CreationTimestamp.Before(&b.CreationTimestamp)
}

// FixedError reports that a commit changes what the first install has fixed.
type FixedError struct {
	Field, From, To, Why string
}

// Error names the field and what would happen.
func (e *FixedError) Error() string {
	return fmt.Sprintf("refused: the first install fixed %s to %q, but the commit has %q: %s", e.Field, e.From, e.To, e.Why)
}

// CheckFixed refuses changes to what the first install has fixed. A cluster name that AWS has never confirmed may be
// corrected to one that AWS confirms: otherwise the name copied from another cluster could never be changed. renamed is
// the error for that correction.
func CheckFixed(k *v1alpha1.KarpenterStatus, wanted *render.Karpenter) (renamed, refused error) {
	err := fixedCluster(k, wanted)
	if err != nil && k.ClusterARN == "" {
		renamed, err = err, nil
	}
	if err == nil {
		err = fixedInstall(k, wanted)
	}
	if err != nil {
		return renamed, fault.Refused(err)
	}
	return renamed, nil
}

// fixedCluster compares the cluster in plumbline.yaml with the one that nodes were created for. Before charts are
// installed there are no nodes, unless another tool installs Karpenter.
func fixedCluster(k *v1alpha1.KarpenterStatus, wanted *render.Karpenter) error {
	if k == nil || !upgrade.Begun(k) && k.Management == string(render.Managed) {
		return nil
	}
	return moved(
		FixedError{"cluster.name", k.Cluster, wanted.Cluster.Name, "Karpenter would no longer find the nodes that it created"},
		FixedError{"cluster.region", k.Region, wanted.Cluster.Region, "Karpenter would no longer find the nodes that it created"},
	)
}

// fixedInstall compares plumbline.yaml with what was installed.
func fixedInstall(k *v1alpha1.KarpenterStatus, wanted *render.Karpenter) error {
	if k == nil || !upgrade.Begun(k) {
		return nil
	}
	return moved(
		FixedError{"management", k.Management, string(wanted.Management), "the charts would change their owner"},
		FixedError{"namespace", k.Namespace, wanted.Namespace, "a second controller would be installed"},
	)
}

// moved returns the first field that has changed; nil if none has.
func moved(fields ...FixedError) error {
	for _, f := range fields {
		if f.From != f.To {
			return &f
		}
	}
	return nil
}

// Fixed returns the status of Karpenter with what a first install is about to fix. Until charts are installed, a commit
// may still hand them over to another tool, or change where they are.
func (d *Desired) Fixed(k *v1alpha1.KarpenterStatus) *v1alpha1.KarpenterStatus {
	wanted := &v1alpha1.KarpenterStatus{
		Management: string(d.Karpenter.Management),
		Namespace:  d.Karpenter.Namespace,
		Cluster:    d.Karpenter.Cluster.Name,
		Region:     d.Karpenter.Cluster.Region,
	}
	switch {
	case k == nil, !upgrade.Begun(k) && (k.Management != wanted.Management || k.Namespace != wanted.Namespace || k.Cluster != wanted.Cluster || k.Region != wanted.Region):
		return wanted
	case d.Renamed != nil:
		k.Cluster, k.Region = wanted.Cluster, wanted.Region
	}
	return k
}

// CheckRename refuses a new name of the cluster, unless AWS has verified it.
func (d *Desired) CheckRename(verified bool) error {
	if d.Renamed == nil || verified {
		return nil
	}
	return fault.Refused(d.Renamed)
}

// InForce returns an error that says why the charts are not changed, and what continues meanwhile.
func (d *Desired) InForce(why error) error {
	return fmt.Errorf("%w; definitions are still applied under Karpenter %s, which is in force", why, d.Serving)
}

// Prepare does what takes longest in a first reconcile while that reconcile still waits for the watch caches: it
// compiles the schema and renders. It leaves the rendered sources, which the reconcile uses if they and the schema have
// not changed; the reconcile finds everything else by itself. It runs once, and writes nothing.
func (s *DesiredStep) Prepare(ctx context.Context) error {
	if s.Memory.prepared || s.Memory.Set != nil {
		return nil
	}
	s.Memory.prepared = true
	if err := s.Configure(ctx); err != nil {
		return err
	}
	if err := s.Resolve(ctx); err != nil {
		return err
	}
	if s.Charts != nil {
		if err := s.UseSchema(ctx); err != nil {
			return err
		}
	}
	_, err := s.renderAll(ctx)
	return s.tooSlow(s.renderKey(), err)
}

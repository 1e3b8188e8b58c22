package upgrade

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/reconcile/observe"
)

// clocksDiffer is by how much the clock of the controller's node may differ from
// ours at the first look. Later ones go by whether the lease has been renewed in between.
const clocksDiffer = time.Minute

// Renewal is the newest renewal of the lease, by the clock of the controller's node, and when
// it was seen, by ours. The zero value has seen none.
type Renewal struct {
	renewed, seen time.Time
	// watched says that the one before was seen, too.
	watched bool
}

// Alive says whether a pod of Karpenter's controller does the controller's work
// at this moment, as the API server has it: it holds the lease, renews it, and is
// Ready. Where leader election is off, it is the only one that is Ready. A
// Deployment tells of a pod that is gone only after a while. last is what it has seen before, and
// is kept for the next time.
func Alive(ctx context.Context, reader client.Reader, namespace string, deployments []appsv1.Deployment, now time.Time, last *Renewal) (observe.Readiness, error) {
	pods := &corev1.PodList{}
	if err := reader.List(ctx, pods, client.InNamespace(namespace), client.MatchingLabels(observe.ControllerLabels())); err != nil {
		return observe.Readiness{}, fmt.Errorf("read the pods of Karpenter's controller in %s: %w", namespace, err)
	}
	ready := slices.DeleteFunc(pods.Items, func(pod corev1.Pod) bool { return !podReady(&pod) })
	if len(ready) == 0 {
		return observe.Readiness{Message: "no pod of Karpenter's controller in " + namespace + " is Ready"}, nil
	}
	off, err := ElectionOff(ctx, reader, deployments)
	switch {
	case err != nil:
		return observe.Readiness{}, err
	case off && len(ready) == 1:
		return observe.Readiness{Ready: true}, nil
	case off:
		return observe.Readiness{Message: "leader election of Karpenter's controller is off, and more than one pod of it runs: set values.replicas to 1, or leave the election on"}, nil
	}
	lease := &coordinationv1.Lease{}
	err = reader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: leaseName}, lease)
	if client.IgnoreNotFound(err) != nil {
		return observe.Readiness{}, fmt.Errorf("read lease %s/%s: %w", namespace, leaseName, err)
	}
	return holds(lease, ready, now, last), nil
}

// holds says whether one of the ready pods holds a lease that is renewed.
func holds(lease *coordinationv1.Lease, ready []corev1.Pod, now time.Time, last *Renewal) observe.Readiness {
	if lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "" {
		return observe.Readiness{Message: "no pod of Karpenter's controller holds lease " + leaseName}
	}
	holder, _, _ := strings.Cut(*lease.Spec.HolderIdentity, "_") // client-go: <host name>_<UUID>
	if podOn(ready, holder) == nil {
		return observe.Readiness{Message: fmt.Sprintf("lease %s is held by %s, which is not a Ready pod of Karpenter's controller", leaseName, holder)}
	}
	if lease.Spec.RenewTime == nil || !last.fresh(lease, now) {
		return observe.Readiness{Message: fmt.Sprintf("pod %s holds lease %s and does not renew it", holder, leaseName)}
	}
	return observe.Readiness{Ready: true}
}

// fresh says whether a lease is renewed. The clock of the controller's node may be far from ours,
// on either side: a lease that was renewed since a look of a moment ago is fresh, whatever the
// time of that, and one that has stood for longer than it lasts is not.
func (r *Renewal) fresh(lease *coordinationv1.Lease, now time.Time) bool {
	lasts := time.Duration(0)
	if lease.Spec.LeaseDurationSeconds != nil {
		lasts = time.Duration(*lease.Spec.LeaseDurationSeconds) * time.Second
	}
	renewed := lease.Spec.RenewTime.Time
	young := now.Sub(renewed) <= lasts+clocksDiffer
	switch since := now.Sub(r.seen); {
	case r.seen.IsZero(), since < 0, since > lasts+clocksDiffer && !renewed.Equal(r.renewed):
		*r = Renewal{renewed: renewed, seen: now}
		return young
	case !renewed.Equal(r.renewed):
		*r = Renewal{renewed: renewed, seen: now, watched: true}
		return true
	default:
		return since <= lasts && (young || r.watched)
	}
}

func podReady(pod *corev1.Pod) bool {
	if pod.DeletionTimestamp != nil {
		return false
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// ElectionOff reports whether a Deployment of the controller runs without leader
// election (sigs.k8s.io/karpenter pkg/operator/options/options.go). The cache
// keeps no pod template.
func ElectionOff(ctx context.Context, reader client.Reader, deployments []appsv1.Deployment) (bool, error) {
	for i := range deployments {
		whole := &appsv1.Deployment{}
		if err := reader.Get(ctx, client.ObjectKeyFromObject(&deployments[i]), whole); err != nil {
			return false, fmt.Errorf("read deployment/%s: %w", deployments[i].Name, err)
		}
		if electsNone(whole) {
			return true, nil
		}
	}
	return false, nil
}

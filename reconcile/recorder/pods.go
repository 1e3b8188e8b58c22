package recorder

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The pods of so many nodes are counted at once, and so many a second: of more that end together the
// others have no number. Each is a request of its own, and Karpenter ends few a second for long.
const (
	countsBurst = 100
	countsRate  = rate.Limit(5)
)

const (
	// countsFor is how long after the deletion began pods are counted: those that have stopped by
	// then are not there.
	countsFor = 10 * time.Second
	// countsWithin bounds what a look spends on it: nothing waits for a number.
	countsWithin = 2 * time.Second
)

// countFirst counts what is new before the next look, as pods are gone soon.
func (r *Recorder) countFirst(ctx context.Context) {
	all, _ := r.snapshot()
	r.countPods(ctx, all, r.Now())
	r.keep(all)
}

// countPods counts the pods on nodes whose end has just begun. Where the API server does not answer
// there is no number, until it does.
func (r *Recorder) countPods(ctx context.Context, all map[types.UID]ending, now time.Time) {
	ctx, stop := context.WithTimeout(ctx, countsWithin)
	defer stop()
	for uid, e := range all {
		if !r.mayCount(e, now) || !r.counts.AllowN(now, 1) {
			continue
		}
		pods, err := r.podsOn(ctx, e.facts)
		if err != nil {
			ctrl.LoggerFrom(ctx).V(1).Info("the pods of nodes that end are not counted", "error", err.Error())
			return
		}
		e.facts.Pods = &pods
		all[uid] = e
	}
}

// mayCount says that the end of a node has just begun.
func (r *Recorder) mayCount(e ending, now time.Time) bool {
	f := e.facts
	begins := f.Gone.IsZero() && f.Drained.IsZero() && now.Sub(f.Deleted.Time) < countsFor
	return begins && f.Pods == nil && f.Node != "" && r.pools[f.Pool].of != owner{}
}

// podsOn is how many pods were on a node when the deletion of its NodeClaim began, by what is known
// of them without their specs.
func (r *Recorder) podsOn(ctx context.Context, f Facts) (n int, err error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PodList"))
	unfinished := fields.AndSelectors(
		fields.OneTermEqualSelector("spec.nodeName", f.Node),
		fields.OneTermNotEqualSelector("status.phase", string(corev1.PodSucceeded)),
		fields.OneTermNotEqualSelector("status.phase", string(corev1.PodFailed)),
	)
	if err := r.Uncached.List(ctx, list, client.MatchingFieldsSelector{Selector: unfinished}); err != nil {
		return 0, fmt.Errorf("read the pods of Node %s: %w", f.Node, err)
	}
	for i := range list.Items {
		if moves(&list.Items[i].ObjectMeta, f.Deleted.Time) {
			n++
		}
	}
	return n, nil
}

// moves says that a pod has to run elsewhere when its node ends: not one of a DaemonSet, nor a static
// one, nor one that was being deleted before.
func moves(pod *metav1.ObjectMeta, began time.Time) bool {
	if _, static := pod.Annotations[corev1.MirrorPodAnnotationKey]; static {
		return false
	}
	if owner := metav1.GetControllerOf(pod); owner != nil && owner.Kind == "DaemonSet" {
		return false
	}
	if pod.DeletionTimestamp == nil {
		return true
	}
	grace := time.Duration(0)
	if seconds := pod.DeletionGracePeriodSeconds; seconds != nil {
		grace = time.Duration(*seconds) * time.Second
	}
	return !pod.DeletionTimestamp.Add(-grace).Before(began)
}

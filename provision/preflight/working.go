package preflight

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// OutOfMemory is a container of Karpenter's controller that was killed because it used too much memory.
type OutOfMemory struct {
	// Pod is its namespace and name.
	Pod      string
	At       time.Time
	Restarts int32
}

func (r *Reader) claims(ctx context.Context, o *Observed) {
	o.Claims.Of, o.Claims.Err = listAs[karpv1.NodeClaim](ctx, r.API, claimKind)
}

// working reads whether Karpenter's controller works: a pod of it holds the lease and renews it. It also reads which of its
// pods have run out of memory.
func (r *Reader) working(ctx context.Context, o *Observed) {
	c, found := o.controller()
	if !found || c.Replicas == 0 {
		return
	}
	o.Idle.Of, o.Idle.Err = r.Idle(ctx, r.API, c.Namespace, o.Now)
	list := &corev1.PodList{}
	if err := r.API.List(ctx, list, client.InNamespace(c.Namespace), client.MatchingLabels(r.ControllerLabels)); err != nil {
		o.OutOfMemory.Err = fmt.Errorf("list the pods of Karpenter's controller: %w", err)
		return
	}
	for i := range list.Items {
		pod := &list.Items[i]
		for _, s := range pod.Status.ContainerStatuses {
			if last := s.LastTerminationState.Terminated; last != nil && last.Reason == "OOMKilled" {
				o.OutOfMemory.Of = append(o.OutOfMemory.Of, OutOfMemory{pod.Namespace + "/" + pod.Name, last.FinishedAt.Time, s.RestartCount})
			}
		}
	}
}

// stuckAfter is how long a NodeClaim may be without a node: Karpenter deletes one that is not registered after 15 minutes
// (KC pkg/controllers/nodeclaim/lifecycle/liveness.go, registrationTimeout).
const stuckAfter = 20 * time.Minute

// recently is how long a restart is reported.
const recently = 24 * time.Hour

// wedged returns the signs that Karpenter's controller does not work, although its Deployment may be available.
func (o Observed) wedged() []Finding {
	c, found := o.controller()
	if !found {
		return nil
	}
	restart := fmt.Sprintf("kubectl rollout restart deployment %s -n %s", c.Name, c.Namespace)
	var all []Finding
	for _, err := range []error{o.Idle.Err, o.OutOfMemory.Err, o.Claims.Err} {
		if err != nil {
			all = append(all, unread(err)...)
		}
	}
	switch {
	case c.Replicas == 0:
		all = append(all, Finding{
			Status: Problem, Message: fmt.Sprintf("deployment/%s in %s has no replicas: no node is launched or terminated", c.Name, c.Namespace),
			Fix: fmt.Sprintf("kubectl scale deployment %s -n %s --replicas=2", c.Name, c.Namespace),
		})
	case o.Idle.Of != "":
		all = append(all, Finding{Status: Problem, Message: o.Idle.Of + ": no node is launched or terminated", Fix: restart})
	}
	for _, pod := range o.OutOfMemory.Of {
		if o.Now.Sub(pod.At) < recently {
			all = append(all, Finding{
				Status: Warning, Fix: "increase controller.resources in the chart's values",
				Message: fmt.Sprintf("pod %s of Karpenter's controller ran out of memory at %s (%d restarts): "+
					"while it starts again, it launches no node",
					pod.Pod, pod.At.UTC().Format(time.RFC3339), pod.Restarts),
			})
		}
	}
	if stuck := o.stuckClaims(); len(stuck) > 0 {
		all = append(all, Finding{
			Status: Problem, Fix: restart,
			Message: fmt.Sprintf("NodeClaims have no node after %s: %s; Karpenter deletes such NodeClaims after 15 minutes, "+
				"so its controller is stuck",
				stuckAfter, some(stuck)),
		})
	}
	return all
}

// stuckClaims returns the names of NodeClaims that Karpenter should have deleted.
func (o Observed) stuckClaims() []string {
	var names []string
	for i := range o.Claims.Of {
		claim := &o.Claims.Of[i]
		registered := claim.StatusConditions().Get(karpv1.ConditionTypeRegistered)
		if claim.DeletionTimestamp == nil && o.Now.Sub(claim.CreationTimestamp.Time) > stuckAfter &&
			(registered == nil || registered.Status != metav1.ConditionTrue) {
			names = append(names, claim.Name)
		}
	}
	return names
}

package move

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/dustin/go-humanize/english"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/provision/migrate"
)

// absentAnswers is how many answers in a row have to omit an instance before it counts as gone: EC2's answers are
// eventually consistent.
const absentAnswers = 3

// leaving is a node on its way out.
type leaving struct {
	*Mover
	step *migrate.Step
	// absent counts the last answers of EC2 without the instance.
	absent int
	// owners are those that ran on it, for the words at the end.
	owners []migrate.Owner
}

// moveNode drains a node, terminates its instance, and waits until EC2 has terminated it.
func (m *Mover) moveNode(ctx context.Context, s *migrate.Step) error {
	l := &leaving{Mover: m, step: s}
	err := m.until(ctx, s.Target, l.next)
	if err == nil {
		where, err := l.where(ctx)
		if err != nil {
			return err
		}
		m.Say(fmt.Sprintf("%s: EC2 has terminated %s; %s", s.Target, cloud.InstanceID(s.ProviderID), where))
	}
	return err
}

// next does what comes next, and returns what it then waits for; empty if the node is gone.
func (l *leaving) next(ctx context.Context) (string, error) {
	state, err := l.state(ctx)
	if err != nil {
		return "", err
	}
	switch step := migrate.NextOfNode(state); step.Action {
	case migrate.Moved:
		return "", nil
	case migrate.CordonNode:
		return "its pods to be listed", l.cordon(ctx, l.step.Node, true)
	case migrate.Remember:
		return "its pods to be evicted", l.remember(ctx, state.Node)
	case migrate.Evict:
		return l.evict(ctx, step)
	case migrate.Terminate:
		return "EC2 to terminate the instance", l.terminate(ctx)
	default:
		return step.Waits, nil
	}
}

// state reads the node, its pods, what they belong to, and its instance.
func (l *leaving) state(ctx context.Context) (s migrate.NodeState, err error) {
	node := &corev1.Node{}
	switch err := l.Cluster.Get(ctx, client.ObjectKey{Name: l.step.Node}, node); {
	case apierrors.IsNotFound(err):
	case err != nil:
		return s, fmt.Errorf("read %s: %w", l.step.Target, err)
	case node.Spec.ProviderID == l.step.ProviderID: // otherwise another instance has the name
		s.Node = node
	}
	if s.Instance, err = l.instance(ctx); err != nil || s.Node == nil {
		return s, err
	}
	pods := &corev1.PodList{}
	if err := l.Cluster.List(ctx, pods, client.MatchingFields{"spec.nodeName": node.Name}); err != nil {
		return s, fmt.Errorf("list the pods of %s: %w", l.step.Target, err)
	}
	s.Pods = pods.Items
	s.Owners = migrate.ParseRemembered(node.Annotations[migrate.MovedAnnotation])
	for i := range s.Owners {
		if err := l.count(ctx, &s.Owners[i]); err != nil {
			return s, err
		}
	}
	l.owners = s.Owners
	return s, nil
}

// instance returns the state of the instance in EC2's terms.
func (l *leaving) instance(ctx context.Context) (string, error) {
	found, err := l.AWS.Instances(ctx, cloud.Query{Cluster: l.Name, ProviderIDs: []string{l.step.ProviderID}})
	if err != nil {
		return "", err
	}
	for _, i := range found {
		if i.ID == cloud.InstanceID(l.step.ProviderID) {
			l.absent = 0
			return i.State, nil
		}
	}
	if l.absent++; l.absent >= absentAnswers {
		return "terminated", nil
	}
	return "shutting-down", nil // unknown: wait for the next answer
}

// terminate requests the termination, unless the group terminates the instance already: while lifecycle hooks run, such as
// that of EKS in managed node groups, EC2 reports that it is running.
// https://docs.aws.amazon.com/autoscaling/ec2/userguide/lifecycle-hooks-overview.html
func (l *leaving) terminate(ctx context.Context) error {
	if l.step.Group == nil {
		return nil // it is in no group any more: a request was accepted
	}
	id := cloud.InstanceID(l.step.ProviderID)
	groups, err := l.AWS.AutoScalingGroups(ctx, nil, l.step.Group.Scaling)
	if err != nil {
		return err
	}
	for _, g := range groups {
		for _, i := range g.Instances {
			if i.ID == id && !strings.HasPrefix(i.State, "Terminat") {
				return l.AWS.TerminateInGroup(ctx, id)
			}
		}
	}
	return nil
}

// count reads how many Ready pods a workload wants and has.
func (l *leaving) count(ctx context.Context, o *migrate.Owner) error {
	key := client.ObjectKey{Namespace: o.Namespace, Name: o.Name}
	var wanted *int32
	var ready int32
	var err error
	switch o.Kind {
	case "Deployment":
		d := &appsv1.Deployment{}
		err = l.Cluster.Get(ctx, key, d)
		wanted, ready = d.Spec.Replicas, d.Status.ReadyReplicas
	case "StatefulSet":
		s := &appsv1.StatefulSet{}
		err = l.Cluster.Get(ctx, key, s)
		wanted, ready = s.Spec.Replicas, s.Status.ReadyReplicas
	default:
		r := &appsv1.ReplicaSet{}
		err = l.Cluster.Get(ctx, key, r)
		wanted, ready = r.Spec.Replicas, r.Status.ReadyReplicas
	}
	switch {
	case apierrors.IsNotFound(err):
		o.Gone = true
		return nil
	case err != nil:
		return fmt.Errorf("read %s: %w", o.Words(), err)
	}
	o.Wanted, o.Ready = 1, int(ready)
	if wanted != nil {
		o.Wanted = int(*wanted)
	}
	return nil
}

// remember annotates the node with the workloads that run on it, before any pod is evicted.
func (l *leaving) remember(ctx context.Context, node *corev1.Node) error {
	f, err := l.readCluster(ctx)
	if err != nil {
		return err
	}
	var all []migrate.Owner
	for _, ref := range f.OwnersOn(node.Name) {
		o := migrate.Owner{Ref: ref}
		if err := l.count(ctx, &o); err != nil {
			return err
		}
		o.Before = o.Ready
		all = append(all, o)
	}
	text, err := migrate.Remembered(all)
	if err != nil {
		return err
	}
	return l.patch(ctx, node, map[string]any{"metadata": map[string]any{"annotations": map[string]any{migrate.MovedAnnotation: text}}},
		"annotate "+l.step.Target)
}

// evict requests the eviction of pods, and returns what the API server refuses, or what it then waits for.
func (l *leaving) evict(ctx context.Context, step migrate.NodeStep) (string, error) {
	var refused []string
	budgets := map[string][]policyv1.PodDisruptionBudget{}
	for _, p := range step.Pods {
		eviction := &policyv1.Eviction{
			ObjectMeta:    metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name},
			DeleteOptions: &metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(p.UID))},
		}
		err := l.Cluster.SubResource("eviction").Create(ctx, p, eviction)
		switch {
		case err == nil, apierrors.IsNotFound(err), apierrors.IsConflict(err): // it is gone, or another one has its name
			continue
		case !apierrors.IsTooManyRequests(err) && !apierrors.IsInternalError(err):
			return "", fmt.Errorf("evict pod %s/%s: %w", p.Namespace, p.Name, err)
		}
		if _, read := budgets[p.Namespace]; !read {
			list := &policyv1.PodDisruptionBudgetList{}
			if err := l.Cluster.List(ctx, list, client.InNamespace(p.Namespace)); err != nil {
				return "", fmt.Errorf("list the PodDisruptionBudgets in namespace %s: %w", p.Namespace, err)
			}
			budgets[p.Namespace] = list.Items
		}
		refused = append(refused, migrate.Refused(p, budgets[p.Namespace], err.Error()))
	}
	if step.Waits != "" {
		refused = append(refused, step.Waits)
	}
	if len(refused) > 0 {
		return strings.Join(refused[:min(3, len(refused))], "; "), nil
	}
	return english.Plural(len(step.Pods), "evicted pod", "") + " to terminate", nil
}

// where returns where the workloads run that were on the node, in words.
func (l *leaving) where(ctx context.Context) (string, error) {
	if len(l.owners) == 0 {
		return "it ran no pods that had to move", nil
	}
	f, err := l.readCluster(ctx)
	if err != nil {
		return "", err
	}
	var parts []string
	for _, o := range l.owners {
		parts = append(parts, fmt.Sprintf("%s runs on %s", o.Words(), words(f.PlacesOf(o.Ref))))
	}
	return strings.Join(parts, ", "), nil
}

// words returns places with how many pods run there: NodePool/general (2), nodegroup/web (1).
func words(places map[string]int) string {
	if len(places) == 0 {
		return "no node"
	}
	var parts []string
	for _, place := range slices.Sorted(maps.Keys(places)) {
		parts = append(parts, fmt.Sprintf("%s (%d)", place, places[place]))
	}
	return strings.Join(parts, ", ")
}

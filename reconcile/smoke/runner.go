package smoke

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	podutil "sigs.k8s.io/karpenter/pkg/utils/pod"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/reconcile/cluster"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/rollout"
	"github.com/plumbline-dev/plumbline/render"
)

const (
	// blockedFor is how long the same cause must keep a pool from launching a node before the test ends.
	blockedFor = time.Minute
	// consolidatesWithin is the longest consolidateAfter for which a test waits for Karpenter to terminate the empty
	// node, and consolidationTime what Karpenter needs beyond it.
	consolidatesWithin, consolidationTime = 5 * time.Minute, time.Minute
	// deletionTime limits what is deleted after a test was stopped.
	deletionTime = 30 * time.Second
)

// State is the result of a test.
type State string

const (
	// Passed is a node that was launched for the pod, and terminated in EC2.
	Passed State = "Passed"
	// Failed is a test that ended early: Message is the cause.
	Failed State = "Failed"
)

// Result is the test of one NodePool.
type Result struct {
	Pool  string `json:"pool"`
	State State  `json:"state"`
	// Message is why the test has failed, and what to do.
	Message   string  `json:"message,omitempty"`
	NodeClaim string  `json:"nodeClaim,omitempty"`
	Node      string  `json:"node,omitempty"`
	Instance  string  `json:"instance,omitempty"`
	Type      string  `json:"type,omitempty"`
	Zone      string  `json:"zone,omitempty"`
	Stages    []Stage `json:"stages"`
}

// Instances queries EC2.
type Instances interface {
	Instances(ctx context.Context, q cloud.Query) ([]cloud.Instance, error)
}

// Runner tests NodePools.
type Runner struct {
	Cluster client.Client
	// EC2 is queried for the instance of the node; Name is the cluster's name there.
	EC2  Instances
	Name string
	// Namespace is the one of the Deployments, and Image their image.
	Namespace, Image string
	// Timeout limits the launch of a node, and its termination, each; Poll is how often objects are read.
	Timeout, Poll time.Duration
	Now           func() time.Time
	// Finding returns what the checks of plumbline doctor find about instances of an EC2NodeClass in a subnet that keeps them
	// from becoming nodes; empty if they find nothing. It may be nil.
	Finding func(ctx context.Context, class, subnet string) (string, error)
	// Progress is called for each stage, and for what blocks the launch; it may be called concurrently for different
	// pools.
	Progress func(pool, what string)
}

// Test tests one NodePool. If ctx is done, it deletes what it has created, and returns.
func (r *Runner) Test(ctx context.Context, pool *karpv1.NodePool) Result {
	t := &test{Runner: r, pool: pool, result: Result{Pool: pool.Name, State: Passed}, launches: cluster.Launches{Now: r.Now}}
	err := errors.Join(t.run(ctx), t.cleanUp(ctx))
	t.result.Stages = Stages(t.seen)
	switch {
	case ctx.Err() != nil:
		t.result.State, t.result.Message = Failed, "stopped"
	case err != nil:
		t.result.State, t.result.Message = Failed, err.Error()
	}
	return t.result
}

// test is the test of one pool.
type test struct {
	*Runner
	pool *karpv1.NodePool
	// deployment is nil until it was created.
	deployment *appsv1.Deployment
	seen       Seen
	launches   cluster.Launches
	// unjoined is why the instance does not become a node, as found at a time.
	unjoined   string
	unjoinedAt time.Time
	// told are the stages that Progress was called for.
	told   []StageName
	result Result
}

func (t *test) run(ctx context.Context) error {
	deployment := Workload(t.pool, t.Namespace, t.Image)
	if err := t.Cluster.Create(ctx, deployment); err != nil {
		return fmt.Errorf("create Deployment %s/%s: %w", t.Namespace, deployment.Name, err)
	}
	t.deployment = deployment
	if err := t.launch(ctx); err != nil {
		return err
	}
	if err := t.known(ctx); err != nil {
		return err
	}
	if err := t.scaleToZero(ctx); err != nil {
		return err
	}
	return t.terminate(ctx)
}

// launch waits until the pod runs.
func (t *test) launch(ctx context.Context) error {
	until := t.Now().Add(t.Timeout)
	var cause string
	var since time.Time
	return t.poll(ctx, func(ctx context.Context) (bool, error) {
		if err := t.observe(ctx); err != nil {
			return false, err
		}
		if t.seen.Pod != nil && !running(t.seen.Pod).IsZero() {
			return true, nil
		}
		blocked, err := t.blocked(ctx)
		if err != nil {
			return false, err
		}
		if blocked != cause {
			cause, since = blocked, t.Now()
			t.progress(blocked)
		}
		switch {
		case cause != "" && t.Now().Sub(since) >= blockedFor:
			return false, errors.New(cause)
		case t.Now().After(until) && cause != "":
			return false, fmt.Errorf("the pod does not run after %s: %s", t.Timeout, cause)
		case t.Now().After(until):
			return false, fmt.Errorf("the pod does not run after %s: %s; `kubectl -n %s describe pod -l %s=%s` shows its events", t.Timeout,
				t.lastStage(), t.Namespace, Label, hashOf(t.pool.Name))
		}
		return false, nil
	})
}

// poll calls a function until it is done, returns an error, or ctx is done.
func (t *test) poll(ctx context.Context, done func(context.Context) (bool, error)) error {
	return wait.PollUntilContextCancel(ctx, t.Poll, true, done)
}

func (t *test) progress(what string) {
	if what != "" {
		t.Progress(t.pool.Name, what)
	}
}

func (t *test) lastStage() string {
	stages := Stages(t.seen)
	if len(stages) == 0 {
		return "no pod was created"
	}
	return "the last stage was: " + string(stages[len(stages)-1].Name)
}

// observe reads the pod and the NodeClaim, and tells new stages.
func (t *test) observe(ctx context.Context) error {
	pods := &corev1.PodList{}
	if err := t.Cluster.List(ctx, pods, client.InNamespace(t.Namespace), client.MatchingLabels(t.deployment.Labels)); err != nil {
		return fmt.Errorf("list the pods of Deployment %s/%s: %w", t.Namespace, t.deployment.Name, err)
	}
	if t.seen.ScaledAt.IsZero() && len(pods.Items) > 0 {
		newest := slices.MaxFunc(pods.Items, func(a, b corev1.Pod) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
		t.seen.Pod = &newest
	}
	if t.seen.Pod == nil {
		return nil
	}
	claims := &karpv1.NodeClaimList{}
	if err := t.Cluster.List(ctx, claims, client.MatchingLabels{karpv1.NodePoolLabelKey: t.pool.Name}); err != nil {
		return fmt.Errorf("list NodeClaims: %w", err)
	}
	for i := range claims.Items {
		t.launches.See(&claims.Items[i])
	}
	claim := ClaimOf(t.seen.Pod, claims.Items)
	if claim != nil && claim.CreationTimestamp.Before(&t.seen.Pod.CreationTimestamp) {
		return fmt.Errorf("the pod runs on Node/%s, which ran no pods before: no node had to be launched; repeat the test when Karpenter has terminated it",
			claim.Status.NodeName)
	}
	if err := t.follow(ctx, claim); err != nil {
		return err
	}
	t.tell()
	return nil
}

// follow keeps what is known about the NodeClaim: it is gone at the end.
func (t *test) follow(ctx context.Context, claim *karpv1.NodeClaim) error {
	switch {
	case claim == nil && t.seen.Claim != nil && !t.seen.ScaledAt.IsZero() && t.seen.Removed.IsZero():
		t.seen.Removed = t.Now()
	case claim != nil:
		t.seen.Claim = claim
		t.result.NodeClaim, t.result.Node, t.result.Instance = claim.Name, claim.Status.NodeName, cloud.InstanceID(claim.Status.ProviderID)
		t.result.Type, t.result.Zone = claim.Labels[corev1.LabelInstanceTypeStable], claim.Labels[corev1.LabelTopologyZone]
		return t.remember(ctx, claim.Name)
	}
	return nil
}

// remember annotates the Deployment with the NodeClaim.
func (t *test) remember(ctx context.Context, claim string) error {
	if t.deployment.Annotations[claimAnnotation] == claim {
		return nil
	}
	before := t.deployment.DeepCopy()
	metav1.SetMetaDataAnnotation(&t.deployment.ObjectMeta, claimAnnotation, claim)
	if err := t.Cluster.Patch(ctx, t.deployment, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("annotate Deployment %s/%s: %w", t.Namespace, t.deployment.Name, err)
	}
	return nil
}

// tell calls Progress for stages that are new.
func (t *test) tell() {
	for _, stage := range Stages(t.seen) {
		if slices.Contains(t.told, stage.Name) {
			continue
		}
		t.told = append(t.told, stage.Name)
		what := fmt.Sprintf("%s after %d s", stage.Name, stage.Seconds)
		if stage.Name == Created {
			what = fmt.Sprintf("NodeClaim/%s created after %d s", t.seen.Claim.Name, stage.Seconds)
		}
		t.progress(what)
	}
}

// blocked returns what keeps the pool from launching a node.
func (t *test) blocked(ctx context.Context) (string, error) {
	causes, err := t.causes(ctx)
	if err != nil {
		return "", err
	}
	return Blocked(causes), nil
}

func (t *test) causes(ctx context.Context) (c Causes, err error) {
	ref := render.Ref{Kind: render.NodePool, Name: t.pool.Name}
	pool, err := t.object(ctx, ref)
	if err != nil {
		return c, err
	}
	if pool == nil {
		return c, fmt.Errorf("%s was deleted", ref)
	}
	c.Pool = pool
	if class, ok := render.Reference(ref, pool.Unstructured); ok {
		if c.Class, err = t.object(ctx, class); err != nil {
			return c, err
		}
	}
	look := rollout.Launches{Known: &t.launches, Events: t.Cluster, Now: t.Now(), Retry: t.Poll}
	failures, _, err := look.Look(ctx, []rollout.Pool{{Name: t.pool.Name, Live: c.Pool, Class: c.Class}})
	if err != nil {
		return c, err
	}
	for _, f := range failures {
		c.Launch = f.Why
	}
	if c.Schedule, err = t.schedule(ctx); err != nil {
		return c, err
	}
	if Joining(t.seen.Claim, t.Now()) {
		c.Join, err = t.join(ctx, c.Class)
		return c, err
	}
	c.Wait, err = t.wait(ctx)
	return c, err
}

// join finds why the instance does not become a node.
func (t *test) join(ctx context.Context, class *plan.Object) (string, error) {
	claim := t.seen.Claim
	if now := t.Now(); now.Sub(t.unjoinedAt) < checksEvery || class == nil {
		return t.unjoined, nil
	}
	found, err := t.EC2.Instances(ctx, cloud.Query{Cluster: t.Name, ProviderIDs: []string{claim.Status.ProviderID}})
	if err != nil {
		return "", fmt.Errorf("EC2 could not be queried for instance %s, which has not become a node: %w", t.result.Instance, err)
	}
	var instance *cloud.Instance
	subnet, finding := "", ""
	if at := slices.IndexFunc(found, func(i cloud.Instance) bool { return i.ID == t.result.Instance }); at >= 0 {
		instance, subnet = &found[at], found[at].Subnet
	}
	if t.Finding != nil {
		if finding, err = t.Finding(ctx, class.GetName(), subnet); err != nil {
			return "", err
		}
	}
	t.unjoined, t.unjoinedAt = Unjoined(claim, instance, finding, t.Now()), t.Now()
	return t.unjoined, nil
}

// wait finds why the pod does not run on a node that has registered.
func (t *test) wait(ctx context.Context) (string, error) {
	if t.seen.Claim == nil || t.seen.Claim.Status.NodeName == "" {
		return "", nil
	}
	node := &corev1.Node{}
	switch err := t.Cluster.Get(ctx, client.ObjectKey{Name: t.seen.Claim.Status.NodeName}, node); {
	case apierrors.IsNotFound(err):
		return "", nil
	case err != nil:
		return "", fmt.Errorf("read Node/%s: %w", t.seen.Claim.Status.NodeName, err)
	}
	return Waits(t.seen, node, t.Now()), nil
}

// schedule reads Karpenter's event on the pod, if no NodeClaim was created for it.
func (t *test) schedule(ctx context.Context) (string, error) {
	if t.seen.Pod == nil || t.seen.Claim != nil {
		return "", nil
	}
	events := &corev1.EventList{}
	if err := t.Cluster.List(ctx, events, client.InNamespace(t.Namespace),
		client.MatchingFields{"involvedObject.name": t.seen.Pod.Name}); err != nil {
		return "", fmt.Errorf("list the events of pod %s: %w", t.seen.Pod.Name, err)
	}
	return OfPool(scheduling(events.Items), t.pool.Name), nil
}

// object reads a definition; nil if it does not exist.
func (t *test) object(ctx context.Context, ref render.Ref) (*plan.Object, error) {
	object := ref.Empty()
	switch err := t.Cluster.Get(ctx, ref.Key(), object); {
	case apierrors.IsNotFound(err):
		return nil, nil //nolint:nilnil // that there is none is no error
	case err != nil:
		return nil, fmt.Errorf("read %s: %w", ref, err)
	}
	return plan.NewObject(object), nil
}

func (t *test) scaleToZero(ctx context.Context) error {
	before := t.deployment.DeepCopy()
	t.deployment.Spec.Replicas = new(int32(0))
	if err := t.Cluster.Patch(ctx, t.deployment, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("scale Deployment %s/%s to zero: %w", t.Namespace, t.deployment.Name, err)
	}
	t.seen.ScaledAt = t.Now()
	return nil
}

// terminate waits until Karpenter has terminated the empty node, or deletes its NodeClaim if Karpenter will not soon,
// and queries EC2.
func (t *test) terminate(ctx context.Context) error {
	until, deleteAt := t.Now().Add(t.Timeout), t.Now().Add(consolidation(t.pool))
	err := t.poll(ctx, func(ctx context.Context) (bool, error) {
		if err := t.observe(ctx); err != nil {
			return false, err
		}
		if t.seen.Claim.DeletionTimestamp == nil && t.Now().After(deleteAt) {
			if err := t.deleteClaim(ctx, t.seen.Claim); err != nil {
				return false, err
			}
		}
		if t.Now().After(until) {
			return false, fmt.Errorf("NodeClaim/%s still exists after %s: plumbline why %[1]s", t.seen.Claim.Name, t.Timeout)
		}
		return !t.seen.Removed.IsZero(), nil
	})
	if err != nil {
		return err
	}
	return t.poll(ctx, func(ctx context.Context) (bool, error) {
		gone, err := t.gone(ctx)
		if err != nil {
			return false, fmt.Errorf("the node was launched and terminated, but EC2 could not be queried for instance %s: %w", t.result.Instance, err)
		}
		if gone {
			t.seen.Terminated = t.Now()
			t.tell()
			return true, nil
		}
		if t.Now().After(until) {
			return false, fmt.Errorf("instance %s is not terminated in EC2 after %s", t.result.Instance, t.Timeout)
		}
		return false, nil
	})
}

// consolidation returns how long to wait for Karpenter to terminate an empty node of the pool; 0 if it never does, or
// later than a test should take.
func consolidation(pool *karpv1.NodePool) time.Duration {
	after := pool.Spec.Disruption.ConsolidateAfter.Duration
	if after == nil || *after > consolidatesWithin {
		return 0
	}
	return *after + consolidationTime
}

// known returns an error if EC2 does not list the instance while its node runs: in another account or region it would
// count as terminated.
func (t *test) known(ctx context.Context) error {
	gone, err := t.gone(ctx)
	switch {
	case err != nil:
		return fmt.Errorf("the node was launched, but EC2 could not be queried for instance %s: %w", t.result.Instance, err)
	case gone:
		return fmt.Errorf("EC2 does not list instance %s of the running node: use AWS credentials of the cluster's account, and its region",
			t.result.Instance)
	}
	return nil
}

// gone reports whether the instance is terminated in EC2, which forgets it after about an hour.
func (t *test) gone(ctx context.Context) (bool, error) {
	found, err := t.EC2.Instances(ctx, cloud.Query{Cluster: t.Name, ProviderIDs: []string{t.seen.Claim.Status.ProviderID}})
	if err != nil {
		return false, err
	}
	for _, i := range found {
		if i.ID == t.result.Instance && !i.Gone() {
			return false, nil
		}
	}
	return true, nil
}

// deleteClaim deletes a NodeClaim, unless its node runs pods of others.
func (t *test) deleteClaim(ctx context.Context, claim *karpv1.NodeClaim) error {
	others, err := t.others(ctx, claim.Status.NodeName)
	if err != nil {
		return err
	}
	if others > 0 {
		return fmt.Errorf("NodeClaim/%s stays: %d other pods run on its node meanwhile; Karpenter terminates it when they are gone",
			claim.Name, others)
	}
	err = t.Cluster.Delete(ctx, claim, client.Preconditions{UID: &claim.UID})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete NodeClaim/%s: %w", claim.Name, err)
	}
	return nil
}

// others counts the pods on a node, except those of tests, of DaemonSets, and of the kubelet itself.
func (t *test) others(ctx context.Context, node string) (int, error) {
	if node == "" {
		return 0, nil
	}
	pods := &corev1.PodList{}
	if err := t.Cluster.List(ctx, pods, client.MatchingFields{"spec.nodeName": node}); err != nil {
		return 0, fmt.Errorf("list the pods of Node/%s: %w", node, err)
	}
	return len(slices.DeleteFunc(pods.Items, func(p corev1.Pod) bool {
		return p.Labels[Label] != "" || podutil.IsOwnedByDaemonSet(&p) || podutil.IsOwnedByNode(&p) || podutil.IsTerminal(&p)
	})), nil
}

// cleanUp deletes what the test has created, also after it was stopped.
func (t *test) cleanUp(ctx context.Context) error {
	if t.deployment == nil {
		return nil
	}
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), deletionTime)
	defer stop()
	if claim := t.seen.Claim; claim != nil && t.seen.Removed.IsZero() && claim.DeletionTimestamp == nil {
		if err := t.deleteClaim(ctx, claim); err != nil {
			return errors.Join(err, t.deleteDeployment(ctx))
		}
		t.progress("NodeClaim/" + claim.Name + " is deleted, because the test has ended early")
	}
	return t.deleteDeployment(ctx)
}

func (t *test) deleteDeployment(ctx context.Context) error {
	err := t.Cluster.Delete(ctx, t.deployment, client.PropagationPolicy(metav1.DeletePropagationBackground))
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete Deployment %s/%s: %w", t.Namespace, t.deployment.Name, err)
	}
	return nil
}

// isOf reports whether a NodeClaim can be that of the test: it is of the NodePool, and was created after the Deployment.
func (t *test) isOf(claim *karpv1.NodeClaim) bool {
	return t.deployment.Labels[Label] == hashOf(claim.Labels[karpv1.NodePoolLabelKey]) && !claim.CreationTimestamp.Before(&t.deployment.CreationTimestamp)
}

// Sweep deletes what tests that were killed have left in the namespace, and returns what it has deleted.
func (r *Runner) Sweep(ctx context.Context) (deleted []string, err error) {
	left := &appsv1.DeploymentList{}
	if err := r.Cluster.List(ctx, left, client.InNamespace(r.Namespace), client.HasLabels{Label}); err != nil {
		return nil, fmt.Errorf("list Deployments of earlier tests in namespace %s: %w", r.Namespace, err)
	}
	for i := range left.Items {
		t := &test{Runner: r, deployment: &left.Items[i]}
		if name := t.deployment.Annotations[claimAnnotation]; name != "" {
			claim := &karpv1.NodeClaim{}
			switch err := r.Cluster.Get(ctx, client.ObjectKey{Name: name}, claim); {
			case apierrors.IsNotFound(err):
			case err != nil:
				return deleted, fmt.Errorf("read NodeClaim/%s: %w", name, err)
			case !t.isOf(claim): // any user who may create Deployments here can annotate one
			case t.deleteClaim(ctx, claim) == nil: // otherwise others use its node now, and Karpenter keeps or terminates it
				deleted = append(deleted, "NodeClaim/"+name)
			}
		}
		if err := t.deleteDeployment(ctx); err != nil {
			return deleted, err
		}
		deleted = append(deleted, fmt.Sprintf("Deployment %s/%s", r.Namespace, t.deployment.Name))
	}
	return deleted, nil
}

// Testable returns why a NodePool cannot be tested with a pod; empty if it can.
func Testable(pool *unstructured.Unstructured) (why string) {
	_, static, _ := unstructured.NestedFieldNoCopy(pool.Object, "spec", "replicas")
	switch {
	case pool.GetDeletionTimestamp() != nil:
		return "it is being deleted"
	case static:
		return "it is static: Karpenter launches none of its nodes for a pod"
	case render.OfAutoMode(pool):
		return "EKS Auto Mode launches its nodes"
	}
	return ""
}

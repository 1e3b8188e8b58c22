package upgrade

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/reconcile/cluster"
)

// container is the name of the controller's container (charts/karpenter/templates/deployment.yaml).
const container = "controller"

// readReplicas reads a complete Deployment, because the cache keeps no pod templates, and its pods.
func readReplicas(ctx context.Context, reader client.Reader, deployment *appsv1.Deployment) (*appsv1.Deployment, []corev1.Pod, error) {
	whole := &appsv1.Deployment{}
	if err := reader.Get(ctx, client.ObjectKeyFromObject(deployment), whole); err != nil {
		return nil, nil, fmt.Errorf("read deployment/%s: %w", deployment.Name, err)
	}
	pods := &corev1.PodList{}
	if whole.Spec.Selector == nil {
		return whole, nil, nil
	}
	if err := reader.List(ctx, pods, client.InNamespace(whole.Namespace), client.MatchingLabels(whole.Spec.Selector.MatchLabels)); err != nil {
		return nil, nil, fmt.Errorf("read the pods of deployment/%s: %w", deployment.Name, err)
	}
	return whole, pods.Items, nil
}

// The option that disables leader election, as a flag and as a variable (sigs.k8s.io/karpenter
// pkg/operator/options/options.go).
const (
	electionFlag     = "disable-leader-election"
	electionVariable = "DISABLE_LEADER_ELECTION"
)

// leaderElectionDisabled reports whether the replicas of a controller run without leader election.
func leaderElectionDisabled(deployment *appsv1.Deployment) bool {
	c := controllerOf(deployment.Spec.Template.Spec.Containers)
	return c != nil && disablesElection(c)
}

// disablesElection reports whether a container has leader election disabled. A flag takes precedence over the variable.
func disablesElection(c *corev1.Container) bool {
	off := false
	for _, variable := range c.Env {
		if variable.Name == electionVariable {
			off = isTrue(variable.Value)
		}
	}
	for _, argument := range append(append([]string{}, c.Command...), c.Args...) {
		flag, value, given := strings.Cut(strings.TrimLeft(argument, "-"), "=")
		if flag == electionFlag && strings.HasPrefix(argument, "-") {
			off = !given || isTrue(value)
		}
	}
	return off
}

func isTrue(value string) bool {
	is, err := strconv.ParseBool(value)
	return err == nil && is
}

// controllerOf returns the controller's container. A value of the chart can rename it; it is the first one then.
func controllerOf(containers []corev1.Container) *corev1.Container {
	if len(containers) == 0 {
		return nil
	}
	named := slices.IndexFunc(containers, func(c corev1.Container) bool { return c.Name == container })
	return &containers[max(named, 0)]
}

// image returns the controller's image, by tag or digest.
func image(containers []corev1.Container) string {
	if c := controllerOf(containers); c != nil {
		return c.Image
	}
	return ""
}

// Tag returns the tag of the controller's image, which is usually its version; "unknown" if the image has none.
func Tag(containers []corev1.Container) string {
	reference, _, _ := strings.Cut(image(containers), "@")
	name := reference[strings.LastIndex(reference, "/")+1:]
	if _, tag, ok := strings.Cut(name, ":"); ok {
		return tag
	}
	return "unknown"
}

// ClusterName returns the name with which the controller tags and finds its instances; empty if its environment does
// not contain it in plain text.
func ClusterName(containers []corev1.Container) string {
	c := controllerOf(containers)
	if c == nil {
		return ""
	}
	return plainVariable(c, "CLUSTER_NAME")
}

// FeatureGate reports whether the controller's environment enables one of Karpenter's feature gates, as Name=true in the
// list of the core or of the AWS provider, which have no name in common; known is false if no list contains it. Of a name
// that is in a list more than once, the last counts, as in Karpenter (MapStringBool in k8s.io/component-base).
func FeatureGate(containers []corev1.Container, name string) (on, known bool) {
	c := controllerOf(containers)
	if c == nil {
		return false, false
	}
	for pair := range strings.SplitSeq(plainVariable(c, "FEATURE_GATES")+","+plainVariable(c, "AWS_FEATURE_GATES"), ",") {
		if gate, value, ok := strings.Cut(strings.TrimSpace(pair), "="); ok && strings.TrimSpace(gate) == name {
			is, err := strconv.ParseBool(strings.TrimSpace(value))
			on, known = is, err == nil
		}
	}
	return on, known
}

// plainVariable returns the value of a variable. If a container has it more than once, the kubelet uses the last.
func plainVariable(c *corev1.Container, name string) (value string) {
	for _, variable := range c.Env {
		if variable.Name == name {
			value = variable.Value
		}
	}
	return value
}

// leaseName is the lease with which Karpenter's replicas elect their leader (sigs.k8s.io/karpenter
// pkg/operator/options/options.go, leader-election-name).
const leaseName = "karpenter-leader-election"

// Leads reports whether a pod of a Deployment's latest template leads: a replica can be ready while one of the previous
// version still does the work, since a terminating leader does not release its lease. If leader election is disabled,
// each replica works. It reads past the cache.
func Leads(ctx context.Context, reader client.Reader, deployment *appsv1.Deployment) (cluster.Readiness, error) {
	whole, pods, err := readReplicas(ctx, reader, deployment)
	if err != nil || leaderElectionDisabled(whole) {
		return cluster.Readiness{Ready: err == nil}, err
	}
	_, is, err := leader(ctx, reader, whole, pods)
	return is, err
}

// OneLeads reports whether a Deployment that is not complete serves anyway: no pod of an earlier template is left, and
// a ready one leads or, if leader election is disabled, all work. The message names a missing replica, and why it is
// missing.
func OneLeads(ctx context.Context, reader client.Reader, deployment *appsv1.Deployment) (cluster.Readiness, error) {
	message := cluster.RolledOut(deployment).Message
	if !cluster.Partly(deployment) {
		return cluster.Readiness{Message: message}, nil
	}
	whole, pods, err := readReplicas(ctx, reader, deployment)
	if err != nil {
		return cluster.Readiness{}, err
	}
	if !leaderElectionDisabled(whole) {
		leads, is, err := leader(ctx, reader, whole, pods)
		if err != nil {
			return cluster.Readiness{}, err
		}
		if is.Ready && !ready(leads) {
			is = cluster.Readiness{Message: fmt.Sprintf("the leader pod/%s is not Ready", leads.Name)}
		}
		if !is.Ready {
			return cluster.Readiness{Message: message + "; " + is.Message}, nil
		}
	}
	if missing := worst(pods); missing != nil {
		message += "; " + describe(missing)
	}
	return cluster.Readiness{Ready: true, Message: message}, nil
}

// leader returns the pod that holds the lease, and whether it belongs to the latest template and is not terminating.
func leader(
	ctx context.Context, reader client.Reader, deployment *appsv1.Deployment, pods []corev1.Pod,
) (*corev1.Pod, cluster.Readiness, error) {
	lease := &coordinationv1.Lease{}
	err := reader.Get(ctx, client.ObjectKey{Namespace: deployment.Namespace, Name: leaseName}, lease)
	if client.IgnoreNotFound(err) != nil {
		return nil, cluster.Readiness{}, fmt.Errorf("read lease %s: %w", leaseName, err)
	}
	if lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "" {
		return nil, cluster.Readiness{Message: "no replica of deployment/" + deployment.Name + " leads yet"}, nil
	}
	host, _, _ := strings.Cut(*lease.Spec.HolderIdentity, "_") // client-go: <host name>_<UUID>
	pod := podOn(pods, host)
	if pod == nil {
		return nil, cluster.Readiness{Message: fmt.Sprintf("lease %s is held by %s, which no longer exists, until it expires",
			leaseName, host)}, nil
	}
	if has, want := image(pod.Spec.Containers), image(deployment.Spec.Template.Spec.Containers); has != want {
		return pod, cluster.Readiness{Message: fmt.Sprintf("pod/%s is still the leader, with image %s", pod.Name, has)}, nil
	}
	if pod.DeletionTimestamp != nil {
		return pod, cluster.Readiness{Message: fmt.Sprintf("pod/%s is still the leader, but is terminating", pod.Name)}, nil
	}
	return pod, cluster.Readiness{Ready: true}, nil
}

// podOn returns the pod whose processes see a host name, which is that of its node if it uses the host network.
func podOn(pods []corev1.Pod, host string) *corev1.Pod {
	for i := range pods {
		spec := &pods[i].Spec
		onHost := spec.HostNetwork && (spec.NodeName == host || strings.HasPrefix(spec.NodeName, host+"."))
		if hostname(pods[i].Name) == host || spec.Hostname == host || onHost {
			return &pods[i]
		}
	}
	return nil
}

// hostname returns the host name that the processes of a pod see: it has at most 63 characters
// (truncatePodHostnameIfNeeded in k8s.io/kubernetes pkg/kubelet/kubelet_pods.go).
func hostname(pod string) string {
	const most = 63
	if len(pod) <= most {
		return pod
	}
	return strings.TrimRight(pod[:most], "-.")
}

// clocksDiffer is the assumed maximum difference between the clock of the controller's node and ours at the first read.
// Later reads check whether the lease was renewed in between.
const clocksDiffer = time.Minute

// Renewal is the latest renewal of the lease, by the clock of the controller's node, and when it was read, by ours. The
// zero value has read none.
type Renewal struct {
	renewed, seen time.Time
	// watched reports whether the previous renewal was read, too.
	watched bool
}

// Alive reports whether a pod of Karpenter's controller works at this moment, according to the API server: it holds the
// lease, renews it, and is Ready. If leader election is disabled, it is the only Ready pod. A Deployment reports only
// after a while that a pod is gone. last is what the previous call has read, and is updated for the next call.
func Alive(
	ctx context.Context, reader client.Reader, namespace string, deployments []appsv1.Deployment, now time.Time, last *Renewal,
) (cluster.Readiness, error) {
	pods := &corev1.PodList{}
	if err := reader.List(ctx, pods, client.InNamespace(namespace), client.MatchingLabels(cluster.ControllerLabels())); err != nil {
		return cluster.Readiness{}, fmt.Errorf("read the pods of Karpenter's controller in %s: %w", namespace, err)
	}
	ready := slices.DeleteFunc(pods.Items, func(pod corev1.Pod) bool { return !podReady(&pod) })
	if len(ready) == 0 {
		return cluster.Readiness{Message: "no pod of Karpenter's controller in " + namespace + " is Ready"}, nil
	}
	off, err := ElectionOff(ctx, reader, deployments)
	switch {
	case err != nil:
		return cluster.Readiness{}, err
	case off && len(ready) == 1:
		return cluster.Readiness{Ready: true}, nil
	case off:
		return cluster.Readiness{Message: "leader election of Karpenter's controller is off, but more than one of its pods runs: set values.replicas to 1, or enable leader election"}, nil
	}
	lease := &coordinationv1.Lease{}
	err = reader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: leaseName}, lease)
	if client.IgnoreNotFound(err) != nil {
		return cluster.Readiness{}, fmt.Errorf("read lease %s/%s: %w", namespace, leaseName, err)
	}
	return holds(lease, ready, now, last), nil
}

// holds reports whether one of the ready pods holds the lease and renews it.
func holds(lease *coordinationv1.Lease, ready []corev1.Pod, now time.Time, last *Renewal) cluster.Readiness {
	if lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "" {
		return cluster.Readiness{Message: "no pod of Karpenter's controller holds lease " + leaseName}
	}
	holder, _, _ := strings.Cut(*lease.Spec.HolderIdentity, "_") // client-go: <host name>_<UUID>
	if podOn(ready, holder) == nil {
		return cluster.Readiness{Message: fmt.Sprintf("lease %s is held by %s, which is not a Ready pod of Karpenter's controller",
			leaseName, holder)}
	}
	if lease.Spec.RenewTime == nil || !last.fresh(lease, now) {
		return cluster.Readiness{Message: fmt.Sprintf("pod %s holds lease %s but does not renew it", holder, leaseName)}
	}
	return cluster.Readiness{Ready: true}
}

// fresh reports whether a lease is being renewed. The clock of the controller's node may be far ahead of or behind
// ours: a lease that was renewed since a read a moment ago is fresh, whatever the time of the renewal, and one that has
// not changed for longer than its duration is not.
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

// ElectionOff reports whether a Deployment of the controller runs without leader election (sigs.k8s.io/karpenter
// pkg/operator/options/options.go). It reads past the cache, which keeps no pod templates.
func ElectionOff(ctx context.Context, reader client.Reader, deployments []appsv1.Deployment) (bool, error) {
	for i := range deployments {
		whole := &appsv1.Deployment{}
		if err := reader.Get(ctx, client.ObjectKeyFromObject(&deployments[i]), whole); err != nil {
			return false, fmt.Errorf("read deployment/%s: %w", deployments[i].Name, err)
		}
		if leaderElectionDisabled(whole) {
			return true, nil
		}
	}
	return false, nil
}

const (
	// stoppedAfter is how long a lease must stay the same before its holder counts as stopped. Karpenter renews it every two
	// seconds, and another replica takes it over after 15 s
	// (LeaseDuration, RenewDeadline and RetryPeriod in sigs.k8s.io/controller-runtime pkg/manager/manager.go).
	stoppedAfter = time.Minute
	// readEvery is the shortest time between two reads of the lease.
	readEvery = 10 * time.Second
	// ReadWithin is the longest time between two reads of the lease.
	ReadWithin = time.Minute
)

// Heartbeat is what plumbline has seen of the lease of Karpenter's controller. Times are those of this process, because the
// clock of the controller's node may differ. The zero value has seen nothing.
type Heartbeat struct {
	// read is the time of the last read. renewed is the lease's renewTime, and seen is when that value was first read.
	read, renewed, seen time.Time
	holder              string
}

// Stopped is a controller that does not renew its lease.
type Stopped struct {
	// Since is when the renewTime was first read that the lease still has, by the clock of this process.
	Since time.Time
	// Message names the lease and its holder. It stays the same until the lease is renewed.
	Message string
}

// Look reads the lease if it is due, and returns the controller if it does not renew the lease. It returns nil if the
// controller does, if that is not known yet, or if there is no lease because leader election is off.
func (h *Heartbeat) Look(ctx context.Context, reader client.Reader, namespace string, now time.Time) (*Stopped, error) {
	if since := now.Sub(h.read); since >= 0 && since < readEvery {
		return h.stopped(namespace), nil
	}
	lease := &coordinationv1.Lease{}
	if err := reader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: leaseName}, lease); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("read lease %s/%s: %w", namespace, leaseName, err)
	}
	h.note(lease, now)
	return h.stopped(namespace), nil
}

// note records a lease. After a gap in the reads, such as an outage of the API server, the time starts again: the controller
// could not renew its lease either.
func (h *Heartbeat) note(lease *coordinationv1.Lease, now time.Time) {
	if lease.Spec.RenewTime == nil || lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "" {
		*h = Heartbeat{read: now}
		return
	}
	renewed := lease.Spec.RenewTime.Time
	if interrupted := now.Before(h.read) || now.Sub(h.read) > 2*ReadWithin; interrupted || !renewed.Equal(h.renewed) {
		h.renewed, h.seen = renewed, now
	}
	h.holder, _, _ = strings.Cut(*lease.Spec.HolderIdentity, "_") // client-go: <host name>_<UUID>
	h.read = now
}

// Found reports whether there is a lease: only then it is worth reading again.
func (h *Heartbeat) Found() bool { return !h.renewed.IsZero() }

func (h *Heartbeat) stopped(namespace string) *Stopped {
	if !h.Found() || h.read.Sub(h.seen) < stoppedAfter {
		return nil
	}
	return &Stopped{Since: h.seen, Message: fmt.Sprintf(
		"Karpenter has not renewed its lease %s since %s: it launches, replaces and terminates no node; pod %s holds the lease: kubectl logs -n %s %[3]s",
		leaseName, h.renewed.UTC().Format(time.RFC3339), h.holder, namespace)}
}

// Theirs says who provides what is missing if management is External.
const Theirs = "management is External, so the tool that installs Karpenter must provide it"

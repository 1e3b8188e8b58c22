package judge

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

const (
	// oldNodes is how many old Nodes are read. Pods of DaemonSets are compared with those on these.
	oldNodes = 16
	// maxOwners is how many workloads are compared with their pods on old nodes in one look.
	maxOwners = 200
	// maxCompared is how many of their pods are read in one look; maxOfOwner is how many of one workload, of which
	// enough have to be on old nodes.
	maxCompared, maxOfOwner, enough = 3000, 300, 50
	// page is how many pods the API server is asked for at a time.
	page = 100
)

// Observe reads what Judge needs to know about a wave. reader reads past the watch cache. An error means that the wave
// cannot be judged now; objects that do not exist (any more) are none.
func Observe(ctx context.Context, reader client.Reader, wave Wave, now time.Time) (Observation, error) {
	o := newObserver(reader, wave)
	if err := o.newNodes(ctx); err != nil {
		return Observation{}, err
	}
	if err := o.oldSample(ctx); err != nil {
		return Observation{}, err
	}
	suspects := o.seen.suspects(func(_ Key, on []*Pod) int { return o.seen.tally(on, now).Failing })
	if err := o.compare(ctx, suspects); err != nil {
		return Observation{}, err
	}
	return o.seen, nil
}

// ObserveNodes reads what Failing needs to know about nodes: their pods and, for workloads with pods that fail there, the
// controllers, and pods on the old nodes. These are none of nodes.
func ObserveNodes(ctx context.Context, reader client.Reader, nodes, old []string, now time.Time) (Observation, error) {
	o := newObserver(reader, Wave{New: nodes, Old: old})
	if err := o.newNodes(ctx); err != nil {
		return Observation{}, err
	}
	suspects := o.seen.suspects(func(key Key, on []*Pod) int { return o.seen.failing(key, on, now).Failing })
	if len(suspects) == 0 {
		return o.seen, nil
	}
	for i := range suspects {
		if len(old) == 0 {
			suspects[i].labels = nil // pods on the wave's new nodes, which may fail because of it, are not compared
		}
	}
	if err := o.oldSample(ctx); err != nil {
		return Observation{}, err
	}
	if err := o.compare(ctx, suspects); err != nil {
		return Observation{}, err
	}
	return o.seen, nil
}

// oldSample reads some of the old nodes.
func (o *observer) oldSample(ctx context.Context) error {
	for _, name := range sample(o.seen.Wave.Old, oldNodes) {
		node, found, err := o.node(ctx, name)
		if err != nil {
			return err
		}
		if found {
			o.seen.Old = append(o.seen.Old, nodeOf(node))
		}
	}
	return nil
}

// newNodes reads the nodes of the wave.
func (o *observer) newNodes(ctx context.Context) error {
	for _, name := range o.seen.Wave.New {
		if err := o.newNode(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// sample returns up to n names, spread evenly over all of them in order: the same for the same names.
func sample(names []string, n int) []string {
	if len(names) <= n {
		return names
	}
	sorted := slices.Sorted(slices.Values(names))
	some := make([]string, 0, n)
	for i := range n {
		some = append(some, sorted[i*len(sorted)/n])
	}
	return some
}

// suspects returns the workloads with failing pods on the wave's nodes, which failing counts; those with the most come first.
func (seen *Observation) suspects(failing func(Key, []*Pod) int) []suspect {
	var all []suspect
	for key, group := range seen.groups() {
		if fail := failing(key, group.on); fail > 0 {
			all = append(all, suspect{key: key, failing: fail, labels: seen.labels[key]})
		}
	}
	slices.SortFunc(all, func(a, b suspect) int {
		return cmp.Or(cmp.Compare(b.failing, a.failing), cmp.Compare(a.key.Namespace, b.key.Namespace), cmp.Compare(a.key.Name, b.key.Name),
			cmp.Compare(a.key.Kind, b.key.Kind), cmp.Compare(a.key.Template, b.key.Template), cmp.Compare(a.key.UID, b.key.UID))
	})
	return all
}

// suspect is a workload with failing pods.
type suspect struct {
	key     Key
	failing int
	// labels select its pods in its namespace; empty if nothing does.
	labels map[string]string
}

// observer reads one Observation.
type observer struct {
	reader client.Reader
	seen   Observation
	// isNew and isOld are the names of the wave's nodes, and of old ones.
	isNew, isOld map[string]bool
	// left is how many pods may still be read for comparisons.
	left int
}

func newObserver(reader client.Reader, wave Wave) *observer {
	o := &observer{
		reader: reader, seen: Observation{Wave: wave, Owners: map[Key]Owner{}}, left: maxCompared,
		isNew: map[string]bool{}, isOld: map[string]bool{},
	}
	for _, name := range wave.New {
		o.isNew[name] = true
	}
	for _, name := range wave.Old {
		o.isOld[name] = true
	}
	return o
}

// compares reports whether pods on a node are compared with those on the wave's nodes: an old node or, if none is left,
// one of another pool.
func (o *observer) compares(node string) bool {
	if len(o.isOld) > 0 {
		return o.isOld[node]
	}
	return node != "" && !o.isNew[node]
}

func (o *observer) node(ctx context.Context, name string) (node *corev1.Node, found bool, err error) {
	node = &corev1.Node{}
	switch err := o.reader.Get(ctx, client.ObjectKey{Name: name}, node); {
	case apierrors.IsNotFound(err):
		return nil, false, nil
	case err != nil:
		return nil, false, fmt.Errorf("read node %s to judge a wave: %w", name, err)
	}
	return node, true, nil
}

// newNode reads a node of the wave, its NodeClaim and its pods.
func (o *observer) newNode(ctx context.Context, name string) error {
	object, found, err := o.node(ctx, name)
	if err != nil || !found {
		return err
	}
	node := nodeOf(object)
	for _, owner := range object.OwnerReferences {
		if owner.Kind != "NodeClaim" {
			continue
		}
		claim := &karpv1.NodeClaim{}
		if err := o.reader.Get(ctx, client.ObjectKey{Name: owner.Name}, claim); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("read NodeClaim/%s to judge a wave: %w", owner.Name, err)
		}
		node.claimed(claim)
	}
	o.seen.New = append(o.seen.New, node)
	pods, err := o.podsOn(ctx, name)
	for i := range pods {
		if p, judged := podOf(&pods[i], true); judged {
			o.seen.Pods = append(o.seen.Pods, p)
			o.seen.label(p.Workload, pods[i].Labels)
		}
	}
	return err
}

// podsOn lists the pods on a node. Resource version 0 lets the API server answer from its cache, which has an index by
// node; before Kubernetes 1.31 it would otherwise read all pods from etcd. The answer may be seconds old
// (https://kubernetes.io/docs/reference/using-api/api-concepts/#the-resourceversion-parameter).
func (o *observer) podsOn(ctx context.Context, node string) ([]corev1.Pod, error) {
	cached := &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: "0"}}
	list := &corev1.PodList{}
	if err := o.reader.List(ctx, list, cached, client.MatchingFields{"spec.nodeName": node}); err != nil {
		return nil, fmt.Errorf("list pods of node %s to judge a wave: %w", node, err)
	}
	return list.Items, nil
}

// pods lists pods page by page, and passes each to add until it returns false. It returns whether it has read all.
func (o *observer) pods(ctx context.Context, add func(*corev1.Pod) bool, of ...client.ListOption) (all bool, err error) {
	next := ""
	for {
		list := &corev1.PodList{}
		if err := o.reader.List(ctx, list, append(of, client.Limit(page), client.Continue(next))...); err != nil {
			return false, fmt.Errorf("list pods to judge a wave: %w", err)
		}
		for i := range list.Items {
			if !add(&list.Items[i]) {
				return false, nil
			}
		}
		if next = list.Continue; next == "" {
			return true, nil
		}
	}
}

// compare reads the controllers of workloads that fail, and their pods on old nodes.
func (o *observer) compare(ctx context.Context, suspects []suspect) error {
	for _, s := range suspects[min(maxOwners, len(suspects)):] {
		o.seen.Owners[s.key] = Owner{Skipped: true}
	}
	suspects = suspects[:min(maxOwners, len(suspects))]
	if err := o.compareDaemonSets(ctx, suspects); err != nil {
		return err
	}
	for _, s := range suspects {
		owner, err := o.owner(ctx, s.key)
		if err != nil {
			return err
		}
		if len(s.labels) > 0 && (s.key.Kind != kindDaemonSet || len(o.isOld) == 0) {
			if owner.Skipped, err = o.compareOne(ctx, s); err != nil {
				return err
			}
		}
		o.seen.Owners[s.key] = owner
	}
	return nil
}

// compareOne reads pods of a workload on old nodes, or on those of other pools. It returns true if it has not read all, and not enough.
func (o *observer) compareOne(ctx context.Context, s suspect) (skipped bool, err error) {
	read, found := 0, 0
	limit := min(maxOfOwner, o.left)
	if limit <= 0 {
		return true, nil
	}
	all, err := o.pods(ctx, func(pod *corev1.Pod) bool {
		read++
		if o.compares(pod.Spec.NodeName) && o.addOld(pod, s.key) {
			found++
		}
		return found < enough && read < limit
	}, client.InNamespace(s.key.Namespace), client.MatchingLabels(s.labels))
	o.left -= read
	return !all && found < enough, err
}

// compareDaemonSets reads the pods on the sample of old nodes, if a DaemonSet's pods fail.
func (o *observer) compareDaemonSets(ctx context.Context, suspects []suspect) error {
	sets := map[Key]bool{}
	for _, s := range suspects {
		if s.key.Kind == kindDaemonSet {
			sets[s.key] = true
		}
	}
	if len(sets) == 0 {
		return nil
	}
	for i := range o.seen.Old {
		pods, err := o.podsOn(ctx, o.seen.Old[i].Name)
		if err != nil {
			return err
		}
		for p := range pods {
			if key := keyOf(&pods[p]); sets[key] {
				o.addOld(&pods[p], key)
			}
		}
	}
	return nil
}

// addOld adds a pod on an old node if it belongs to a workload and is judged.
func (o *observer) addOld(pod *corev1.Pod, of Key) bool {
	p, judged := podOf(pod, false)
	if !judged || p.Workload != of {
		return false
	}
	o.seen.Pods = append(o.seen.Pods, p)
	return true
}

// owner reads what is known about a controller. Objects that do not exist, or that the daemon has no permission to read,
// are unknown.
func (o *observer) owner(ctx context.Context, key Key) (Owner, error) {
	var owner Owner
	template := ""
	switch {
	case key.Kind == kindDeployment, key.Kind == "ReplicaSet":
		template = "ReplicaSet"
	case key.Template != "" && (key.Kind == kindDaemonSet || key.Kind == "StatefulSet"):
		template = "ControllerRevision"
	}
	if template != "" {
		made := &metav1.PartialObjectMetadata{}
		made.SetGroupVersionKind(schema.GroupVersionKind{Group: appsv1.GroupName, Version: "v1", Kind: template})
		if _, err := o.read(ctx, key.Namespace, key.templateName(), made); err != nil {
			return owner, err
		}
		owner.Template = made.CreationTimestamp.Time
	}
	if key.Kind != kindDeployment {
		return owner, nil
	}
	deployment := &appsv1.Deployment{}
	found, err := o.read(ctx, key.Namespace, key.Name, deployment)
	if err != nil || !found {
		return owner, err
	}
	if seconds := deployment.Spec.ProgressDeadlineSeconds; seconds != nil {
		owner.Deadline = time.Duration(*seconds) * time.Second
	}
	for _, c := range deployment.Status.Conditions {
		if c.Type == appsv1.DeploymentAvailable && c.Status == corev1.ConditionFalse {
			owner.Unavailable = c.LastTransitionTime.Time
		}
	}
	return owner, nil
}

// templateName returns the name of the object that has the pod template: the ReplicaSet, or the ControllerRevision. For
// a StatefulSet, the label has the whole name (newRevision in kubernetes pkg/controller/statefulset/stateful_set_utils.go).
func (k Key) templateName() string {
	switch k.Kind {
	case "StatefulSet":
		return k.Template
	case "ReplicaSet":
		return k.Name
	}
	return k.Name + "-" + k.Template
}

// read reads an object. It returns false if it does not exist, or may not be read.
func (o *observer) read(ctx context.Context, namespace, name string, into client.Object) (bool, error) {
	err := o.reader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, into)
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read %T %s/%s to judge a wave: %w", into, namespace, name, err)
	}
	return true, nil
}

// ofOnePod are labels that differ between pods of one template.
var ofOnePod = []string{
	"statefulset.kubernetes.io/pod-name", "apps.kubernetes.io/pod-index", "batch.kubernetes.io/job-completion-index",
}

// label notes which labels select the pods of a workload: that of its template, or those that all its pods have.
func (seen *Observation) label(of Key, labels map[string]string) {
	if of.Kind == kindPod {
		return
	}
	if seen.labels == nil {
		seen.labels = map[Key]map[string]string{}
	}
	if label, hash := templateLabel(labels); hash != "" {
		seen.labels[of] = map[string]string{label: hash}
		return
	}
	common, known := seen.labels[of]
	if !known {
		common = maps.Clone(labels)
		for _, label := range ofOnePod {
			delete(common, label)
		}
	}
	maps.DeleteFunc(common, func(label, value string) bool { return labels[label] != value })
	seen.labels[of] = common
}

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	"github.com/fluxcd/pkg/runtime/conditions"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/provision/charts"
	"github.com/plumbline-dev/plumbline/provision/owners"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/blocker"
	sees "github.com/plumbline-dev/plumbline/reconcile/cluster"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/upgrade"
	"github.com/plumbline-dev/plumbline/redact"
	"github.com/plumbline-dev/plumbline/render"
)

// stopped is Karpenter's controller where none of it is up: nothing else ends what is deleted.
type stopped struct {
	// why is it, in a sentence.
	why string
	// missing reports whether there is no Deployment, and scaled is the one that is scaled to 0.
	missing bool
	scaled  *appsv1.Deployment
	// down is the one that has no ready replica.
	down *appsv1.Deployment
	// left reports whether nobody brings it up.
	left bool
}

// controllersOf are the Deployments of Karpenter's controller.
func controllersOf(ctx context.Context, c client.Reader, in ...client.ListOption) ([]appsv1.Deployment, error) {
	list := &appsv1.DeploymentList{}
	if err := c.List(ctx, list, append(in, client.MatchingLabels(sees.ControllerLabels()))...); err != nil {
		return nil, explain(err, "list the Deployments of Karpenter's controller")
	}
	return list.Items, nil
}

// findController says why Karpenter's controller does not run; nil if it does, or where nothing needs it.
func (t *teardown) findController(ctx context.Context, sync *v1alpha1.NodeSync, leaves *teardownPlan) (*stopped, error) {
	k := sync.Status.Karpenter
	if !t.needsController(sync, leaves) {
		return nil, nil
	}
	deployments, err := controllersOf(ctx, t.c, client.InNamespace(k.Namespace))
	if err != nil {
		return nil, err
	}
	gone := &stopped{why: "no Deployment of it is in namespace " + k.Namespace, missing: true}
	for i := range deployments {
		d := &deployments[i]
		switch {
		case sees.Alive(d):
			return nil, nil
		case ptr.Deref(d.Spec.Replicas, 1) == 0:
			return &stopped{why: "deployment " + d.Namespace + "/" + d.Name + " is scaled to 0", scaled: d}, nil
		}
		gone = &stopped{why: "deployment " + d.Namespace + "/" + d.Name + " has no ready replica", down: d}
	}
	return gone, nil
}

// plan says what is done about it, or, as an error, what the user has to do.
func (s *stopped) plan(sync *v1alpha1.NodeSync, withoutDaemon string) (words string, err error) {
	k := sync.Status.Karpenter
	hand := fmt.Sprintf("bring it up by hand, with the values that it had (karpenter.values of plumbline.yaml) in values.yaml: helm upgrade --install %s oci://public.ecr.aws/karpenter/%[1]s --version %s -n %s --set settings.clusterName=%s -f values.yaml",
		charts.ControllerChart, k.Version, k.Namespace, k.Cluster)
	is := "Karpenter's controller does not run (" + s.why + "), and nothing else ends the nodes"
	switch {
	case s.scaled != nil:
		return is + ": it is scaled to 1 first", nil
	case !s.missing:
		return is + ": the teardown waits for it", nil
	case k.Management == string(render.External):
		return "", fmt.Errorf("%s: bring it up with the tool that installs it; nothing was changed", is)
	case withoutDaemon != "":
		return is + ": this command installs it again first, as the NodeSync's Git says", nil
	case sync.DeletionTimestamp != nil, sync.Spec.Drain:
		// What is recorded goes on by itself then.
		return fmt.Sprintf("%s: stop the daemon (kubectl scale deployment plumbline -n %s --replicas=0) and run this again, which installs it with its values from Git; or %s", is, sync.Namespace, hand), nil
	case sync.Spec.Suspend:
		return "", fmt.Errorf("%s: run `plumbline resume %s -n %s`, and the daemon installs Karpenter %s again, or %s; nothing was changed", is, sync.Name, sync.Namespace, k.Version, hand)
	}
	return fmt.Sprintf("%s: the daemon installs Karpenter %s again first", is, k.Version), nil
}

// seeController notes what has to be done about a controller that does not run.
func (t *teardown) seeController(ctx context.Context, sync *v1alpha1.NodeSync, leaves *teardownPlan) (err error) {
	if t.stopped, err = t.findController(ctx, sync, leaves); err != nil || t.stopped == nil {
		return err
	}
	leaves.Controller, err = t.stopped.plan(sync, leaves.WithoutDaemon)
	switch {
	case err != nil && t.terminate:
		t.stopped.left = true
		leaves.Controller = fmt.Sprintf("Karpenter's controller does not run (%s), and nobody starts it: --terminate ends its instances without a drain", t.stopped.why)
		return nil
	case err != nil:
		return fmt.Errorf("%w. Where Karpenter cannot run any more, as its role is gone, --terminate ends its instances with your AWS rights", err)
	case t.terminate:
		leaves.Controller += fmt.Sprintf("; where it does not run within %s, --terminate ends its instances without a drain", short(t.v.strandedAfter))
	}
	return nil
}

// bringBack has the controller come up before the NodeSync is deleted, or drained: a pass over it installs nothing then.
func (t *teardown) bringBack(ctx context.Context, sync *v1alpha1.NodeSync, leaves *teardownPlan) error {
	gone := t.stopped
	switch {
	case gone == nil:
		return nil
	case gone.scaled != nil:
		scaled := gone.scaled.DeepCopy()
		scaled.Spec.Replicas = ptr.To[int32](1)
		if err := t.c.Patch(ctx, scaled, client.MergeFrom(gone.scaled)); err != nil {
			return explain(err, "scale deployment "+scaled.Name)
		}
	case !gone.missing || gone.left:
		return nil
	case leaves.WithoutDaemon != "":
		t.show.say("this command installs Karpenter again, by the daemon's passes; nothing else is applied")
		if err := t.takeOver(ctx, sync, true); err != nil {
			return err
		}
		defer t.stands.goesOn()
	case sync.DeletionTimestamp != nil || sync.Spec.Drain:
		return nil // the daemon reads no Git for it any more
	default:
		if _, err := t.c.requestReconcile(ctx, sync.Name); err != nil {
			return err
		}
	}
	return t.awaitController(ctx, sync, leaves)
}

// awaitController waits until the controller runs; with --terminate not for long.
func (t *teardown) awaitController(ctx context.Context, sync *v1alpha1.NodeSync, leaves *teardownPlan) error {
	until := t.v.now().Add(t.v.strandedAfter)
	err := t.awaits(ctx, "Karpenter's controller runs", func() (string, error) {
		if err := t.stands.over(); err != nil {
			return "", err
		}
		gone, err := t.findController(ctx, sync, leaves)
		switch {
		case err != nil || gone == nil:
			return "", err
		case t.terminate && !t.v.now().Before(until):
			return "", errNotBack
		}
		return "waiting for Karpenter's controller: " + t.cause(ctx, gone) + t.trouble(ctx, sync), nil
	})
	if errors.Is(err, errNotBack) {
		t.show.say("Karpenter's controller does not run: no node is drained, and --terminate ends its instances")
		return nil
	}
	return err
}

// cause says why the controller does not come up, as its pods and their log tell it: Karpenter checks at its start whether its
// credentials let it ask EC2, and ends where they do not (NewOperator in karpenter-provider-aws pkg/operator/operator.go).
func (t *teardown) cause(ctx context.Context, gone *stopped) string {
	if gone.down == nil {
		return gone.why
	}
	logs, err := upgrade.PodLogs(t.c.config)
	if err != nil {
		return gone.why
	}
	return upgrade.Cause(ctx, t.c, logs, gone.down, gone.why, redact.Visible)
}

// errNotBack reports that the controller has not come up, and is waited for no longer.
var errNotBack = errors.New("it has not come up")

// trouble is what the daemon says of a NodeSync that is not Ready.
func (t *teardown) trouble(ctx context.Context, sync *v1alpha1.NodeSync) string {
	seen, err := t.c.whole(ctx, sync.Name)
	if err != nil || conditions.IsReady(seen) {
		return ""
	}
	return "; " + nodeSyncWord(sync.Name) + ": " + oneLine(conditions.GetMessage(seen, meta.ReadyCondition))
}

// seeCredentials finds out, from the log of a controller that runs, whether AWS refuses its credentials: it would drain nodes then,
// and end none. One that does not run tells so as it starts.
func (t *teardown) seeCredentials(ctx context.Context, sync *v1alpha1.NodeSync, leaves *teardownPlan) error {
	k := sync.Status.Karpenter
	if t.stopped != nil || !t.needsController(sync, leaves) {
		return nil
	}
	logs, err := upgrade.PodLogs(t.c.config)
	if err != nil {
		return explain(err, "read the log of Karpenter's controller")
	}
	log := upgrade.ControllerLog(ctx, t.c, logs, k.Namespace)
	refused := blocker.RefusedCredentials(log, t.v.now().Add(-blocker.RefusedWithin))
	if refused == nil {
		return nil
	}
	is := fmt.Sprintf("Karpenter's controller runs, and AWS refuses its credentials (by its log at %s: %s): it drains nodes, and ends no instance",
		refused.Time.UTC().Format(time.TimeOnly), oneLine(redact.Visible(refused.Words)))
	mend := fmt.Sprintf("have its ServiceAccount get its role again, and then restart it (kubectl rollout restart deployment karpenter -n %s)", k.Namespace)
	switch {
	case t.terminate:
		leaves.Controller = is + ": --terminate ends what it leaves"
		return nil
	case sync.DeletionTimestamp != nil, sync.Spec.Drain:
		leaves.Controller = is + ": " + mend // what is recorded goes on by itself
		return nil
	}
	return fmt.Errorf("%s: %s; nothing was changed. Where it cannot have a role any more, --terminate ends what it leaves with your AWS rights", is, mend)
}

// needsController reports whether Karpenter's controller has something to end.
func (t *teardown) needsController(sync *v1alpha1.NodeSync, leaves *teardownPlan) bool {
	ends := !t.downTo.keeps() && len(leaves.Objects) > 0
	return sync.Status.Karpenter != nil && (ends || leaves.NodeClaims > 0)
}

// seeHosts refuses to end the nodes that run Karpenter's controller or the daemon that leads: once these end,
// nothing ends the rest. What an earlier run has begun goes on, and the daemon holds such a NodePool.
func (t *teardown) seeHosts(ctx context.Context, sync *v1alpha1.NodeSync, leaves *teardownPlan) error {
	if len(leaves.claims) == 0 || sync.Drains() && (sync.DeletionTimestamp != nil || t.downTo.keeps()) {
		return nil
	}
	var running []plan.Host
	if k := sync.Status.Karpenter; k != nil {
		pods, err := sees.ControllerPods(ctx, t.c, k.Namespace)
		if err != nil {
			return explain(err, "list the pods of Karpenter's controller")
		}
		running = pods
	}
	if leaves.WithoutDaemon == "" {
		daemon, err := t.leader(ctx)
		if err != nil {
			return err
		}
		running = append(running, daemon...)
	}
	hosts := sees.Placed(running, leaves.claims)
	if len(hosts) == 0 {
		return nil
	}
	var names []string
	for _, h := range hosts {
		names = append(names, fmt.Sprintf("%s (pod %s on node %s of NodePool/%s)", h.Workload, h.Pod, h.Node, h.NodePool))
	}
	return fmt.Errorf("the nodes that would end run %s, and once that ends nothing ends the rest: move it to nodes that Karpenter does not manage, such as a managed node group; "+
		"or, where the cluster goes as well, delete that, and end its instances by `plumbline teardown --cluster-gone --terminate`; nothing was changed", strings.Join(names, ", "))
}

// leader is the daemon's pod that holds the lease, where one does in the cluster.
func (t *teardown) leader(ctx context.Context) ([]plan.Host, error) {
	namespace := t.c.in(ctx)
	lease, ok := readLease(ctx, t.c, namespace)
	if !ok {
		return nil, nil
	}
	name, _, _ := strings.Cut(ptr.Deref(lease.Spec.HolderIdentity, ""), "_") // hostname_uuid, by client-go
	pod := &corev1.Pod{}
	if name == "" {
		return nil, nil
	}
	if err := t.c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, pod); client.IgnoreNotFound(err) != nil {
		return nil, explain(err, "read pod "+namespace+"/"+name+" of the daemon")
	}
	return []plan.Host{{Workload: "plumbline", Pod: namespace + "/" + name, Node: pod.Spec.NodeName}}, nil
}

// suspension is how an object of another tool is kept from applying, and how that is taken back.
type suspension struct {
	kind  schema.GroupVersionKind
	patch string
	back  string
}

// suspensions are by the kind of an owner. What has none can only be suspended where it runs.
var suspensions = map[string]suspension{
	"Kustomization": {
		kustomizationKind,
		`{"spec":{"suspend":true}}`, "flux resume kustomization %[3]s --namespace %[2]s",
	},
	"HelmRelease": {
		schema.GroupVersionKind{Group: "helm.toolkit.fluxcd.io", Version: "v2", Kind: "HelmRelease"},
		`{"spec":{"suspend":true}}`, "flux resume helmrelease %[3]s --namespace %[2]s",
	},
	"Application": {
		applicationKind,
		`{"spec":{"syncPolicy":{"automated":null}}}`, "put spec.syncPolicy.automated of application %[2]s/%[3]s back",
	},
}

// suspendAppliers keeps Flux and Argo CD from creating again what ends, where the user has asked for that. It comes after
// the confirmation, and before anything is deleted.
func (t *teardown) suspendAppliers(ctx context.Context, leaves *teardownPlan) error {
	if !t.suspends {
		return nil
	}
	for _, by := range leaves.appliers {
		s, known := suspensions[by.Kind]
		if !known {
			t.show.say(fmt.Sprintf("%s cannot be suspended from here: what it applies may come again", by))
			continue
		}
		found, err := t.findApplier(ctx, s.kind, by)
		if err != nil {
			return explain(err, fmt.Sprintf("find %s to suspend it (nothing was deleted)", by))
		}
		if err := t.c.Patch(ctx, found, client.RawPatch(types.MergePatchType, []byte(s.patch))); err != nil {
			return explain(err, fmt.Sprintf("suspend %s (nothing was deleted)", by))
		}
		t.show.say(fmt.Sprintf("%s is suspended; to take that back: "+s.back, by, found.GetNamespace(), found.GetName()))
	}
	return nil
}

// findApplier reads the object that applies: one that is known by its name only, as Argo CD's label has it, is looked for
// in all namespaces, and has to be the only one.
func (t *teardown) findApplier(ctx context.Context, kind schema.GroupVersionKind, by owners.Owner) (*unstructured.Unstructured, error) {
	if by.Namespace != "" {
		found := &unstructured.Unstructured{}
		found.SetGroupVersionKind(kind)
		return found, t.c.Get(ctx, client.ObjectKey{Namespace: by.Namespace, Name: by.Name}, found)
	}
	list, err := listOf(ctx, t.c, kind)
	if err != nil {
		return nil, err
	}
	var found *unstructured.Unstructured
	for i := range list.Items {
		switch {
		case list.Items[i].GetName() != by.Name:
		case found != nil:
			return nil, fmt.Errorf("there is one in %s and one in %s: suspend the right one yourself", found.GetNamespace(), list.Items[i].GetNamespace())
		default:
			found = &list.Items[i]
		}
	}
	if found == nil {
		return nil, fmt.Errorf("there is none of the name %s", by.Name)
	}
	return found, nil
}

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/fluxcd/pkg/apis/meta"
	"github.com/fluxcd/pkg/runtime/conditions"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/provision/owners"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/blocker"
	sees "github.com/plumbline-dev/plumbline/reconcile/cluster"
	"github.com/plumbline-dev/plumbline/reconcile/handover"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/removal/teardown"
	"github.com/plumbline-dev/plumbline/reconcile/upgrade"
	"github.com/plumbline-dev/plumbline/redact"
)

// controllersOf returns the Deployments of Karpenter's controller.
func controllersOf(ctx context.Context, c client.Reader, in ...client.ListOption) ([]appsv1.Deployment, error) {
	list := &appsv1.DeploymentList{}
	if err := c.List(ctx, list, append(in, client.MatchingLabels(sees.ControllerLabels()))...); err != nil {
		return nil, explain(err, "list the Deployments of Karpenter's controller")
	}
	return list.Items, nil
}

// findController returns why Karpenter's controller does not run; nil if it does, or if nothing needs it.
func (t *teardownCommand) findController(ctx context.Context, sync *v1alpha1.NodeSync, leaves *teardown.Plan) (*teardown.Stopped, error) {
	if !leaves.NeedsController(sync) {
		return nil, nil
	}
	namespace := sync.Status.Karpenter.Namespace
	deployments, err := controllersOf(ctx, t.c, client.InNamespace(namespace))
	if err != nil {
		return nil, err
	}
	return teardown.StoppedOf(namespace, deployments), nil
}

// checkController records what to do about a controller that does not run.
func (t *teardownCommand) checkController(ctx context.Context, sync *v1alpha1.NodeSync, leaves *teardown.Plan) (err error) {
	if t.stopped, err = t.findController(ctx, sync, leaves); err != nil || t.stopped == nil {
		return err
	}
	return leaves.NoteStopped(t.stopped, sync, t.terminate, t.v.strandedAfter)
}

// startController starts the controller before the NodeSync is deleted or drained: after that, reconciles no longer
// install charts.
func (t *teardownCommand) startController(ctx context.Context, sync *v1alpha1.NodeSync, leaves *teardown.Plan) error {
	switch t.stopped.Start(sync, leaves.WithoutDaemon) {
	case teardown.StartNothing:
		return nil
	case teardown.StartByScaling:
		scaled := t.stopped.Scaled.DeepCopy()
		scaled.Spec.Replicas = ptr.To[int32](1)
		if err := t.c.Patch(ctx, scaled, client.MergeFrom(t.stopped.Scaled)); err != nil {
			return explain(err, "scale deployment "+scaled.Name)
		}
	case teardown.StartByCommand:
		t.show.sentence("this command reinstalls Karpenter as the daemon would; nothing else is applied")
		if err := t.startStandIn(ctx, sync, true); err != nil {
			return err
		}
		defer t.standIn.terminatesNodes()
	case teardown.StartByDaemon:
		if _, err := t.c.requestReconcile(ctx, sync.Name); err != nil {
			return err
		}
	}
	return t.awaitController(ctx, sync, leaves)
}

// awaitController waits until the controller runs; with --terminate only briefly.
func (t *teardownCommand) awaitController(ctx context.Context, sync *v1alpha1.NodeSync, leaves *teardown.Plan) error {
	until := t.v.now().Add(t.v.strandedAfter)
	err := t.waitUntilDone(ctx, "Karpenter's controller runs", func() (string, error) {
		if err := t.standIn.over(); err != nil {
			return "", err
		}
		gone, err := t.findController(ctx, sync, leaves)
		switch {
		case err != nil || gone == nil:
			return "", err
		case t.terminate && !t.v.now().Before(until):
			return "", errNotStarted
		}
		return "waiting for Karpenter's controller: " + t.cause(ctx, gone) + t.notReadyMessage(ctx, sync), nil
	})
	if errors.Is(err, errNotStarted) {
		t.show.sentence("Karpenter's controller does not run: no node is drained, and --terminate terminates its instances")
		return nil
	}
	return err
}

// cause returns why the controller does not start, according to its pods and their log: Karpenter checks at startup
// that its credentials allow it to query EC2, and exits if not (NewOperator in karpenter-provider-aws
// pkg/operator/operator.go).
func (t *teardownCommand) cause(ctx context.Context, gone *teardown.Stopped) string {
	if gone.Down == nil {
		return gone.Why
	}
	logs, err := upgrade.PodLogs(t.c.config)
	if err != nil {
		return gone.Why
	}
	return upgrade.Cause(ctx, t.c, logs, gone.Down, gone.Why, redact.Visible)
}

// errNotStarted means that the controller has not started in time.
var errNotStarted = errors.New("it has not started")

// notReadyMessage returns the message of a NodeSync that is not Ready.
func (t *teardownCommand) notReadyMessage(ctx context.Context, sync *v1alpha1.NodeSync) string {
	seen, err := t.c.readWhole(ctx, sync.Name)
	if err != nil || conditions.IsReady(seen) {
		return ""
	}
	return "; " + nodeSyncWord(sync.Name) + ": " + oneLine(conditions.GetMessage(seen, meta.ReadyCondition))
}

// checkCredentials checks the log of a running controller for whether AWS rejects its credentials: it would drain
// nodes, but terminate none. A controller that does not run reports that when it starts.
func (t *teardownCommand) checkCredentials(ctx context.Context, sync *v1alpha1.NodeSync, leaves *teardown.Plan) error {
	if t.stopped != nil || !leaves.NeedsController(sync) {
		return nil
	}
	logs, err := upgrade.PodLogs(t.c.config)
	if err != nil {
		return explain(err, "read the log of Karpenter's controller")
	}
	log := upgrade.ControllerLog(ctx, t.c, logs, sync.Status.Karpenter.Namespace)
	refused := blocker.RefusedCredentials(log, t.v.now().Add(-blocker.RefusedWithin))
	if refused == nil {
		return nil
	}
	return leaves.NoteRefused(refused, sync, t.terminate)
}

// checkHosts refuses to terminate the nodes that run Karpenter's controller or the leading daemon: without these,
// nothing would terminate the rest. It does not stop what an earlier run has started; the daemon holds such a NodePool.
func (t *teardownCommand) checkHosts(ctx context.Context, sync *v1alpha1.NodeSync, leaves *teardown.Plan) error {
	if !leaves.NeedsHosts(sync) {
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
	return leaves.Hosted(running)
}

// leader returns the daemon's pod that holds the lease, if there is one in the cluster.
func (t *teardownCommand) leader(ctx context.Context) ([]plan.Host, error) {
	namespace := t.c.namespaceOfNodeSyncs(ctx)
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

// suspension is how to suspend an object of another tool, and how to resume it.
type suspension struct {
	kind  schema.GroupVersionKind
	patch string
	back  string
}

// suspensions maps the kind of an owner to its suspension. Other kinds can only be suspended where they run.
var suspensions = map[string]suspension{
	"Kustomization": {
		handover.KustomizationKind,
		`{"spec":{"suspend":true}}`, "flux resume kustomization %[3]s --namespace %[2]s",
	},
	"HelmRelease": {
		schema.GroupVersionKind{Group: "helm.toolkit.fluxcd.io", Version: "v2", Kind: "HelmRelease"},
		`{"spec":{"suspend":true}}`, "flux resume helmrelease %[3]s --namespace %[2]s",
	},
	"Application": {
		handover.ApplicationKind,
		`{"spec":{"syncPolicy":{"automated":null}}}`, "restore spec.syncPolicy.automated of application %[2]s/%[3]s",
	},
}

// suspendAppliers keeps Flux and Argo CD from recreating what is deleted, if the user has asked for that. It runs after
// the confirmation and before anything is deleted.
func (t *teardownCommand) suspendAppliers(ctx context.Context, leaves *teardown.Plan) error {
	if !t.suspends {
		return nil
	}
	for _, by := range leaves.AppliedBy {
		s, known := suspensions[by.Kind]
		if !known {
			t.show.sentence(fmt.Sprintf("%s cannot be suspended from here: it may create its objects again", by))
			continue
		}
		found, err := t.findApplier(ctx, s.kind, by)
		if err != nil {
			return explain(err, fmt.Sprintf("find %s to suspend it (nothing was deleted)", by))
		}
		if err := t.c.Patch(ctx, found, client.RawPatch(types.MergePatchType, []byte(s.patch))); err != nil {
			return explain(err, fmt.Sprintf("suspend %s (nothing was deleted)", by))
		}
		t.show.sentence(fmt.Sprintf("%s is suspended; to undo this: "+s.back, by, found.GetNamespace(), found.GetName()))
	}
	return nil
}

// findApplier reads the applying object. If only its name is known, as from Argo CD's label, it searches all
// namespaces, and the name must be unique.
func (t *teardownCommand) findApplier(
	ctx context.Context, kind schema.GroupVersionKind, by owners.Owner,
) (*unstructured.Unstructured, error) {
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
			return nil, fmt.Errorf("there is one in %s and one in %s: suspend the right one yourself",
				found.GetNamespace(), list.Items[i].GetNamespace())
		default:
			found = &list.Items[i]
		}
	}
	if found == nil {
		return nil, fmt.Errorf("there is none of the name %s", by.Name)
	}
	return found, nil
}

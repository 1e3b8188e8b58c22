package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/fluxcd/pkg/apis/meta"
	"github.com/fluxcd/pkg/runtime/conditions"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/provision/charts"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/observe"
	"github.com/plumbline-dev/plumbline/reconcile/upgrade"
	"github.com/plumbline-dev/plumbline/redact"
	"github.com/plumbline-dev/plumbline/render"
)

// stopped is Karpenter's controller where none of it is up: nothing else ends what is deleted.
type stopped struct {
	// why is it, in a sentence.
	why string
	// missing says that there is no Deployment, and scaled is the one that is scaled to 0.
	missing bool
	scaled  *appsv1.Deployment
	// down is the one that has no ready replica.
	down *appsv1.Deployment
	// left says that nobody brings it up.
	left bool
}

// controllersOf are the Deployments of Karpenter's controller.
func controllersOf(ctx context.Context, c client.Reader, in ...client.ListOption) ([]appsv1.Deployment, error) {
	list := &appsv1.DeploymentList{}
	if err := c.List(ctx, list, append(in, client.MatchingLabels(observe.ControllerLabels()))...); err != nil {
		return nil, explain(err, "list the Deployments of Karpenter's controller")
	}
	return list.Items, nil
}

// findController says why Karpenter's controller does not run; nil where it does, or where nothing needs it.
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
		case observe.Alive(d):
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

// errNotBack says that the controller has not come up, and is waited for no longer.
var errNotBack = errors.New("it has not come up")

// trouble is what the daemon says of a NodeSync that is not Ready.
func (t *teardown) trouble(ctx context.Context, sync *v1alpha1.NodeSync) string {
	seen, err := t.c.whole(ctx, sync.Name)
	if err != nil || conditions.IsReady(seen) {
		return ""
	}
	return "; " + nodeSyncWord(sync.Name) + ": " + oneLine(conditions.GetMessage(seen, meta.ReadyCondition))
}

package teardown

import (
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/utils/ptr"

	"github.com/plumbline-dev/plumbline/provision/charts"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/blocker"
	"github.com/plumbline-dev/plumbline/reconcile/cluster"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/summary"
	"github.com/plumbline-dev/plumbline/redact"
	"github.com/plumbline-dev/plumbline/render"
)

// Stopped means that no replica of Karpenter's controller runs: nothing else drains and terminates what is deleted.
type Stopped struct {
	// Why is the reason, as a sentence.
	Why string
	// Missing reports whether there is no Deployment. Scaled is the Deployment that is scaled to 0, and Down the one
	// without a ready replica.
	Missing      bool
	Scaled, Down *appsv1.Deployment
	// Abandoned reports whether the controller is not started.
	Abandoned bool
}

// NeedsController reports whether Karpenter's controller has something to drain or to terminate.
func (p *Plan) NeedsController(sync *v1alpha1.NodeSync) bool {
	deletes := !p.DownTo.Keeps() && len(p.Objects) > 0
	return sync.Status.Karpenter != nil && (deletes || p.NodeClaims > 0)
}

// StoppedOf returns why Karpenter's controller does not run, from its Deployments in a namespace; nil if it runs.
func StoppedOf(namespace string, deployments []appsv1.Deployment) *Stopped {
	stopped := &Stopped{Why: "it has no Deployment in namespace " + namespace, Missing: true}
	for i := range deployments {
		d := &deployments[i]
		switch {
		case cluster.Alive(d):
			return nil
		case ptr.Deref(d.Spec.Replicas, 1) == 0:
			return &Stopped{Why: "deployment " + d.Namespace + "/" + d.Name + " is scaled to 0", Scaled: d}
		}
		stopped = &Stopped{Why: "deployment " + d.Namespace + "/" + d.Name + " has no ready replica", Down: d}
	}
	return stopped
}

// NoteStopped adds to the plan what is done about a stopped controller. The error says what the user must do first.
// terminates reports whether the command may terminate instances that the controller does not terminate for some time.
func (p *Plan) NoteStopped(s *Stopped, sync *v1alpha1.NodeSync, terminates bool, after time.Duration) (err error) {
	p.Controller, err = s.response(sync, p.WithoutDaemon)
	switch {
	case err != nil && terminates:
		s.Abandoned = true
		p.Controller = fmt.Sprintf("Karpenter's controller does not run (%s) and is not started: --terminate terminates its instances without draining them", s.Why)
		return nil
	case err != nil:
		return fmt.Errorf("%w. If Karpenter can no longer run, for example because its role is deleted, use --terminate to terminate its instances with your AWS credentials", err)
	case terminates:
		p.Controller += fmt.Sprintf("; if it does not run within %s, --terminate terminates its instances without draining them",
			plan.Short(after))
	}
	return nil
}

// response returns what is done about a stopped controller or, as an error, what the user must do.
func (s *Stopped) response(sync *v1alpha1.NodeSync, withoutDaemon string) (words string, err error) {
	k := sync.Status.Karpenter
	hand := fmt.Sprintf("start it by hand, with its previous values (karpenter.values of plumbline.yaml) in values.yaml: helm upgrade --install %s oci://public.ecr.aws/karpenter/%[1]s --version %s -n %s --set settings.clusterName=%s -f values.yaml",
		charts.ControllerChart, k.Version, k.Namespace, k.Cluster)
	is := "Karpenter's controller does not run (" + s.Why + "), and nothing else terminates the nodes"
	switch {
	case s.Scaled != nil:
		return is + ": the teardown scales it to 1 first", nil
	case !s.Missing:
		return is + ": the teardown waits for it", nil
	case k.Management == string(render.External):
		return "", fmt.Errorf("%s: start it with the tool that installs it; nothing was changed", is)
	case withoutDaemon != "":
		return is + ": this command reinstalls it first, with the version and values in the NodeSync's Git", nil
	case unread(sync):
		// Recorded removals continue without help then.
		return fmt.Sprintf("%s: stop the daemon (kubectl scale deployment plumbline -n %s --replicas=0) and run this command again, which reinstalls it with its values from Git; or %s", is, sync.Namespace, hand), nil
	case sync.Spec.Suspend:
		return "", fmt.Errorf("%s: run `plumbline resume %s -n %s`, so that the daemon reinstalls Karpenter %s, or %s; nothing was changed",
			is, sync.Name, sync.Namespace, k.Version, hand)
	}
	return fmt.Sprintf("%s: the daemon reinstalls Karpenter %s first", is, k.Version), nil
}

// unread reports whether the daemon no longer reads Git for a NodeSync.
func unread(sync *v1alpha1.NodeSync) bool { return sync.DeletionTimestamp != nil || sync.Spec.Drain }

// Start is how Karpenter's controller is started before the NodeSync is deleted or drained: after that the daemon installs nothing.
type Start int

// The ways to start it.
const (
	// StartNothing means that there is nothing to do, or nothing that could do it.
	StartNothing Start = iota
	// StartByScaling scales its Deployment to 1.
	StartByScaling
	// StartByCommand means that the command installs it.
	StartByCommand
	// StartByDaemon requests a reconcile by the daemon, which installs it.
	StartByDaemon
)

// Start returns how the controller is started. If s is nil, the controller runs.
func (s *Stopped) Start(sync *v1alpha1.NodeSync, withoutDaemon string) Start {
	switch {
	case s == nil:
		return StartNothing
	case s.Scaled != nil:
		return StartByScaling
	case !s.Missing || s.Abandoned:
		return StartNothing
	case withoutDaemon != "":
		return StartByCommand
	case unread(sync):
		return StartNothing
	}
	return StartByDaemon
}

// NoteRefused adds to the plan that AWS refuses the credentials of a running controller: it drains nodes, but
// terminates no instances. That is an error unless the command may terminate these instances, or the teardown has
// started.
func (p *Plan) NoteRefused(refused *blocker.Refusal, sync *v1alpha1.NodeSync, terminates bool) error {
	is := fmt.Sprintf("Karpenter's controller runs, but AWS refuses its credentials (its log at %s: %s): it drains nodes but terminates no instance",
		refused.Time.UTC().Format(time.TimeOnly), summary.OneLine(redact.Visible(refused.Words)))
	mend := fmt.Sprintf("restore the IAM role of its ServiceAccount, then restart it (kubectl rollout restart deployment karpenter -n %s)",
		sync.Status.Karpenter.Namespace)
	switch {
	case terminates:
		p.Controller = is + ": --terminate terminates the instances that remain"
		return nil
	case unread(sync):
		p.Controller = is + ": " + mend // recorded removals continue without help
		return nil
	}
	return fmt.Errorf("%s: %s; nothing was changed. If the role cannot be restored, use --terminate to terminate the instances that remain with your AWS credentials", is, mend)
}

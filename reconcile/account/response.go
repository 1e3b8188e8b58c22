package account

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/provision/owners"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
)

const (
	// maxProtected is how many instances are protected, and protectionCalls how many requests one reconcile makes for that.
	maxProtected, protectionCalls = 2000, 25
	// protectAgain is when the next reconcile continues.
	protectAgain = time.Second
)

// ProtectionCloud is the AWS client of a Response.
type ProtectionCloud interface {
	TerminationProtected(ctx context.Context, providerID string) (bool, error)
	SetTerminationProtection(ctx context.Context, id string, on bool) error
}

// Response carries out spec.guard.onIdentityConflict in one reconcile of one NodeSync: Protect and StopController. What
// it will do is recorded in the status first, and done by a later reconcile that finds it there; so a daemon that is
// killed loses nothing of it. Freeze is part of the plan (plan.Policy.Conflict).
type Response struct {
	finding.Findings

	Writer client.Writer
	// Controllers returns the Deployments of Karpenter's controller.
	Controllers func(context.Context) ([]appsv1.Deployment, error)
	// Cloud returns the client of the region.
	Cloud       func(context.Context) (ProtectionCloud, error)
	StillLeader func(context.Context) error
	// On is the setting. External reports whether another tool installs Karpenter, and Deleting whether the NodeSync is
	// being deleted or drained: then nothing stays protected.
	On                 v1alpha1.OnIdentityConflict
	External, Deleting bool
	// Claims are the NodeClaims of the NodeSync's pools.
	Claims []plan.NodeClaim
	// Recorded is the response in the status that was read.
	Recorded v1alpha1.IdentityResponse
	Memory   *ResponseMemory
	Now      time.Time
	Retry    time.Duration

	calls    int
	failures []string
	// stopped reports whether an error was not about one instance.
	stopped bool
}

// ResponseMemory is kept from one reconcile to the next. Losing it costs requests.
type ResponseMemory struct {
	// protected are the IDs of instances whose protection was enabled, and kept those that another client had protected.
	protected, kept map[string]bool
	// failed are those for which the last request has failed: the others come first.
	failed map[string]bool
	// stopped is when the controller was last scaled to 0.
	stopped time.Time
}

// Run returns the new response to a conflict, which is nil or not open if there is none.
func (r *Response) Run(ctx context.Context, c *v1alpha1.IdentityConflict) *v1alpha1.IdentityResponse {
	next := v1alpha1.IdentityResponse{}
	wanted := r.wanted(c)
	if len(wanted)+len(r.Recorded.Protected) > 0 {
		next.Protected = r.protect(ctx, wanted)
	} else {
		r.Memory.protected, r.Memory.kept = nil, nil
	}
	next.Stopped = r.stop(ctx, c)
	next.Failure = finding.Bounded(strings.Join(r.failures, "; "), maxMessage)
	if next.Failure != "" && next.Failure != r.Recorded.Failure {
		r.Warn(v1alpha1.ReasonIdentityResponse, next.Failure)
	}
	if len(next.Protected) == 0 && next.Stopped == nil && next.Failure == "" {
		return nil
	}
	return &next
}

// wanted returns the providerIDs of the instances to protect, by ID: the on-demand ones whose NodeClaim is not being
// deleted. EC2 does not protect spot instances:
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/Using_ChangingDisableAPITermination.html
func (r *Response) wanted(c *v1alpha1.IdentityConflict) map[string]string {
	wanted := map[string]string{}
	if !c.Open() || r.On != v1alpha1.IdentityConflictProtect || r.Deleting {
		return wanted
	}
	for i := range r.Claims {
		claim := &r.Claims[i]
		_, id, err := cloud.ParseProviderID(claim.ProviderID)
		if err == nil && !claim.Deleting && claim.Labels.Map()[karpv1.CapacityTypeLabelKey] != karpv1.CapacityTypeSpot {
			wanted[id] = claim.ProviderID
		}
	}
	return wanted
}

// protect disables the protection of recorded instances that are no longer wanted, enables that of recorded ones that
// are, and records others. It returns those to record.
func (r *Response) protect(ctx context.Context, wanted map[string]string) (record []string) {
	aws, err := r.Cloud(ctx)
	if err != nil {
		r.fail("reach EC2", err)
		return r.Recorded.Protected
	}
	if r.Memory.protected == nil {
		r.Memory.protected, r.Memory.kept, r.Memory.failed = map[string]bool{}, map[string]bool{}, map[string]bool{}
	}
	recorded := slices.Clone(r.Recorded.Protected)
	slices.SortStableFunc(recorded, func(a, b string) int { // what Karpenter may terminate comes first
		return cmp.Or(compareBool(r.Memory.failed[a], r.Memory.failed[b]), compareBool(wanted[a] != "", wanted[b] != ""))
	})
	for _, id := range recorded {
		_, stays := wanted[id]
		if stays != r.Memory.protected[id] || !stays {
			stays = r.set(ctx, aws, id, stays)
		}
		if stays {
			record = append(record, id)
		}
	}
	slices.Sort(record)
	fresh := 0
	for _, id := range sortedKeys(wanted) {
		switch {
		case r.Memory.kept[id] || slices.Contains(r.Recorded.Protected, id):
		case len(record) >= maxProtected:
			r.failures = append(r.failures, fmt.Sprintf("only %d instances are protected", maxProtected))
			return record
		case r.mayCall() && r.unprotected(ctx, aws, id, wanted[id]):
			record, fresh = append(record, id), fresh+1
		}
	}
	if fresh > 0 {
		r.Event(v1alpha1.ReasonIdentityResponse, "enabling EC2's termination protection of "+english.Plural(fresh, "instance", "")+" until the identity conflict is over")
		r.WakeBy(r.Now)
	}
	return record
}

// unprotected reports whether an instance exists and is not protected. One that another client has protected is kept as it
// is.
func (r *Response) unprotected(ctx context.Context, aws ProtectionCloud, id, providerID string) bool {
	protected, err := aws.TerminationProtected(ctx, providerID)
	switch {
	case isGone(err):
		return false
	case err != nil:
		r.fail("read whether instance "+id+" is protected from termination", err)
		return false
	case protected:
		r.Memory.kept[id] = true
	}
	return !protected
}

// set enables or disables the protection of a recorded instance, and reports whether it stays recorded.
func (r *Response) set(ctx context.Context, aws ProtectionCloud, id string, on bool) (stays bool) {
	if !r.mayCall() {
		return true
	}
	err := r.StillLeader(ctx)
	if err == nil {
		err = aws.SetTerminationProtection(ctx, id, on)
	}
	if r.Memory.failed[id] = err != nil; err == nil {
		delete(r.Memory.failed, id)
	}
	var answer *cloud.AnswerError
	switch {
	case isGone(err), on && errors.As(err, &answer) && answer.Code == "UnsupportedOperation":
		r.Memory.kept[id] = on // it is not tried again
		return false
	case err != nil && on:
		r.fail("protect instance "+id+" from termination", err)
		return true
	case err != nil:
		r.fail("disable the termination protection of instance "+id, err)
		return true
	}
	if r.Memory.protected[id] = on; !on {
		delete(r.Memory.protected, id)
	}
	return on
}

// mayCall reports whether this reconcile may make another request. After an error that is not about one instance it makes
// none.
func (r *Response) mayCall() bool {
	if r.stopped {
		return false
	}
	if r.calls++; r.calls > protectionCalls {
		r.WakeBy(r.Now.Add(protectAgain))
		return false
	}
	return true
}

// fail notes why something could not be done.
func (r *Response) fail(what string, err error) {
	words := fmt.Sprintf("%s: %v", what, err)
	if errors.As(err, new(*cloud.DeniedError)) {
		words += ": attach manifests/iam-policy-protect.json to plumbline's role"
	}
	var answer *cloud.AnswerError
	r.stopped = r.stopped || !errors.As(err, new(*cloud.DeniedError)) && !errors.As(err, &answer)
	r.failures = append(r.failures, words)
	r.WakeBy(r.Now.Add(r.Retry))
}

// compareBool sorts false before true.
func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// isGone reports whether EC2 does not know the instance, or has terminated it: it needs no protection any more.
func isGone(err error) bool {
	var answer *cloud.AnswerError
	return errors.As(err, &answer) && (strings.HasPrefix(answer.Code, "InvalidInstanceID") || answer.Code == "IncorrectInstanceState")
}

func sortedKeys(of map[string]string) []string {
	keys := make([]string, 0, len(of))
	for key := range of {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// stop scales Karpenter's controller to 0 if the conflict is proven, and restores it once a person has resolved the
// conflict or changed the setting. It returns what to record.
func (r *Response) stop(ctx context.Context, c *v1alpha1.IdentityConflict) *v1alpha1.StoppedController {
	recorded := r.Recorded.Stopped
	stops := r.stops(c)
	switch {
	case r.Deleting || !stops && recorded == nil:
		return recorded
	case stops && r.External:
		r.failures = append(r.failures, "Karpenter's controller is not stopped: another tool installs it, and would revert that (management: External); stop it there")
		return nil
	}
	deployments, err := r.Controllers(ctx)
	if err != nil {
		r.fail("find Karpenter's controller", err)
		return recorded
	}
	if recorded == nil {
		return r.toStop(deployments)
	}
	at := slices.IndexFunc(deployments, func(d appsv1.Deployment) bool { return d.Name == recorded.Name && d.Namespace == recorded.Namespace })
	if stops && at >= 0 {
		r.scaleDown(ctx, &deployments[at])
	}
	switch {
	case stops:
		return recorded
	case at >= 0 && replicasOf(&deployments[at]) == 0:
		return r.scaleUp(ctx, &deployments[at])
	}
	return nil // it is gone, or runs again
}

// stops reports whether the controller is to be stopped.
func (r *Response) stops(c *v1alpha1.IdentityConflict) bool {
	return c.Open() && c.Proven && r.On == v1alpha1.IdentityConflictStopController
}

// toStop returns the first Deployment with replicas, to record it before it is stopped; nil if there is none that plumbline
// may stop.
func (r *Response) toStop(deployments []appsv1.Deployment) *v1alpha1.StoppedController {
	at := slices.IndexFunc(deployments, func(d appsv1.Deployment) bool { return replicasOf(&d) > 0 })
	if at < 0 {
		return nil
	}
	d := &deployments[at]
	if owner := owners.Of(d); owner.Reconciles() {
		r.failures = append(r.failures, fmt.Sprintf("Karpenter's controller is not stopped: Deployment %s/%s is %s, which would revert that; stop it there", d.Namespace, d.Name, owner))
		return nil
	}
	r.WakeBy(r.Now)
	return &v1alpha1.StoppedController{Namespace: d.Namespace, Name: d.Name, Replicas: replicasOf(d)}
}

// scaleUp restores the replicas of the stopped Deployment, and returns what stays recorded.
func (r *Response) scaleUp(ctx context.Context, d *appsv1.Deployment) *v1alpha1.StoppedController {
	if !r.scale(ctx, d, r.Recorded.Stopped.Replicas) {
		return r.Recorded.Stopped
	}
	r.Wrote(corev1.EventTypeNormal, v1alpha1.ReasonIdentityResponse,
		fmt.Sprintf("Deployment %s/%s is scaled to %d again", d.Namespace, d.Name, r.Recorded.Stopped.Replicas))
	return nil
}

// scaleDown scales the controller to 0. If another client scales it up, that is reported, and not done again.
func (r *Response) scaleDown(ctx context.Context, d *appsv1.Deployment) {
	switch {
	case replicasOf(d) == 0:
	case !r.Memory.stopped.IsZero() && r.Now.Sub(r.Memory.stopped) > settlePeriod:
		r.failures = append(r.failures, fmt.Sprintf("Deployment %s/%s was scaled to 0, and another client has scaled it to %d: stop that client", d.Namespace, d.Name, replicasOf(d)))
	case r.scale(ctx, d, 0):
		r.Memory.stopped = r.Now
		r.Wrote(corev1.EventTypeWarning, v1alpha1.ReasonIdentityResponse, fmt.Sprintf("Deployment %s/%s is scaled to 0, so that it terminates no instance of the other cluster; no node is launched or replaced until a person runs plumbline identity --resolved",
			d.Namespace, d.Name))
	}
}

// scale sets the replicas of a Deployment.
func (r *Response) scale(ctx context.Context, d *appsv1.Deployment, replicas int32) bool {
	err := r.StillLeader(ctx)
	if err == nil {
		patch := fmt.Appendf(nil, `{"metadata":{"uid":%q},"spec":{"replicas":%d}}`, d.UID, replicas)
		err = r.Writer.Patch(ctx, d.DeepCopy(), client.RawPatch(types.MergePatchType, patch))
	}
	if err != nil {
		r.fail(fmt.Sprintf("scale Deployment %s/%s to %d", d.Namespace, d.Name, replicas), err)
	}
	return err == nil
}

func replicasOf(d *appsv1.Deployment) int32 {
	if d.Spec.Replicas == nil {
		return 1
	}
	return *d.Spec.Replicas
}

package blocker

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

var drained = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// TestRefused checks that the reason for a refused termination comes from Karpenter's log, and is inferred only without
// one.
func TestRefused(t *testing.T) {
	const sdk = "terminating instance, operation error EC2: TerminateInstances, https response error StatusCode: 400, RequestID: 7f, "
	throttles := func(code string) string {
		return "EC2 to accept the termination of i-1: the node is drained, but EC2 throttles Karpenter's requests (" + code + "), and Karpenter retries"
	}
	event := func(age time.Duration, message string) []corev1.Event {
		return []corev1.Event{{Type: corev1.EventTypeNormal, LastTimestamp: metav1.NewTime(drained.Add(-age)), Message: message}}
	}
	for name, c := range map[string]struct {
		node Node
		want string
		kind v1alpha1.BreakGlassCause
	}{
		"throttled, in the log":         {node: Node{Logged: sdk + "api error RequestLimitExceeded: Request limit exceeded."}, want: throttles("RequestLimitExceeded")},
		"throttled, by another service": {node: Node{Logged: "getting credentials, api error ThrottlingException: Rate exceeded"}, want: throttles("ThrottlingException")},
		"throttled, in an event":        {node: Node{Events: event(-time.Second, "RequestLimitExceeded: Request limit exceeded")}, want: throttles("RequestLimitExceeded")},
		"throttled, in a condition":     {node: Node{Waits: []string{"InstanceTerminating: api error Throttling: Rate exceeded"}}, want: throttles("Throttling")},
		"throttled before, at its launch": {
			node: Node{Events: event(time.Hour, "api error RequestLimitExceeded: Request limit exceeded")},
			want: "EC2 does not accept it, although the instance is not protected: EC2 denies ec2:TerminateInstances to Karpenter's role, the role is deleted, or EC2 throttles Karpenter", kind: v1alpha1.CauseDenied,
		},
		"denied": {
			node: Node{Logged: sdk + "api error UnauthorizedOperation: You are not authorized to perform this operation. User: arn:aws:sts::1:assumed-role/k/2 is not authorized to perform: ec2:TerminateInstances on resource: i-1"},
			want: "EC2 refuses Karpenter's role ec2:TerminateInstances (UnauthorizedOperation)", kind: v1alpha1.CauseDenied,
		},
		"another action is denied": {
			node: Node{Logged: "operation error EC2: DescribeInstances, https response error StatusCode: 403, RequestID: 1, api error UnauthorizedOperation: You are not authorized to perform this operation."},
			want: "EC2 refuses Karpenter's role ec2:DescribeInstances (UnauthorizedOperation)", kind: v1alpha1.CauseDenied,
		},
		"the role is gone": {
			node: Node{Logged: "operation error EC2: TerminateInstances, get identity: get credentials: operation error STS: AssumeRoleWithWebIdentity, https response error StatusCode: 403, RequestID: 1, api error AccessDenied: Not authorized to perform sts:AssumeRoleWithWebIdentity"},
			want: "EC2 refuses Karpenter's role sts:AssumeRoleWithWebIdentity (AccessDenied)", kind: v1alpha1.CauseDenied,
		},
		"protected, and EC2 was not asked": {
			node: Node{Logged: sdk + "api error OperationNotPermitted: The instance 'i-1' may not be terminated."},
			want: "EC2 protects it from termination", kind: v1alpha1.CauseProtected,
		},
		"something else": {node: Node{Logged: sdk + "api error InternalError: An internal error has occurred."}, want: "EC2 returns InternalError to Karpenter: An internal error has occurred"},
		"a zonal shift": {
			node: Node{Logged: "instance i-1 is in zonally shifted availability zone eu-west-1a (euw1-az1), skipping termination"},
			want: "Karpenter to terminate instance i-1: the node is drained, but Karpenter terminates no instance in a zone with an active zonal shift",
		},
	} {
		t.Run(name, func(t *testing.T) {
			c.node.ProviderID, c.node.Drained, c.node.Protection = "aws:///eu-west-1a/i-1", drained, Unprotected
			got := c.node.WaitsFor(Evidence{Now: drained.Add(time.Minute)})
			if !strings.Contains(got.Words, c.want) || got.Kind != c.kind {
				t.Errorf("%q, as %q; want %q as %q", got.Words, got.Kind, c.want, c.kind)
			}
		})
	}
}

// TestLastError checks that the latest error about the node is returned, and none from before the end of its drain.
func TestLastError(t *testing.T) {
	const log = `{"level":"ERROR","time":"2026-01-01T11:59:00.000Z","message":"Reconciler error","NodeClaim":{"name":"before"},"error":"old"}
{"level":"ERROR","time":"2026-01-01T12:00:01.000Z","message":"Reconciler error","NodeClaim":{"name":"a"},"error":"first"}
{"level":"ERROR","time":"2026-01-01T12:00:02.000Z","message":"Reconciler error","NodeClaim":{"name":"a"},"error":"second Encoded authorization failure message: x8s"}
{"level":"INFO","time":"2026-01-01T12:00:03.000Z","message":"tainted node","NodeClaim":{"name":"a"}}
{"level":"ERROR","time":"2026-01-01T12:00:04.000Z","message":"Reconciler error","NodeClaim":{"name":"ab"},"error":"of another"}
panic: "a"
{"level":"ERROR","NodeClaim":{"name":"cut-off`
	for name, want := range map[string]string{"a": "second", "ab": "of another", "before": "", "b": "", "": "", "cut-off": ""} {
		if got := lastError(log, drained, name); got != want {
			t.Errorf("of %q: %q, want %q", name, got, want)
		}
	}
	if got := lastError(log, drained, "none", "ab"); got != "of another" {
		t.Errorf("by the name of its node: %q", got)
	}
}

// silent returns an empty result for every LIST.
type silent struct{ client.Reader }

func (silent) List(context.Context, client.ObjectList, ...client.ListOption) error { return nil }

// TestLookReadsTheLog checks that the log is read only if EC2 does not accept a termination.
func TestLookReadsTheLog(t *testing.T) {
	read := 0
	look := Look{
		Reader: silent{}, Now: drained.Add(RefusedAfter),
		Protected: func(context.Context, string) (bool, error) { return false, errors.New("denied") },
		Log: func(context.Context) string {
			read++
			return `{"NodeClaim":{"name":"a"},"error":"api error RequestLimitExceeded: Request limit exceeded."}`
		},
	}
	found, err := look.At(t.Context(), []Node{{Claim: "b"}, {Claim: "c", Drained: drained.Add(time.Second)}, {Claim: "a", Drained: drained}})
	if err != nil || read != 1 || found.Nodes[2].throttled() != "RequestLimitExceeded" {
		t.Errorf("%d reads, %v: %+v", read, err, found.Nodes)
	}
}

// TestRefusedCredentials checks that the latest error is returned because of which no instance can be terminated, among
// many others.
func TestRefusedCredentials(t *testing.T) {
	since := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	const (
		describe = `"error":"listing instances, describing ec2 instances, operation error EC2: DescribeInstances, https response error StatusCode: 403, RequestID: 8f, api error UnauthorizedOperation: You are not authorized to perform this operation. User: arn:aws:sts::111122223333:assumed-role/karpenter/x is not authorized to perform: ec2:DescribeInstances because no identity-based policy allows it. Encoded authorization failure message: x8s"`
		assume   = `"error":"operation error EC2: DescribeInstances, get identity: get credentials: failed to refresh cached credentials, failed to retrieve credentials, operation error STS: AssumeRoleWithWebIdentity, https response error StatusCode: 403, RequestID: 8f, api error AccessDenied: Not authorized to perform sts:AssumeRoleWithWebIdentity"`
	)
	for name, c := range map[string]struct{ log, want string }{
		"nothing": {`{"level":"INFO","time":"2026-01-01T12:00:01Z","message":"found provisionable pod(s)"}`, ""},
		"may not ask for instances": {
			`{"level":"ERROR","time":"2026-01-01T12:00:01Z","message":"Reconciler error",` + describe + `}`,
			"ec2:DescribeInstances: UnauthorizedOperation: You are not authorized to perform this operation. User: arn:aws:sts::111122223333:assumed-role/karpenter/x is not authorized to perform: ec2:DescribeInstances because no identity-based policy allows it",
		},
		"may not assume its role": {
			`{"level":"ERROR","time":"2026-01-01T12:00:01Z",` + assume + `}`,
			"sts:AssumeRoleWithWebIdentity: AccessDenied: Not authorized to perform sts:AssumeRoleWithWebIdentity",
		},
		"has no token": {
			`{"level":"ERROR","time":"2026-01-01T12:00:01Z","error":"operation error SSM: GetParameter, get identity: get credentials: failed to refresh cached credentials, no EC2 IMDS role found"}`,
			"operation error SSM: GetParameter, get identity: get credentials: failed to refresh cached credentials, no EC2 IMDS role found",
		},
		"keys that AWS does not know": {
			`{"level":"ERROR","time":"2026-01-01T12:00:01Z","error":"operation error Pricing: GetProducts, https response error StatusCode: 400, RequestID: 8f, api error UnrecognizedClientException: The security token included in the request is invalid."}`,
			"pricing:GetProducts: UnrecognizedClientException: The security token included in the request is invalid",
		},
		"lacks another action": {`{"level":"ERROR","time":"2026-01-01T12:00:01Z","error":"operation error EC2: CreateFleet, https response error StatusCode: 403, RequestID: 8f, api error UnauthorizedOperation: You are not authorized"}`, ""},
		"is throttled":         {`{"level":"ERROR","time":"2026-01-01T12:00:01Z","error":"operation error EC2: DescribeInstances, https response error StatusCode: 503, RequestID: 8f, api error RequestLimitExceeded: Request limit exceeded."}`, ""},
		"long ago":             {`{"level":"ERROR","time":"2026-01-01T11:59:59Z",` + describe + `}`, ""},
		"the newest": {
			`{"level":"ERROR","time":"2026-01-01T12:00:02Z",` + assume + "}\n" + `{"level":"ERROR","time":"2026-01-01T12:00:01Z",` + describe + "}\nnot JSON, \"error\"",
			"sts:AssumeRoleWithWebIdentity: AccessDenied: Not authorized to perform sts:AssumeRoleWithWebIdentity",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			if found := RefusedCredentials(c.log, since); found != nil {
				got = found.Words
			}
			if got != c.want {
				t.Errorf("%q\nwant %q", got, c.want)
			}
		})
	}
}

// TestGlass checks the command for each cause, for a node that Karpenter is terminating and one that it has not started
// on. The NodeClaim of the latter is deleted first, because otherwise the annotation has no effect; if a pod must not
// be disrupted, the command removes that protection, and Karpenter starts by itself.
func TestGlass(t *testing.T) {
	const (
		annotate = "kubectl annotate nodeclaim general-1 --overwrite karpenter.sh/nodeclaim-termination-timestamp=$(date -u +%Y-%m-%dT%H:%M:%SZ)"
		first    = "kubectl delete nodeclaim general-1 --wait=false && " + annotate
		free     = "kubectl annotate pod web -n shop karpenter.sh/do-not-disrupt-"
		patch    = `kubectl patch node/node-1 --type=merge --patch '{"metadata":{"finalizers":null}}'`
		without  = "Karpenter does not launch a replacement first; "
	)
	risks := map[v1alpha1.BreakGlassCause]string{
		v1alpha1.CauseBudget:       "Karpenter deletes all pods of the node regardless of PodDisruptionBudgets: the workload has too few pods until they run elsewhere",
		v1alpha1.CauseDoNotDisrupt: "the pod is evicted, and its work is lost unless it can resume elsewhere",
		v1alpha1.CauseFinalizer:    "the node terminates before the finalizer's controller is done with the pod; the Pod object stays until then",
		v1alpha1.CausePod:          "Karpenter deletes all pods of the node, regardless of PodDisruptionBudgets and of the remaining grace period",
		v1alpha1.CauseVolume:       "the instance is terminated with the volume mounted: unwritten data is lost, and the file system may need repair",
		v1alpha1.CauseProtected:    "the instance was protected on purpose: find out who protected it and what runs on it",
		v1alpha1.CauseDenied:       "the command uses your AWS credentials and bypasses the policy that denies it to Karpenter; that policy denies it for the next node, too",
	}
	for kind, c := range map[v1alpha1.BreakGlassCause]struct{ ending, stays string }{
		v1alpha1.CauseBudget:       {annotate, first},
		v1alpha1.CauseDoNotDisrupt: {free, free},
		v1alpha1.CauseFinalizer:    {annotate, first},
		v1alpha1.CausePod:          {annotate, first},
		v1alpha1.CauseVolume:       {annotate, first},
		v1alpha1.CauseProtected:    {"aws ec2 modify-instance-attribute --instance-id i-1 --no-disable-api-termination", "aws ec2 modify-instance-attribute --instance-id i-1 --no-disable-api-termination"},
		v1alpha1.CauseDenied:       {"aws ec2 terminate-instances --instance-ids i-1", "aws ec2 terminate-instances --instance-ids i-1"},
	} {
		for stays, command := range map[bool]string{false: c.ending, true: c.stays} {
			want := v1alpha1.BreakGlass{Node: "node-1", Cause: kind, Command: command, Risk: risks[kind]}
			if command == first {
				want.Risk = without + want.Risk
			}
			n := &Node{Claim: "general-1", Name: "node-1", ProviderID: "aws:///eu-west-1a/i-1", Stays: stays}
			got, is := BreakGlass(n, Cause{Kind: kind, Name: "web", Namespace: "shop", Object: "node/node-1"})
			if diff := cmp.Diff(want, got); diff != "" || !is {
				t.Errorf("%s, stays %t: %t (-want +got):\n%s", kind, stays, is, diff)
			}
		}
	}
	if g, is := BreakGlass(&Node{Claim: "general-1"}, Cause{Words: "Karpenter to terminate it"}); is {
		t.Errorf("a cause that no command is for: %+v", g)
	}
}

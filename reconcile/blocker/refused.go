package blocker

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"

	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/cluster"
)

// AWS's error codes for a refused termination: Karpenter's role is not authorized, or the instance is protected.
const (
	unauthorized = "UnauthorizedOperation"
	notPermitted = "OperationNotPermitted"
)

// refused returns why EC2 does not accept the termination of a drained node. Karpenter only reports it in its log: the
// error of cloudProvider.Delete becomes the error of the reconcile, but is in no condition and no event (finalize in
// sigs.k8s.io/karpenter pkg/controllers/nodeclaim/lifecycle/controller.go). If the log cannot be read, refused depends
// on whether EC2 protects the instance.
func (n *Node) refused(e Evidence) Cause {
	waits := fmt.Sprintf("EC2 to accept the termination of %s: the node is drained, but EC2 ", cloud.InstanceID(n.ProviderID))
	if code := n.throttled(); code != "" {
		return Cause{Words: waits + "throttles Karpenter's requests (" + code + "), and Karpenter retries", Passing: true}
	}
	logged := apiError.FindStringSubmatch(n.Logged)
	switch {
	case n.Protection == Protected, logged != nil && logged[1] == notPermitted:
		return Cause{Words: waits + "protects it from termination (disableApiTermination)", Kind: v1alpha1.CauseProtected}
	case logged != nil && (logged[1] == unauthorized || strings.HasPrefix(logged[1], "AccessDenied")):
		return Cause{
			Words: fmt.Sprintf("%srefuses Karpenter's role %s (%s)", waits, cmp.Or(actionOf(n.Logged), "ec2:TerminateInstances"), logged[1]),
			Kind:  v1alpha1.CauseDenied,
		}
	case logged != nil:
		return Cause{Words: fmt.Sprintf("%sreturns %s to Karpenter: %s", waits, logged[1], strings.TrimSuffix(logged[2], "."))}
	case strings.Contains(n.Logged, zonalShift):
		return Cause{Words: fmt.Sprintf("Karpenter to terminate instance %s: the node is drained, but Karpenter terminates no instance in a zone with an active zonal shift", cloud.InstanceID(n.ProviderID))}
	case n.Protection == Unprotected:
		return Cause{Words: waits + "does not accept it, although the instance is not protected: EC2 denies ec2:TerminateInstances to Karpenter's role, the role is deleted, or EC2 throttles Karpenter; see the log of Karpenter's controller", Kind: v1alpha1.CauseDenied}
	}
	return Cause{
		Words:   waits + "refuses it (OperationNotPermitted: termination protection; UnauthorizedOperation: ec2:TerminateInstances is not allowed; RequestLimitExceeded: throttling); see the log of Karpenter's controller",
		Passing: e.Now.Before(n.Drained.Add(RefusedAfter)),
	}
}

// zonalShift is in Karpenter's error about an instance that it does not terminate during a zonal shift
// (github.com/aws/karpenter-provider-aws pkg/providers/instance/instance.go, Delete, since 1.14).
const zonalShift = "zonally shifted availability zone"

// apiError finds AWS's code and message in an error of the SDK; both are the same for repeated requests.
var apiError = regexp.MustCompile(`api error ([A-Za-z.]+): ([^\n]*)`)

// throttled returns the code with which AWS throttles the termination of a drained node, as Karpenter reports it; empty
// if AWS does not. Earlier events, such as of a launch, do not count.
func (n *Node) throttled() string {
	said := append([]string{n.Logged}, n.Waits...)
	for i := range n.Events {
		if !n.Events[i].LastTimestamp.Time.Before(n.Drained) {
			said = append(said, n.Events[i].Message)
		}
	}
	for _, message := range said {
		words := strings.FieldsFunc(message, func(r rune) bool { return !unicode.IsLetter(r) })
		if i := slices.IndexFunc(words, cloud.Throttles); i >= 0 {
			return words[i]
		}
	}
	return ""
}

// line contains the parsed fields of a line of Karpenter's log.
type line struct {
	Time  time.Time `json:"time"`
	Error string    `json:"error"`
}

// lastError returns the latest error in Karpenter's log since a time that is about one of these names; empty if there
// is none. It skips lines that are not JSON.
func lastError(log string, since time.Time, names ...string) string {
	lines := strings.Split(log, "\n")
	for i := range slices.Backward(lines) {
		about := func(name string) bool { return name != "" && strings.Contains(lines[i], `"`+name+`"`) }
		var l line
		if !slices.ContainsFunc(names, about) || json.Unmarshal([]byte(lines[i]), &l) != nil || l.Error == "" {
			continue
		}
		if !l.Time.IsZero() && l.Time.Before(since) {
			return ""
		}
		text, _, _ := strings.Cut(l.Error, " Encoded authorization failure message")
		return text
	}
	return ""
}

// RefusedWithin is the maximum age of an error in Karpenter's log that reports that its credentials are refused: a
// failing loop is retried after 1000 s at the latest (k8s.io/client-go util/workqueue/default_rate_limiters.go).
const RefusedWithin = 1000 * time.Second

// Refusal is AWS's response to Karpenter's credentials, and its time.
type Refusal struct {
	Time  time.Time
	Words string
}

// RefusedCredentials finds, in the end of the log of a running Karpenter controller, the latest error because of which
// it cannot terminate an instance: AWS gives it no credentials or refuses them, or its role may not describe or
// terminate instances. The controller describes all instances every two minutes (sigs.k8s.io/karpenter
// pkg/controllers/nodeclaim/garbagecollection/controller.go). It is nil if the log has no such error since a time.
func RefusedCredentials(log string, since time.Time) *Refusal {
	var newest *Refusal
	for text := range strings.SplitSeq(log, "\n") {
		var l line
		if !strings.Contains(text, `"error"`) || json.Unmarshal([]byte(text), &l) != nil || !refusesAll(l.Error) {
			continue
		}
		if l.Time.Before(since) || newest != nil && l.Time.Before(newest.Time) {
			continue
		}
		newest = &Refusal{Time: l.Time, Words: answerOf(l.Error)}
	}
	return newest
}

// noCredentials are the codes with which AWS rejects a caller's credentials:
// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html
var noCredentials = []string{
	"AuthFailure", "ExpiredToken", "ExpiredTokenException", "InvalidClientTokenId", "InvalidIdentityToken", "RequestExpired",
	"UnrecognizedClientException",
}

// terminatesInstances finds the requests that are needed to terminate an instance.
var terminatesInstances = regexp.MustCompile(`operation error EC2: (DescribeInstances|TerminateInstances)\b`)

// refusesAll reports whether an error prevents Karpenter from terminating any instance.
func refusesAll(message string) bool {
	if strings.Contains(message, "failed to refresh cached credentials") {
		return true // the SDK had no credentials to send, and says why
	}
	logged := apiError.FindStringSubmatch(message)
	switch {
	case logged == nil:
		return false
	case slices.Contains(noCredentials, logged[1]):
		return true
	}
	return terminatesInstances.MatchString(message) && (logged[1] == unauthorized || strings.HasPrefix(logged[1], "AccessDenied"))
}

// answerOf returns AWS's response without the request ID, or the whole error if it is not AWS's.
func answerOf(message string) string {
	message, _, _ = strings.Cut(message, " Encoded authorization failure message")
	logged := apiError.FindStringSubmatch(message)
	if logged == nil {
		return message
	}
	words := logged[1] + ": " + strings.TrimSuffix(logged[2], ".")
	if action := actionOf(message); action != "" {
		return action + ": " + words
	}
	return words
}

// deletes is the prefix of the command that makes Karpenter start on a node.
const deletes = "kubectl delete nodeclaim "

// BreakGlass returns the command for a cause, with its risk; false if there is none. It is the table in
// docs/runbooks/PlumblineStalled.md.
func BreakGlass(n *Node, c Cause) (v1alpha1.BreakGlass, bool) {
	g := v1alpha1.BreakGlass{Node: cmp.Or(n.Name, n.Claim), Cause: c.Kind, Command: cluster.TerminateNow(n.Claim)}
	if n.Stays { // Karpenter has not started, and only reads the annotation of a NodeClaim that is deleted
		g.Command = deletes + n.Claim + " --wait=false && " + g.Command
	}
	instance := cloud.InstanceID(n.ProviderID)
	switch c.Kind {
	case v1alpha1.CauseBudget:
		g.Risk = "Karpenter deletes all pods of the node regardless of PodDisruptionBudgets: the workload has too few pods until they run elsewhere"
	case v1alpha1.CauseDoNotDisrupt:
		g.Command = fmt.Sprintf("kubectl annotate pod %s -n %s %s-", c.Name, c.Namespace, karpv1.DoNotDisruptAnnotationKey)
		g.Risk = "the pod is evicted, and its work is lost unless it can resume elsewhere"
	case v1alpha1.CauseFinalizer:
		g.Risk = "the node terminates before the finalizer's controller is done with the pod; the Pod object stays until then"
	case v1alpha1.CausePod:
		g.Risk = "Karpenter deletes all pods of the node, regardless of PodDisruptionBudgets and of the remaining grace period"
	case v1alpha1.CauseVolume:
		g.Risk = "the instance is terminated with the volume mounted: unwritten data is lost, and the file system may need repair"
	case v1alpha1.CauseProtected:
		g.Command = fmt.Sprintf("aws ec2 modify-instance-attribute --instance-id %s --no-disable-api-termination", instance)
		g.Risk = "the instance was protected on purpose: find out who protected it and what runs on it"
	case v1alpha1.CauseObjectFinalizer:
		g.Command = RemoveFinalizers(c.Object)
		g.Risk = "the finalizer's controller does not finish its work for the object"
	case v1alpha1.CauseDenied:
		g.Command = "aws ec2 terminate-instances --instance-ids " + instance
		g.Risk = "the command uses your AWS credentials and bypasses the policy that denies it to Karpenter; that policy denies it for the next node, too"
	default:
		return v1alpha1.BreakGlass{}, false
	}
	if strings.HasPrefix(g.Command, deletes) {
		g.Risk = "Karpenter does not launch a replacement first; " + g.Risk
	}
	return g, true
}

// RemoveFinalizers returns the command that removes all finalizers of an object, named as for kubectl: kind/name.
func RemoveFinalizers(object string) string {
	return fmt.Sprintf(`kubectl patch %s --type=merge --patch '{"metadata":{"finalizers":null}}'`, object)
}

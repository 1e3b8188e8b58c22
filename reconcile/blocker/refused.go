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

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

// Codes of AWS that refuse a termination: one of Karpenter's role, and one of a protected instance.
const (
	unauthorized = "UnauthorizedOperation"
	notPermitted = "OperationNotPermitted"
)

// refused says why EC2 does not take the termination of a node that is drained. Karpenter tells it
// in its log only: what cloudProvider.Delete returns is the error of the reconcile, and in no condition
// and no event (finalize in sigs.k8s.io/karpenter pkg/controllers/nodeclaim/lifecycle/controller.go). Where
// the log cannot be read, it goes by whether EC2 protects the instance.
func (n *Node) refused(e Evidence) Cause {
	waits := fmt.Sprintf("EC2 to take the termination of %s: it is drained, and EC2 ", cloud.InstanceID(n.ProviderID))
	if code := n.throttled(); code != "" {
		return Cause{Words: waits + "throttles Karpenter's requests (" + code + "), and Karpenter tries again by itself", Passing: true}
	}
	logged := apiError.FindStringSubmatch(n.Logged)
	switch {
	case n.Protection == Protected, logged != nil && logged[1] == notPermitted:
		return Cause{Words: waits + "protects it from termination (disableApiTermination)", Kind: v1alpha1.CauseProtected}
	case logged != nil && (logged[1] == unauthorized || strings.HasPrefix(logged[1], "AccessDenied")):
		return Cause{Words: fmt.Sprintf("%srefuses Karpenter's role %s (%s)", waits, cmp.Or(actionOf(n.Logged), "ec2:TerminateInstances"), logged[1]), Kind: v1alpha1.CauseDenied}
	case logged != nil:
		return Cause{Words: fmt.Sprintf("%sanswers Karpenter with %s: %s", waits, logged[1], strings.TrimSuffix(logged[2], "."))}
	case strings.Contains(n.Logged, zonalShift):
		return Cause{Words: fmt.Sprintf("Karpenter to end instance %s: it is drained, and in a zone from which traffic is shifted away, where Karpenter ends none", cloud.InstanceID(n.ProviderID))}
	case n.Protection == Unprotected:
		return Cause{Words: waits + "does not protect it, so that it refuses Karpenter's role ec2:TerminateInstances, or that role is gone, or it throttles Karpenter; the log of Karpenter's controller has its message", Kind: v1alpha1.CauseDenied}
	}
	return Cause{
		Words:   waits + "refuses it (OperationNotPermitted for termination protection, UnauthorizedOperation without ec2:TerminateInstances, RequestLimitExceeded where it throttles); the log of Karpenter's controller has its message",
		Passing: e.Now.Before(n.Drained.Add(RefusedAfter)),
	}
}

// zonalShift is what Karpenter's error says of an instance that it does not end during a zonal shift
// (github.com/aws/karpenter-provider-aws pkg/providers/instance/instance.go, Delete, since 1.14).
const zonalShift = "zonally shifted availability zone"

// apiError finds the code and the sentence of AWS in an error of the SDK; both stay the same from one
// request to the next.
var apiError = regexp.MustCompile(`api error ([A-Za-z.]+): ([^\n]*)`)

// throttled is the code by which AWS throttles the end of a node that is drained, as Karpenter tells it; empty where
// it does not. What an event says of the time before, such as of a launch, is not of that.
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

// line is what is read of a line of Karpenter's log.
type line struct {
	Time  time.Time `json:"time"`
	Error string    `json:"error"`
}

// lastError is the newest error in Karpenter's log since a time that is about one of these names; empty
// where there is none. Lines that are not JSON are passed over.
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

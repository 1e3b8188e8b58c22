package blocker

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"time"
)

// RefusedWithin is how old an error in Karpenter's log may be that says that its credentials are refused: a loop that fails is
// tried again after 1000 s at the latest (k8s.io/client-go util/workqueue/default_rate_limiters.go).
const RefusedWithin = 1000 * time.Second

// Refusal is what AWS has answered to Karpenter's credentials, and when.
type Refusal struct {
	Time  time.Time
	Words string
}

// RefusedCredentials finds, in the end of the log of a controller of Karpenter's that runs, the newest error by which it may not
// end an instance: AWS gives it no credentials or refuses them, or its role may not ask for instances or end them. It asks
// for all instances every two minutes (sigs.k8s.io/karpenter pkg/controllers/nodeclaim/garbagecollection/controller.go).
// Nil where the log has none since then.
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

// noCredentials are the codes by which AWS takes a caller's credentials for none:
// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html
var noCredentials = []string{
	"AuthFailure", "ExpiredToken", "ExpiredTokenException", "InvalidClientTokenId", "InvalidIdentityToken", "RequestExpired",
	"UnrecognizedClientException",
}

// endsInstances finds the requests without which no instance ends.
var endsInstances = regexp.MustCompile(`operation error EC2: (DescribeInstances|TerminateInstances)\b`)

// refusesAll says that an error of Karpenter's keeps it from ending any instance.
func refusesAll(message string) bool {
	if strings.Contains(message, "failed to refresh cached credentials") {
		return true // the SDK had none to send, and says why
	}
	logged := apiError.FindStringSubmatch(message)
	switch {
	case logged == nil:
		return false
	case slices.Contains(noCredentials, logged[1]):
		return true
	}
	return endsInstances.MatchString(message) && (logged[1] == unauthorized || strings.HasPrefix(logged[1], "AccessDenied"))
}

// answerOf is what AWS has answered, without the request's ID; else the whole error.
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

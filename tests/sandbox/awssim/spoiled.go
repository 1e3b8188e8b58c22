package awssim

import (
	"strings"
	"time"
)

// spoiledReason is EC2's reason for an instance whose root volume it cannot decrypt:
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/troubleshooting-launch.html
const spoiledReason = "Client.InternalError: Client error on launch"

// SpoilImages makes instances of the images whose names match, with * and ? as wildcards, terminate as soon as they are
// launched, without becoming nodes. The empty pattern ends that.
func (s *Simulator) SpoilImages(pattern string) {
	s.locked(func(a *account) { a.spoiled = pattern })
}

// endSpoiled terminates an instance of a spoiled image instead of running it, and reports whether it has. The queue of
// its cluster gets an event by EventBridge's rule.
func (a *account) endSpoiled(i *instance) bool {
	image := a.images[i.spec.imageID]
	if a.spoiled == "" || image == nil || !wildcard(a.spoiled, image.name) {
		return false
	}
	a.terminate(i, spoiledReason)
	a.announceState(i)
	return true
}

// announceState sends an instance's state to the queue of its cluster.
func (a *account) announceState(i *instance) {
	event, err := a.instanceEvent("EC2 Instance State-change Notification", i, map[string]any{"instance-id": i.ID, "state": i.state})
	if err == nil { // strings can always be encoded
		a.announce(i, event)
	}
}

// userInitiated returns the reason for what a caller of EC2's API does to an instance now:
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/troubleshooting-instances-termination.html
func (a *account) userInitiated() string {
	return "User initiated (" + a.now.UTC().Format(time.DateTime) + " GMT)"
}

// reasonCode returns the code and the message of the reason why an instance was terminated.
func reasonCode(reason string) (code, message string) {
	code, _, coded := strings.Cut(reason, ": ")
	if coded && (strings.HasPrefix(code, "Client.") || strings.HasPrefix(code, "Server.")) {
		return code, reason
	}
	return "Client.UserInitiatedShutdown", "Client.UserInitiatedShutdown: User initiated shutdown"
}

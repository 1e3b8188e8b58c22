package recorder

import (
	"errors"
	"testing"
	"time"

	"github.com/plumbline-dev/plumbline/provision/cloud"
)

// TestEC2IsAsked: an instance that EC2 had ended before its NodeClaim was deleted is distinguished from one that Karpenter ended
// afterwards; and nothing is asked of one whose NodeClaim says why it ended.
func TestEC2IsAsked(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{"killed", "deleted", "drifted"} {
		w.launch(name)
	}
	must(t, w.after(time.Second))
	w.ends("i-killed")
	w.now = w.now.Add(2 * time.Minute)
	condition(w.claims["drifted"], "DisruptionReason", "Drifted", w.now)
	for _, name := range []string{"killed", "deleted", "drifted"} {
		w.delete(name)
	}
	must(t, w.after(batch))
	wants(t, w, "killed ending InstanceGone EC2 ended the instance before (Client.UserInitiatedShutdown) main@sha1:1", "drifted ending Drifted  main@sha1:1", "deleted ending ByHand  main@sha1:1")
	must(t, w.after(batch))
	if w.asked != 1 {
		t.Errorf("asked %d times while nothing has changed", w.asked)
	}
	w.now = w.now.Add(asksAgain)
	for _, name := range []string{"killed", "deleted", "drifted"} {
		w.end(name)
	}
	must(t, w.after(batch))
	wants(t, w, "killed gone InstanceGone EC2 ended the instance before (Client.UserInitiatedShutdown) main@sha1:1", "drifted gone Drifted  main@sha1:1", "deleted gone ByHand  main@sha1:1")
	must(t, w.after(settles))
	if w.asked != 2 || len(w.r.seen) != 0 {
		t.Errorf("asked %d times, %d kept", w.asked, len(w.r.seen))
	}
}

// TestEC2DoesNotAnswer: the cause is unknown, is asked for again, for some minutes after the end, and then stays unknown.
func TestEC2DoesNotAnswer(t *testing.T) {
	w := newWorld(t)
	w.launch("late")
	w.launch("never")
	must(t, w.after(time.Second))
	w.unasked = errors.New("AWS denies ec2:DescribeInstances")
	never := w.ec2["i-never"]
	w.delete("late")
	w.end("late")
	w.delete("never")
	w.end("never")
	w.ec2 = map[string]cloud.Instance{}
	must(t, w.after(batch))
	const unknown = " gone Unknown EC2 does not say whether it ended the instance before main@sha1:1"
	wants(t, w, "never"+unknown, "late"+unknown)
	must(t, w.after(settles))
	if w.asked != 1 {
		t.Errorf("asked %d times within %s", w.asked, settles)
	}
	w.unasked = nil
	w.ec2["i-late"] = cloud.Instance{ID: "i-late", Zone: "eu-west-1a", State: "terminated", Since: w.now.Add(-time.Hour), Reason: "Server.SpotInstanceTermination: Spot instance termination"}
	must(t, w.after(asksAgain))
	wants(t, w, "never"+unknown, "late gone InstanceGone EC2 ended the instance before (Server.SpotInstanceTermination) main@sha1:1")
	must(t, w.after(asksFor))
	never.State = "terminated"
	w.ec2["i-never"] = never
	asked := w.asked
	must(t, w.after(asksAgain))
	wants(t, w, "never"+unknown, "late gone InstanceGone EC2 ended the instance before (Server.SpotInstanceTermination) main@sha1:1")
	if w.asked != asked || len(w.r.seen) != 0 {
		t.Errorf("asked %d times more, %d kept", w.asked-asked, len(w.r.seen))
	}
}

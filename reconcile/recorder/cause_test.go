package recorder

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var noon = metav1.NewTime(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))

func at(after time.Duration) metav1.Time { return metav1.NewTime(noon.Add(after)) }

// drained returns the facts of a node, one hour old, that was completely drained and terminated.
func drained(change ...func(*Facts)) Facts {
	f := Facts{
		Record: Record{
			NodeClaim: "general-x7k2p", Node: "ip-10-0-0-1.ec2.internal", Instance: "i-1", Pool: "general", Created: noon,
			Deleted: at(time.Hour), Drained: at(time.Hour + 5*time.Second), InstanceTerminating: at(time.Hour + 6*time.Second), Gone: at(time.Hour + 10*time.Second),
		},
		EC2: Answer{Ran: true},
	}
	for _, c := range change {
		c(&f)
	}
	return f
}

// ec2 makes EC2 report that it started to terminate the instance some time after the deletion.
func ec2(code string, after time.Duration) func(*Facts) {
	return func(f *Facts) { f.EC2 = Answer{Ended: true, Code: code, Began: f.Deleted.Add(after)} }
}

func silent(f *Facts) { f.EC2 = Answer{} }

// undrained changes the facts to those of a node whose instance Karpenter did not find.
func undrained(f *Facts) { f.Drained = metav1.Time{} }

func nodeless(f *Facts) { f.NodeGone = true }

func unlaunched(f *Facts) {
	undrained(f)
	f.Node, f.Instance, f.InstanceTerminating = "", "", metav1.Time{}
}

func aged(age time.Duration) func(*Facts) { return func(f *Facts) { f.Deleted = at(age) } }

func says(events ...string) func(*Facts) { return func(f *Facts) { f.Events = events } }

func annotated(f *Facts) { f.Terminate = f.Deleted.Time }

func TestJudge(t *testing.T) {
	drift := func(f *Facts) { f.DisruptionReason, f.DriftReason = "Drifted", "NodePoolDrifted" }
	for name, c := range map[string]struct {
		facts  Facts
		cause  Cause
		detail string
	}{
		"drift":                     {drained(drift), Drifted, "NodePoolDrifted"},
		"drift, the reason unseen":  {drained(func(f *Facts) { f.DisruptionReason = "Drifted" }), Drifted, ""},
		"outdated, by no commit":    {drained(drift, func(f *Facts) { f.DriftInputs = "NodePoolDrifted: hash 1 → 2" }), Drifted, "NodePoolDrifted: hash 1 → 2"},
		"outdated, not disrupted":   {drained(func(f *Facts) { f.DriftReason = "AMIDrift" }), ByHand, ""},
		"empty":                     {drained(func(f *Facts) { f.DisruptionReason = "Empty" }), Empty, ""},
		"repaired within budgets":   {drained(func(f *Facts) { f.DisruptionReason = "Unhealthy" }), Unhealthy, ""},
		"underutilized":             {drained(func(f *Facts) { f.DisruptionReason = "Underutilized" }), Underutilized, ""},
		"a reason of later":         {drained(func(f *Facts) { f.DisruptionReason = "Cramped" }), Unknown, "Cramped"},
		"expired":                   {drained(func(f *Facts) { f.ExpireAfter = time.Hour }), Expired, "expireAfter 1h0m0s"},
		"not expired yet":           {drained(func(f *Facts) { f.ExpireAfter = time.Hour + time.Second }), ByHand, ""},
		"spot":                      {drained(says("SpotInterrupted", "TerminatingOnInterruption")), Interrupted, "SpotInterrupted"},
		"spot, amid a drift":        {drained(drift, says("SpotInterrupted", "TerminatingOnInterruption")), Interrupted, "SpotInterrupted"},
		"a drift, then spot":        {drained(drift, says("SpotInterrupted")), Drifted, "NodePoolDrifted"},
		"reservation":               {drained(says("TerminatingOnInterruption", "CapacityReservationInstanceInterrupted")), Interrupted, "CapacityReservationInstanceInterrupted"},
		"scheduled change":          {drained(says("InstanceUnhealthy", "TerminatingOnInterruption")), Interrupted, "InstanceUnhealthy"},
		"spot, and terminating":     {drained(says("SpotInterrupted", "InstanceTerminating", "TerminatingOnInterruption")), Interrupted, "SpotInterrupted"},
		"interrupted, by what":      {drained(says("TerminatingOnInterruption")), Interrupted, ""},
		"rebalanced only":           {drained(says("SpotRebalanceRecommendation")), ByHand, ""},
		"ended in EC2, by its bus":  {drained(says("InstanceTerminating", "TerminatingOnInterruption")), InstanceGone, "InstanceTerminating"},
		"stopped in EC2":            {drained(says("InstanceStopping", "TerminatingOnInterruption")), InstanceGone, "InstanceStopping"},
		"Karpenter's own end":       {drained(says("InstanceTerminating")), ByHand, ""},
		"ended in EC2":              {drained(undrained), InstanceGone, "its EC2 instance no longer existed before the node was drained"},
		"by hand, without a Node":   {drained(undrained, nodeless), ByHand, "its Node was already deleted"},
		"so, as EC2 ends it after":  {drained(undrained, nodeless, ec2("Client.UserInitiatedShutdown", time.Second)), ByHand, "its Node was already deleted"},
		"so, EC2 ended it before":   {drained(undrained, nodeless, ec2("Server.InternalError", -time.Minute)), InstanceGone, "its EC2 instance no longer existed before the node was drained (Server.InternalError)"},
		"so, and EC2 is silent":     {drained(undrained, nodeless, silent), InstanceGone, "its EC2 instance no longer existed before the node was drained"},
		"ended in EC2, unwatched":   {drained(undrained, func(f *Facts) { f.Missed = true }), Unknown, "its termination was not observed"},
		"ended in EC2, by whom":     {drained(undrained, ec2("Server.InternalError", -time.Minute)), InstanceGone, "its EC2 instance no longer existed before the node was drained (Server.InternalError)"},
		"collected, drained":        {drained(ec2("Client.UserInitiatedShutdown", -time.Second)), InstanceGone, "EC2 had already terminated the instance (Client.UserInitiatedShutdown)"},
		"collected, static":         {drained(ec2("Client.UserInitiatedShutdown", -time.Second), func(f *Facts) { f.Static = true }), InstanceGone, "EC2 had already terminated the instance (Client.UserInitiatedShutdown)"},
		"by hand, then ended":       {drained(ec2("Client.UserInitiatedShutdown", 0)), ByHand, ""},
		"by hand, then reclaimed":   {drained(ec2("Server.SpotInstanceTermination", time.Second)), ByHand, ""},
		"EC2 does not answer":       {drained(silent), Unknown, "EC2 does not report whether it terminated the instance before"},
		"EC2 says no time":          {drained(silent, func(f *Facts) { f.EC2.Ended, f.EC2.Code = true, "Server.InternalError" }), Unknown, "EC2 does not report whether it terminated the instance before (Server.InternalError)"},
		"EC2 says no time, but ran": {drained(func(f *Facts) { f.EC2.Ended = true }), ByHand, ""},
		"drift, and EC2 is silent":  {drained(silent, drift), Drifted, "NodePoolDrifted"},
		"removed":                   {drained(func(f *Facts) { f.Removing = "main@sha1:1" }), Removed, ""},
		"replaced as it is removed": {drained(drift, func(f *Facts) { f.Removing = "main@sha1:1" }), Removed, ""},
		"removed, pool gone":        {drained(func(f *Facts) { f.Removing, f.PoolGone = "main@sha1:1", true }), Removed, ""},
		"pool deleted":              {drained(func(f *Facts) { f.PoolGone = true }), PoolDeleted, ""},
		"no capacity":               {drained(unlaunched, aged(time.Second), says("InsufficientCapacityError")), LaunchFailed, "InsufficientCapacityError"},
		"not launched in time":      {drained(unlaunched, aged(5*time.Minute), func(f *Facts) { f.Launching = "Unauthorized" }), LaunchFailed, "Unauthorized"},
		"ended before its launch":   {drained(unlaunched, aged(time.Second), func(f *Facts) { f.Launching = "Unauthorized" }), Unknown, "it had no instance yet"},
		"did not register":          {drained(undrained, aged(15*time.Minute), func(f *Facts) { f.Node = "" }), NotRegistered, ""},
		"ended before it joined":    {drained(undrained, aged(time.Minute), func(f *Facts) { f.Node = "" }), ByHand, ""},
		"repair":                    {drained(annotated, func(f *Facts) { f.Condition = "Ready=Unknown" }), Unhealthy, "Ready=Unknown"},
		"hurried, healthy":          {drained(annotated), Unknown, "it was annotated for immediate termination"},
		"hurried after it began":    {drained(func(f *Facts) { f.Terminate, f.Condition = f.Deleted.Add(time.Second), "Ready=Unknown" }), ByHand, ""},
		"static":                    {drained(func(f *Facts) { f.Static = true }), Unknown, "its NodePool is static: replicas were reduced, or it was deleted by hand"},
		"static, drifted":           {drained(drift, func(f *Facts) { f.Static = true }), Drifted, "NodePoolDrifted"},
		"events were not read":      {drained(func(f *Facts) { f.NoEvents = true }), Unknown, "Karpenter's events could not be read"},
		"drift without events":      {drained(drift, func(f *Facts) { f.NoEvents = true }), Drifted, "NodePoolDrifted"},
		"by hand":                   {drained(), ByHand, ""},
		"by hand, still ending":     {drained(func(f *Facts) { f.Gone, f.InstanceTerminating = metav1.Time{}, metav1.Time{} }), ByHand, ""},
		"its finalizer was removed": {drained(undrained, func(f *Facts) { f.InstanceTerminating = metav1.Time{} }), ByHand, "its finalizer was removed: the instance may still run"},
	} {
		t.Run(name, func(t *testing.T) {
			if cause, detail := Judge(c.facts); cause != c.cause || detail != c.detail {
				t.Errorf("%s (%q), want %s (%q)", cause, detail, c.cause, c.detail)
			}
		})
	}
}

// TestRulesHaveSources checks that each row names the code in Karpenter or plumbline, and that each cause has a row.
func TestRulesHaveSources(t *testing.T) {
	of := map[Cause]bool{}
	for _, r := range rules {
		if r.source == "" {
			t.Errorf("a rule of %s has no source", r.cause)
		}
		of[r.cause] = true
	}
	for _, cause := range Causes() {
		if !of[cause] {
			t.Errorf("no rule finds %s", cause)
		}
		if words := cause.Words(); words == "" || strings.HasSuffix(words, ".") {
			t.Errorf("%s is worded %q", cause, words)
		}
	}
}

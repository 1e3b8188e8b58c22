package witness

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Told is what plumbline reports about a NodeSync.
type Told struct {
	Sync *unstructured.Unstructured
	// Owner is the value of the label plumbline.dev/nodesync of its objects.
	Owner string
	// Now is true if the report is about the NodeSync's current generation.
	Now bool
	// Commit is the current commit, Statuses are the newest on it by subject, and Git is its content; nil if unknown.
	Commit   string
	Statuses map[string]Status
	Git      *Definitions
}

// Status is a commit status.
type Status struct{ State, Description string }

// Lie is something that plumbline reports and that is not true.
type Lie struct {
	Words string
	// Patience is how long it is tolerated: reconciles and posts take time.
	Patience time.Duration
}

// Believes is how long a report may lag behind the actual state.
const Believes = 15 * time.Second

// Untrue returns what is reported but not true, given the actual state.
func (t *Told) Untrue(f *Fleet) (lies []Lie) {
	if !t.Now {
		return nil
	}
	if t.state("") == "success" {
		for _, words := range f.contradicts(t) {
			lies = append(lies, Lie{fmt.Sprintf("commit %.8s is a success of NodeSync %s, but %s", t.Commit, t.Sync.GetName(), words), Believes})
		}
	}
	if passing(conditionOf(t.Sync, "Ready")["reason"]) {
		return lies
	}
	for _, rule := range []struct {
		is       func(*Told, *Fleet) []string
		patience time.Duration
	}{
		{(*Told).rolledOut, Believes},
		{(*Told).nodeDrift, Believes},
		{(*Told).launchFailing, Believes},
		{(*Told).applied, Believes},
		{(*Told).drift, Believes},
		{(*Told).instances, f.compared()},
	} {
		for _, words := range rule.is(t, f) {
			lies = append(lies, Lie{"NodeSync " + t.Sync.GetName() + ": " + words, rule.patience})
		}
	}
	return lies
}

func (t *Told) state(subject string) string { return t.Statuses[subject].State }

// removed returns the definitions that are being removed.
func (t *Told) removed() map[string]bool {
	all := map[string]bool{}
	for _, r := range removalsOf(t.Sync) {
		all[r.kind+"/"+r.name] = true
	}
	return all
}

// rollingOut matches the node counts of a rollout.
var rollingOut = regexp.MustCompile(`(\d+) of (\d+) nodes replaced`)

// rolledOut is untrue as True while a node is outdated; as False if it reports more outdated nodes than there are; and,
// as RolloutBraked, if no pool has the budget of a paused rollout.
func (t *Told) rolledOut(f *Fleet) (words []string) {
	said := conditionOf(t.Sync, "RolledOut")
	claims := f.claimsOf(t)
	switch {
	case said["status"] == "True":
		for _, claim := range claims {
			if why := f.outdated(claim); why != "" {
				words = append(words, "RolledOut is True, but NodeClaim/"+claim.GetName()+" "+why)
			}
		}
	case said["reason"] == "RolloutBraked" && !strings.Contains(said["message"], "cannot be stopped"):
		for i := range f.Pools {
			if f.owns(t, &f.Pools[i]) && braked(&f.Pools[i]) {
				return nil
			}
		}
		words = append(words, "RolledOut says RolloutBraked, but no NodePool has a budget of 0 for Drifted")
	case said["reason"] == "RollingOut":
		if n := rollingOut.FindStringSubmatch(said["message"]); n != nil {
			matching, _ := strconv.Atoi(n[1])
			all, _ := strconv.Atoi(n[2])
			if all-matching > len(claims) {
				words = append(words, fmt.Sprintf("RolledOut says that %s, but there are %d NodeClaims", n[0], len(claims)))
			}
		}
	}
	return words
}

func braked(pool *unstructured.Unstructured) bool {
	budgets, _, _ := unstructured.NestedSlice(pool.Object, "spec", "disruption", "budgets")
	for _, b := range budgets {
		if fields, _ := b.(map[string]any); fmt.Sprintf("%v %v", fields["nodes"], fields["reasons"]) == "0 [Drifted]" {
			return true
		}
	}
	return false
}

// nodeClaimNamed matches the NodeClaims in a message.
var nodeClaimNamed = regexp.MustCompile(`NodeClaim ([a-z0-9.-]+)`)

// nodeDrift is untrue if none of the nodes that it names is Drifted.
func (t *Told) nodeDrift(f *Fleet) []string {
	said := conditionOf(t.Sync, "NodeDrift")
	if said["status"] != "True" {
		return nil
	}
	for _, named := range nodeClaimNamed.FindAllStringSubmatch(said["message"], -1) {
		for i := range f.Claims {
			if f.Claims[i].GetName() == named[1] && conditionOf(&f.Claims[i], "Drifted")["status"] == "True" {
				return nil
			}
		}
	}
	return []string{"NodeDrift is True, but no NodeClaim that it names is Drifted: " + said["message"]}
}

// launchFailing is untrue if a pool that is reported to get no nodes has got one since; and if it omits a pool whose
// launch fails according to Karpenter.
func (t *Told) launchFailing(f *Fleet) (words []string) {
	said := conditionOf(t.Sync, "LaunchFailing")
	newest := map[string]*unstructured.Unstructured{}
	for _, claim := range f.claimsOf(t) {
		pool := claim.GetLabels()["karpenter.sh/nodepool"]
		if before := newest[pool]; before == nil || before.GetCreationTimestamp().Time.Before(claim.GetCreationTimestamp().Time) {
			newest[pool] = claim
		}
		launched := conditionOf(claim, "Launched")
		refused := launched["status"] != "True" && launched["reason"] != "" && launched["reason"] != "AwaitingReconciliation" && claim.GetDeletionTimestamp() == nil
		if refused && !strings.Contains(said["message"], "NodePool/"+pool+" gets no nodes") {
			words = append(words, fmt.Sprintf("LaunchFailing does not tell of NodePool/%s, but the launch of NodeClaim/%s is refused: %s", pool, claim.GetName(), launched["reason"]))
		}
	}
	return append(words, t.gotNodes(f, newest)...)
}

// gotNodes returns the pools that are reported to get no nodes and have got one since; newest are the youngest
// NodeClaims, by pool.
func (t *Told) gotNodes(f *Fleet, newest map[string]*unstructured.Unstructured) (words []string) {
	said := conditionOf(t.Sync, "LaunchFailing")
	for i := range f.Pools {
		pool := f.Pools[i].GetName()
		key := t.Sync.GetName() + "/" + pool
		if said["status"] != "True" || !strings.Contains(said["message"], "NodePool/"+pool+" gets no nodes") {
			delete(f.Said, key)
			continue
		}
		since, known := f.Said[key]
		if !known {
			since = f.Now
			f.Said[key] = since
		}
		claim := newest[pool]
		if claim == nil || conditionOf(claim, "Initialized")["status"] != "True" || conditionOf(&f.Pools[i], "NodeRegistrationHealthy")["status"] == "False" {
			continue
		}
		if made := claim.GetCreationTimestamp().Time; made.After(since) && !f.Ended[pool].After(made) {
			words = append(words, fmt.Sprintf("LaunchFailing says that NodePool/%s gets no nodes, but it has got NodeClaim/%s since", pool, claim.GetName()))
		}
	}
	return words
}

// applied is untrue as a success if the cluster differs from Git, unless that is reported as drift.
func (t *Told) applied(f *Fleet) (words []string) {
	if t.state("applied") != "success" || t.state("drift") == "failure" || t.Git == nil {
		return nil
	}
	unlike, _ := t.Git.unlike(f, t.removed())
	for _, of := range unlike {
		words = append(words, fmt.Sprintf("commit %.8s is applied and has no drift, but %s", t.Commit, of))
	}
	return words
}

// drift is untrue as a success while a node is Drifted whose definitions were not written since it was created; and as
// a failure for objects, or for nodes, if none differs.
func (t *Told) drift(f *Fleet) (words []string) {
	said, claims := t.Statuses["drift"], f.claimsOf(t)
	switch {
	case said.State == "success":
		for _, claim := range claims {
			drifted := conditionOf(claim, "Drifted")
			if drifted["status"] == "True" && claim.GetDeletionTimestamp() == nil && f.asMade(claim) {
				words = append(words, fmt.Sprintf("commit %.8s has no drift, but NodeClaim/%s is Drifted (%s), and nobody has written its definitions since it came", t.Commit, claim.GetName(), drifted["reason"]))
			}
		}
	case said.State != "failure":
	case strings.Contains(said.Description, "nodes are outdated by no commit"):
		for _, claim := range claims {
			if f.outdated(claim) != "" || claim.GetDeletionTimestamp() != nil {
				return nil
			}
		}
		words = append(words, "drift says that nodes are outdated, but none is: "+said.Description)
	case regexp.MustCompile(`^\d+ objects? differs?`).MatchString(said.Description) && t.Git != nil:
		if unlike, whole := t.Git.unlike(f, t.removed()); whole && len(unlike) == 0 {
			words = append(words, "drift says that objects differ, but none does: "+said.Description)
		}
	}
	return words
}

package witness

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// ownerLabel is the label that names an object's NodeSync.
const ownerLabel = "plumbline.dev/nodesync"

// Fleet is the actual state at one time that commit statuses report on.
type Fleet struct {
	Now                    time.Time
	Pools, Classes, Claims []unstructured.Unstructured
	// Instances are EC2's, and Billed is how many of them it bills, by pool.
	Instances []Instance
	Billed    map[string]int
	// Compares is how often the daemon compares instances, according to its flags.
	Compares time.Duration
	// Said is since when pools are reported to get no nodes, by NodeSync and pool, and Ended is when a NodeClaim of a
	// pool was last deleted.
	Said, Ended map[string]time.Time
}

// contradicts returns what contradicts a success on the commit of a NodeSync.
func (f *Fleet) contradicts(t *Told) (words []string) {
	sync := t.Sync
	// A drain is set in the cluster, not by a commit: what was reported for the commit remains.
	drain, _, _ := unstructured.NestedBool(sync.Object, "spec", "drain")
	if open, _, _ := unstructured.NestedInt64(sync.Object, "status", "openRemovals"); open > 0 && !drain {
		words = append(words, fmt.Sprintf("status.openRemovals is %d", open))
	}
	if ready := conditionOf(sync, "Ready"); ready["status"] == "False" && !passing(ready["reason"]) {
		words = append(words, "Ready is False, "+ready["reason"])
	}
	words = append(words, notReady(t.Owner, "NodePool", f.Pools)...)
	words = append(words, notReady(t.Owner, "EC2NodeClass", f.Classes)...)
	for i := range f.Claims {
		claim := &f.Claims[i]
		pool := f.find("NodePool", claim.GetLabels()["karpenter.sh/nodepool"])
		if pool != nil && f.owns(t, pool) && conditionOf(claim, "Drifted")["status"] == "True" {
			words = append(words, "NodeClaim/"+claim.GetName()+" is Drifted")
		}
	}
	for pool, n := range f.Billed {
		if pool != "" && f.find("NodePool", pool) == nil {
			words = append(words, fmt.Sprintf("EC2 bills %d instances of NodePool/%s, which is gone", n, pool))
		}
	}
	slices.Sort(words)
	return words
}

// notReady returns those of an owner's objects that are not Ready.
func notReady(owner, kind string, objects []unstructured.Unstructured) (words []string) {
	for i := range objects {
		if objects[i].GetLabels()[ownerLabel] == owner && conditionOf(&objects[i], "Ready")["status"] == "False" {
			words = append(words, kind+"/"+objects[i].GetName()+" is not Ready")
		}
	}
	return words
}

// passing reports whether a reason concerns the connection to the Git host or the API server, and no commit: what was
// reported before remains.
func passing(reason string) bool {
	return slices.Contains([]string{"SourceFailed", "APIServerBusy", "APIServerUnavailable", "Stopped"}, reason)
}

// Instance is an EC2 instance.
type Instance struct {
	ID, State string
	Tags      map[string]string
}

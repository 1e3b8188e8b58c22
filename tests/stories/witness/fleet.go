package witness

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// ownerLabel is the label by which an object is a NodeSync's.
const ownerLabel = "plumbline.dev/nodesync"

// Fleet is what can be seen at one time, by anybody, of what a commit status speaks of.
type Fleet struct {
	Now                    time.Time
	Pools, Classes, Claims []unstructured.Unstructured
	// Instances are EC2's, and Billed is how many of them it bills, by pool.
	Instances []Instance
	Billed    map[string]int
	// Compares is how often the daemon compares instances, by its flags.
	Compares time.Duration
	// Said is since when pools are said to get no nodes, by NodeSync and pool, and Ended is when a
	// NodeClaim of a pool was deleted last.
	Said, Ended map[string]time.Time
}

// contradicts says what there is that a success on the commit of a NodeSync does not fit.
func (f *Fleet) contradicts(t *Told) (words []string) {
	sync := t.Sync
	// A drain is no commit's: it is set in the cluster, and what was reported of the commit stands.
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

// notReady are those of an owner's objects that are not Ready.
func notReady(owner, kind string, objects []unstructured.Unstructured) (words []string) {
	for i := range objects {
		if objects[i].GetLabels()[ownerLabel] == owner && conditionOf(&objects[i], "Ready")["status"] == "False" {
			words = append(words, kind+"/"+objects[i].GetName()+" is not Ready")
		}
	}
	return words
}

// passing says of a reason that it is of the way to the Git host or the API server, and of no
// commit: what was reported before stands.
func passing(reason string) bool {
	return slices.Contains([]string{"SourceFailed", "APIServerBusy", "APIServerUnavailable", "Stopped"}, reason)
}

// Instance is one of EC2.
type Instance struct {
	ID, State string
	Tags      map[string]string
}

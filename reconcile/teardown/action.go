package teardown

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// Action is something that Next wants done. The questions AskEC2, Reread,
// ReadPods and AskLeader only make the Observation better and are answered in
// the same pass.
type Action interface {
	fmt.Stringer
	action()
}

// AskEC2 asks for the instances of the removal.
type AskEC2 struct{}

// Reread reads the object, and what hangs on it, past the cache.
type Reread struct{}

// ReadPods reads the pods of nodes of which some are ended next, and whether those that
// were evicted run again.
type ReadPods struct{ Nodes []string }

// AskLeader asks whether a pod of Karpenter's controller holds its lease.
type AskLeader struct{}

// Note adds to the removal's record, making it where there is none.
type Note struct {
	// Fresh are provider IDs to add.
	Fresh []string
	// Seen are instances as EC2 has shown them, to add or mark.
	Seen []Instance
	// Workloads are those whose pods are about to be evicted, to add.
	Workloads []Workload
	// Budgets are the pool's disruption budgets, which are about to be overwritten, to add.
	Budgets []any
}

// Forget drops the removal's record.
type Forget struct{}

// StopGrowth keeps the pool from making nodes: the cpu limit becomes 0.
type StopGrowth struct{}

// RestoreGrowth gives the pool the cpu limit, or the replicas, that stopping its growth has
// overwritten, and has its nodes match its template again.
type RestoreGrowth struct {
	// Paced says that it gets its own disruption budgets back only later: Karpenter still takes nodes for
	// drifted, and would replace those by them.
	Paced bool
}

// Replace has Karpenter replace nodes of the pool: launch first what takes their pods, in another
// pool, and end them then.
type Replace struct {
	// Nodes is how many of them at a time; with 0 it begins no more.
	Nodes int
}

// ScaleTo lowers a static pool's replicas, which ends the nodes beyond them.
type ScaleTo struct{ Replicas int }

// DeleteNodeClaim ends one NodeClaim.
type DeleteNodeClaim struct {
	Name            string
	UID             types.UID
	ResourceVersion string
}

// DeleteObject deletes the object itself, which owns nothing any more.
type DeleteObject struct {
	UID             types.UID
	ResourceVersion string
}

// Reverted is nothing to do: a commit has taken the removal back that another one had begun.
type Reverted struct {
	// Commit is the one that had taken the entry out of Git.
	Commit string
	// Ended is how many of NodeClaims were ended by then.
	Ended, NodeClaims int
}

func (Reverted) action()        {}
func (AskEC2) action()          {}
func (Reread) action()          {}
func (Note) action()            {}
func (Forget) action()          {}
func (StopGrowth) action()      {}
func (RestoreGrowth) action()   {}
func (Replace) action()         {}
func (ScaleTo) action()         {}
func (ReadPods) action()        {}
func (AskLeader) action()       {}
func (DeleteNodeClaim) action() {}
func (DeleteObject) action()    {}

func (r Reverted) String() string {
	return fmt.Sprintf("reverted when %d of %d nodes were ended", r.Ended, r.NodeClaims)
}
func (AskEC2) String() string { return "ask EC2" }
func (Reread) String() string { return "read past the cache" }
func (n Note) String() string {
	words := []string{"note"}
	if len(n.Fresh) > 0 {
		words = append(words, "fresh="+strings.Join(n.Fresh, ","))
	}
	if len(n.Seen) > 0 {
		seen := make([]string, 0, len(n.Seen))
		for _, i := range n.Seen {
			seen = append(seen, i.ProviderID+":"+i.State)
		}
		words = append(words, "seen="+strings.Join(seen, ","))
	}
	for _, w := range n.Workloads {
		words = append(words, "workload="+w.String())
	}
	if n.Budgets != nil {
		words = append(words, fmt.Sprintf("budgets=%d", len(n.Budgets)))
	}
	return strings.Join(words, " ")
}
func (Forget) String() string     { return "forget the record" }
func (StopGrowth) String() string { return "stop growth" }
func (r RestoreGrowth) String() string {
	if r.Paced {
		return "restore growth, and disruption budgets later"
	}
	return "restore growth"
}

func (r Replace) String() string {
	return fmt.Sprintf("have Karpenter replace %d at a time", r.Nodes)
}
func (s ScaleTo) String() string         { return fmt.Sprintf("scale to %d", s.Replicas) }
func (r ReadPods) String() string        { return "read the pods of " + strings.Join(r.Nodes, ",") }
func (AskLeader) String() string         { return "ask who leads" }
func (d DeleteNodeClaim) String() string { return "delete NodeClaim/" + d.Name }
func (DeleteObject) String() string      { return "delete the object" }

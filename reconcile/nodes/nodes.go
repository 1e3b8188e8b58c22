// Package nodes says what Karpenter's nodes do: pools that get none, and nodes that
// drift after a change of Karpenter though nothing has had them replaced. It stops
// nothing and writes nothing: what it finds is reported.
package nodes

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// Pool is a NodePool as Git has it, and as it is in the cluster; nil where it is not there. Class is the EC2NodeClass that it
// names there.
type Pool struct {
	Name        string
	Git         *unstructured.Unstructured
	Live, Class *plan.Object
}

// definitions are equal as long as the specs of the pool and its class in the cluster are.
func (p Pool) definitions() string {
	var generations [2]int64
	for i, object := range []*plan.Object{p.Live, p.Class} {
		if object != nil {
			generations[i] = object.GetGeneration()
		}
	}
	return fmt.Sprint(generations)
}

// Pools are the NodePools of a Set.
func Pools(set *render.Set, live map[render.Ref]*plan.Object) []Pool {
	var pools []Pool
	for _, object := range set.Objects {
		if object.Ref.Kind == render.NodePool {
			pool := Pool{Name: object.Ref.Name, Git: object.Defaulted, Live: live[object.Ref]}
			if pool.Live != nil {
				class, _ := render.Reference(object.Ref, pool.Live.Unstructured)
				pool.Class = live[class]
			}
			pools = append(pools, pool)
		}
	}
	return pools
}

// Classes are the EC2NodeClasses of a Set that are in the cluster.
func Classes(set *render.Set, live map[render.Ref]*plan.Object) []*plan.Object {
	var classes []*plan.Object
	for _, object := range set.Objects {
		if object.Ref.Kind == render.EC2NodeClass && live[object.Ref] != nil {
			classes = append(classes, live[object.Ref])
		}
	}
	return classes
}

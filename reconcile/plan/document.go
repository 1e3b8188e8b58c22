package plan

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/reconcile/plan/planjson"
	"github.com/plumbline-dev/plumbline/render"
)

// Document is the Plan as JSON has it, with the nodes of what it was made against.
func (p *Plan) Document(live Live) planjson.Plan {
	d := planjson.Plan{
		APIVersion: planjson.APIVersion, Kind: planjson.Kind, NodeSync: p.NodeSync, Cluster: p.Cluster, Revision: p.Revision,
		Changes: []planjson.Change{}, Removals: []planjson.Removal{}, NodePools: nodePools(live), NodeClaims: []planjson.NodeClaim{},
	}
	named := make(map[types.UID]planjson.NodeClaim, len(live.NodeClaims))
	ofPool := map[string][]planjson.NodeClaim{}
	for i := range live.NodeClaims {
		c := nodeClaim(&live.NodeClaims[i])
		named[live.NodeClaims[i].UID] = c
		ofPool[c.Pool] = append(ofPool[c.Pool], c)
		d.NodeClaims = append(d.NodeClaims, c)
	}
	d.NodeClaims = byName(d.NodeClaims)
	for i := range p.Changes {
		d.Changes = append(d.Changes, changeDocument(&p.Changes[i], named))
	}
	for _, c := range p.Removals {
		d.Removals = append(d.Removals, removalDocument(c, live.Objects[c.Ref], ofPool))
	}
	d.Totals = p.totals(live)
	return d
}

func changeDocument(c *Change, named map[types.UID]planjson.NodeClaim) planjson.Change {
	d := planjson.Change{
		Object: c.Ref.String(), Kind: c.Ref.Kind, Name: c.Ref.Name, Action: string(c.Action), Reason: c.Reason, Drift: c.Drift, Restores: c.Restores,
		Effect: string(c.Effect), Nodes: c.Nodes, UpTo: c.UpTo, Unavailable: c.Unavailable, DriftReasons: c.DriftReasons, Warnings: c.Warnings, Notes: c.Notes, Message: c.Message,
		Spec: specOf(c.Wanted()), LiveSpec: specOf(c.Live),
	}
	for _, f := range c.Fields {
		d.Fields = append(d.Fields, planjson.Field(f))
	}
	if desired := c.Object.Desired; desired != nil {
		d.Labels, d.Annotations = desired.GetLabels(), desired.GetAnnotations()
	}
	if c.Live != nil {
		d.LiveLabels = c.Live.GetLabels()
	}
	for _, uid := range slices.Concat(c.touched, c.consolidated) {
		if n, known := named[uid]; known {
			d.NodeClaims = append(d.NodeClaims, n)
		}
	}
	d.NodeClaims = byName(d.NodeClaims)
	return d
}

func removalDocument(c Candidate, object *Object, ofPool map[string][]planjson.NodeClaim) planjson.Removal {
	d := planjson.Removal{
		Object: c.Ref.String(), Kind: c.Ref.Kind, Name: c.Ref.Name, MovesTo: c.MovesTo, Nodes: c.Nodes, Orphan: c.Orphan, Leaves: c.Leaves,
		Recorded: c.Recorded, Terminating: c.Terminating, Held: c.Held, Queued: c.Queued, Reason: c.Reason, Message: c.Message,
	}
	if object != nil && object.GetUID() == c.UID {
		d.Labels, d.Spec = object.GetLabels(), specOf(object.content())
	}
	if c.Ref.Kind == render.NodePool && !c.Orphan {
		d.NodeClaims = byName(ofPool[c.Ref.Name])
	}
	return d
}

// nodePools are those that live, by name.
func nodePools(live Live) []planjson.NodePool {
	found := []planjson.NodePool{}
	for ref, object := range live.Objects {
		if ref.Kind == render.NodePool {
			class, _, _ := unstructured.NestedString(object.Object, "spec", "template", "spec", "nodeClassRef", "name")
			found = append(found, planjson.NodePool{Name: ref.Name, Class: class, Labels: object.GetLabels()})
		}
	}
	slices.SortFunc(found, func(a, b planjson.NodePool) int { return cmp.Compare(a.Name, b.Name) })
	return found
}

// totals count over the whole Plan. A node that two of its parts disrupt counts once, as long as it
// can be told.
func (p *Plan) totals(live Live) planjson.Totals {
	t := planjson.Totals{Nodes: p.Nodes, ClusterNodes: len(live.NodeClaims)}
	d := newDisruption(map[types.UID]bool{})
	for i := range p.Changes {
		if c := &p.Changes[i]; c.Action != Hold && c.Effect.Disrupts() {
			d.add(share{ref: c.Ref, claims: c.touched, more: c.unnamed, terminated: c.consolidated})
			t.UpTo = t.UpTo || c.UpTo || len(c.consolidated) > 0
		}
	}
	leaving := map[string]bool{}
	for _, c := range p.Removals {
		if c.Ref.Kind == render.NodePool && !c.Held && !c.Orphan {
			leaving[c.Ref.Name] = true
		}
	}
	t.RemovedPools = len(leaving)
	for i := range live.NodeClaims {
		if leaving[live.NodeClaims[i].Pool] {
			d.drained[live.NodeClaims[i].UID] = true
		}
	}
	t.DisruptedNodes = d.total()
	return t
}

func nodeClaim(c *NodeClaim) planjson.NodeClaim {
	labels := c.Labels.Map()
	return planjson.NodeClaim{
		Name: c.Name, Pool: c.Pool, Class: c.Class, Node: c.Node, Deleting: c.Deleting, Drifted: c.Drifted,
		InstanceType: labels[corev1.LabelInstanceTypeStable], CapacityType: labels[karpv1.CapacityTypeLabelKey], Zone: labels[corev1.LabelTopologyZone],
	}
}

func byName(found []planjson.NodeClaim) []planjson.NodeClaim {
	slices.SortFunc(found, func(a, b planjson.NodeClaim) int { return cmp.Compare(a.Name, b.Name) })
	return found
}

// specOf is an object's spec, which is only read; nil where there is none.
func specOf(object *unstructured.Unstructured) map[string]any {
	if object == nil {
		return nil
	}
	spec, _ := object.Object["spec"].(map[string]any)
	return spec
}

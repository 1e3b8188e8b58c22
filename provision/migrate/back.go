package migrate

import (
	"fmt"
	"slices"

	"github.com/dustin/go-humanize/english"
	corev1 "k8s.io/api/core/v1"
)

// Back returns the plan that reverses a migration, as far as it went: first the sizes of groups, so that there is room, then
// the autoscaler, then the pins. Errors: the configuration values of an add-on cannot be parsed.
func Back(f *Facts) (*Plan, error) {
	scalers := f.Autoscalers()
	d := &decision{f: f, p: &Plan{Cluster: f.Cluster, Autoscalers: []string{}, Steps: []Step{}}, scalers: scalers}
	for _, g := range f.Groups(scalers) {
		one := &kept{Group: g, n: len(g.Nodes), staying: g.Nodes}
		d.kept = append(d.kept, one)
	}
	d.describe()
	for _, g := range d.kept {
		d.restore(g.Group)
	}
	d.uncordon()
	for _, a := range scalers {
		d.p.Autoscalers = append(d.p.Autoscalers, a.Words())
		d.start(a)
	}
	return d.p, d.unpin()
}

// restore adds the steps that give a group its recorded sizes, and then remove the record.
func (d *decision) restore(g *Group) {
	if g.Record == nil {
		return
	}
	sizes := g.Record.Sizes
	ready := 0
	for _, n := range g.Nodes {
		if nodeReady(n) {
			ready++
		}
	}
	d.step(Step{
		Action: RestoreSizes, Target: g.ID(), Group: g, Sizes: sizes,
		What: fmt.Sprintf("minimum %d, desired %d, maximum %d again, and wait until its nodes are Ready", sizes.Min, sizes.Desired, sizes.Max),
	}, g.Sizes == sizes && ready >= sizes.Desired)
	d.step(Step{Action: Forget, Target: g.ID(), Group: g, What: "remove the tag with its sizes"}, false)
}

func (d *decision) uncordon() {
	s := Step{Action: Uncordon, Target: "Nodes"}
	for i := range d.f.Nodes {
		if n := &d.f.Nodes[i]; n.Annotations[CordonAnnotation] != "" {
			s.Nodes = append(s.Nodes, n.Name)
		}
	}
	if len(s.Nodes) > 0 {
		slices.Sort(s.Nodes)
		s.What = "uncordon " + english.Plural(len(s.Nodes), "node", "")
		d.step(s, false)
	}
}

func (d *decision) start(a Autoscaler) {
	by := Reverts(a.Owner)
	switch {
	case a.Before >= 0:
		d.step(Step{
			Action: StartAutoscaler, Target: a.String(), Ref: a.Ref, Replicas: a.Before,
			What: "scale to " + english.Plural(a.Before, "replica", "") + " again",
		}, false)
	case a.Replicas == 0 && by != "":
		d.step(Step{
			Action: StartAutoscaler, Target: a.String(), Ref: a.Ref, State: Waits,
			What:   "scale up again: it has 0 replicas by " + by,
			ByHand: ByHand(a.Owner, "set replicas of "+a.Words()+" again", "--set replicaCount=1"),
		}, false)
	}
}

// unpin adds the steps that revert what keeps controllers off Karpenter's nodes.
func (d *decision) unpin() error {
	for _, addon := range d.f.Addons {
		mode, path := addon.Tags[PinAnnotation], d.f.Affinity[addon.Name]
		if mode == "" || len(path) == 0 {
			continue
		}
		values, err := UnpinValues(addon.Configuration, path, mode)
		if err != nil {
			return fmt.Errorf("add-on %s: %w", addon.Name, err)
		}
		d.step(Step{
			Action: UnpinAddon, Target: "addon/" + addon.Name, Addon: addon, Values: values, What: "UpdateAddon: the configuration values from before",
		}, false)
	}
	add := func(ref Ref, mode string, affinity *corev1.Affinity) {
		if mode != "" {
			d.step(Step{Action: UnpinWorkload, Target: ref.String(), Ref: ref, Affinity: Unpin(affinity), What: "its affinity from before"}, false)
		}
	}
	for i := range d.f.Deployments {
		o := &d.f.Deployments[i]
		add(Ref{"Deployment", o.Namespace, o.Name}, o.Annotations[PinAnnotation], o.Spec.Template.Spec.Affinity)
	}
	for i := range d.f.StatefulSets {
		o := &d.f.StatefulSets[i]
		add(Ref{"StatefulSet", o.Namespace, o.Name}, o.Annotations[PinAnnotation], o.Spec.Template.Spec.Affinity)
	}
	return nil
}

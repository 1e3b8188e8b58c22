package teardown

import (
	"slices"
	"strings"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/render"
)

// PhaseGone is the phase of a definition whose removal is complete.
const PhaseGone = string(v1alpha1.RemovalGone)

// Departure is the progress of the removal of one definition.
type Departure struct {
	Kind  string `json:"kind"`
	Name  string `json:"name"`
	Phase string `json:"phase"`
	// Left is how many of Of NodeClaims and instances still exist.
	Left int `json:"left"`
	Of   int `json:"of"`
	// Message is what it waits for. Stalled reports whether it makes no progress.
	Message string `json:"message,omitempty"`
	Stalled bool   `json:"stalled,omitempty"`
}

// Ref returns KIND/NAME.
func (d Departure) Ref() string { return d.Kind + "/" + d.Name }

// Departures contains those of all definitions of a NodeSync, in the order of the plan.
type Departures []Departure

// Departures returns the definitions of the plan before anything was done.
func (p *Plan) Departures() Departures {
	var all Departures
	for _, o := range p.Objects {
		all = append(all, Departure{Kind: o.Kind, Name: o.Name, Left: o.NodeClaims, Of: o.NodeClaims})
	}
	return all
}

// Next updates them from the removals of the NodeSync's status. A removal that is no longer recorded is complete.
func (all Departures) Next(removals []v1alpha1.Removal) Departures {
	all = slices.Clone(all)
	open := map[string]v1alpha1.Removal{}
	for _, r := range removals {
		open[r.Kind+"/"+r.Name] = r
		if known := all.has(r.Kind, r.Name); !known {
			all = append(all, Departure{Kind: r.Kind, Name: r.Name})
		}
	}
	for i := range all {
		d := &all[i]
		r, isOpen := open[d.Ref()]
		switch {
		case isOpen:
			d.update(r)
		case d.Phase != "":
			*d = Departure{Kind: d.Kind, Name: d.Name, Phase: PhaseGone, Of: d.Of}
		}
	}
	return all
}

func (all Departures) has(kind, name string) bool {
	return slices.ContainsFunc(all, func(d Departure) bool { return d.Kind == kind && d.Name == name })
}

// update copies the recorded removal. The number of remaining NodeClaims is unknown before the removal starts to drain.
func (d *Departure) update(r v1alpha1.Removal) {
	d.Phase, d.Message, d.Stalled = string(r.Phase), r.Message, r.Stalled != nil
	switch {
	case r.Drained():
		d.Phase, d.Message, d.Left = v1alpha1.ReasonDrained, "", 0
	case d.Kind != render.NodePool:
	case r.Phase == v1alpha1.RemovalPacing || r.Phase == v1alpha1.RemovalHeld:
		d.Left = max(d.Of, int(r.Remaining))
	default:
		d.Left = int(r.Remaining)
	}
	d.Of = max(d.Of, d.Left)
}

// DescribedBy reports whether a message is about the removal of one of the definitions, whose line contains the same.
func (all Departures) DescribedBy(message string) bool {
	return slices.ContainsFunc(all, func(d Departure) bool { return d.Phase != "" && strings.Contains(message, d.Ref()+": ") })
}

package instances

import (
	"maps"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/provision/leftover"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// mostHad is how many instances are remembered. When there are more, only those of living NodeClaims are kept.
const mostHad = 10_000

// had is what this cluster had since the daemon started. It proves that a resource in AWS is this cluster's. Tags do not: another
// cluster of the same name, or an earlier one, sets the same. If it is lost, messages have no commands.
type had struct {
	// instances are the IDs of NodeClaims' instances; classes and uids are the names and UIDs of EC2NodeClasses.
	instances, classes, uids map[string]bool
}

// note adds what lives.
func (h *had) note(live plan.Live) {
	if h.classes == nil {
		h.classes, h.uids = map[string]bool{}, map[string]bool{}
	}
	if h.instances == nil || len(h.instances) > mostHad {
		h.instances = map[string]bool{}
	}
	for i := range live.NodeClaims {
		if _, id, err := cloud.ParseProviderID(live.NodeClaims[i].ProviderID); err == nil {
			h.instances[id] = true
		}
	}
	for ref, object := range live.Objects {
		if ref.Kind == render.EC2NodeClass {
			h.classes[ref.Name], h.uids[string(object.GetUID())] = true, true
		}
	}
}

// clone returns a copy for a goroutine that runs beside the reconciles.
func (h *had) clone() had {
	return had{instances: maps.Clone(h.instances), classes: maps.Clone(h.classes), uids: maps.Clone(h.uids)}
}

// made reports whether something that is left was made by this cluster. A launch template has only the name of its
// EC2NodeClass, which another cluster may use too.
func (h *had) made(f leftover.Found) bool {
	switch f.Kind {
	case cloud.KindNetworkInterface:
		return h.instances[leftover.InstanceOf(f.Resource)]
	case cloud.KindInstanceProfile:
		return h.uids[leftover.UIDOf(f.Name)]
	case cloud.KindLaunchTemplate:
		return h.classes[leftover.ClassOf(f.Resource)]
	case cloud.KindInstance, cloud.KindVolume:
	}
	return false
}

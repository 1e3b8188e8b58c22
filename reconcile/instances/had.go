package instances

import (
	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/provision/leftover"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// mostHad is how many instances are remembered; beyond that the living ones only.
const mostHad = 10_000

// had is what a cluster is known to have had, which proves whose something in AWS is. Tags do not: another cluster of the
// same name, or an earlier one, has the same. Losing it costs the commands, and nothing else.
type had struct {
	// instances are the IDs of those that NodeClaims had, and classes and uids the names and the UIDs of EC2NodeClasses.
	instances, classes, uids map[string]bool
}

// note adds what lives.
func (h *had) note(live plan.Live) {
	if h.instances == nil || len(h.instances) > mostHad {
		h.instances = map[string]bool{}
	}
	if h.classes == nil {
		h.classes, h.uids = map[string]bool{}, map[string]bool{}
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

// copied is what a goroutine may read beside the passes.
func (h *had) copied() had {
	clone := func(of map[string]bool) map[string]bool {
		all := make(map[string]bool, len(of))
		for key := range of {
			all[key] = true
		}
		return all
	}
	return had{instances: clone(h.instances), classes: clone(h.classes), uids: clone(h.uids)}
}

// made says that the cluster is known to have made something that is left. A launch template has only the name of its
// EC2NodeClass, which another cluster may have too.
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

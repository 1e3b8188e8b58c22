package ebs

import (
	"context"
	"errors"
	"fmt"
	"slices"

	core "k8s.io/api/core/v1"
	storage "k8s.io/api/storage/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// volumesPerNode is what most Nitro instances can have, less the root volume and one network interface.
const volumesPerNode = 26

// registration is a node whose CSINode does not say what is so: Runs says whether the driver is to be in it.
type registration struct {
	Node *core.Node
	Runs bool
}

// registrations are the nodes where the driver has come or gone since its CSINode was written.
func registrations(v *view) []registration {
	var all []registration
	for name, node := range v.nodes {
		runs := v.driverRuns(name)
		if runs != registered(v.csiNodes[name]) {
			all = append(all, registration{Node: node, Runs: runs})
		}
	}
	return all
}

func registered(csiNode *storage.CSINode) bool {
	return csiNode != nil && slices.ContainsFunc(csiNode.Spec.Drivers, isOurs)
}

func isOurs(d storage.CSINodeDriver) bool { return d.Name == DriverName }

// register does what a kubelet does when the driver's socket appears or goes away.
func (d *Driver) register(ctx context.Context, v *view) error {
	var errs []error
	for _, r := range registrations(v) {
		if err := d.writeCSINode(ctx, v.csiNodes[r.Node.Name], r); err != nil {
			errs = append(errs, fmt.Errorf("write CSINode %s: %w", r.Node.Name, err))
		}
	}
	return errors.Join(errs...)
}

func (d *Driver) writeCSINode(ctx context.Context, current *storage.CSINode, r registration) error {
	api := d.client.StorageV1().CSINodes()
	if current == nil {
		_, err := api.Create(ctx, csiNode(r.Node), meta.CreateOptions{})
		return err
	}
	changed := current.DeepCopy()
	changed.Spec.Drivers = slices.DeleteFunc(changed.Spec.Drivers, isOurs)
	if r.Runs {
		changed.Spec.Drivers = append(changed.Spec.Drivers, nodeDriver(r.Node))
	}
	_, err := api.Update(ctx, changed, meta.UpdateOptions{})
	return err
}

func csiNode(node *core.Node) *storage.CSINode {
	return &storage.CSINode{
		ObjectMeta: meta.ObjectMeta{
			Name:            node.Name,
			OwnerReferences: []meta.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}},
		},
		Spec: storage.CSINodeSpec{Drivers: []storage.CSINodeDriver{nodeDriver(node)}},
	}
}

func nodeDriver(node *core.Node) storage.CSINodeDriver {
	count := int32(volumesPerNode)
	return storage.CSINodeDriver{
		Name:         DriverName,
		NodeID:       instanceOf(node),
		TopologyKeys: []string{core.LabelTopologyZone, core.LabelOSStable},
		Allocatable:  &storage.VolumeNodeResources{Count: &count},
	}
}

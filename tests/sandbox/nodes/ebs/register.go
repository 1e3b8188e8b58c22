package ebs

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// volumesPerNode is the maximum of most Nitro instances, minus the root volume and one network interface.
const volumesPerNode = 26

// registration is a node whose CSINode is out of date: Runs reports whether it should contain the driver.
type registration struct {
	Node *corev1.Node
	Runs bool
}

// registrations returns the nodes where the driver was started or removed since their CSINode was written.
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

func registered(csiNode *storagev1.CSINode) bool {
	return csiNode != nil && slices.ContainsFunc(csiNode.Spec.Drivers, isOurs)
}

func isOurs(d storagev1.CSINodeDriver) bool { return d.Name == DriverName }

// register does what a kubelet does when the driver's socket appears or disappears.
func (d *Driver) register(ctx context.Context, v *view) error {
	var errs []error
	for _, r := range registrations(v) {
		if err := d.writeCSINode(ctx, v.csiNodes[r.Node.Name], r); err != nil {
			errs = append(errs, fmt.Errorf("write CSINode %s: %w", r.Node.Name, err))
		}
	}
	return errors.Join(errs...)
}

func (d *Driver) writeCSINode(ctx context.Context, current *storagev1.CSINode, r registration) error {
	api := d.client.StorageV1().CSINodes()
	if current == nil {
		_, err := api.Create(ctx, csiNode(r.Node), metav1.CreateOptions{})
		return err
	}
	changed := current.DeepCopy()
	changed.Spec.Drivers = slices.DeleteFunc(changed.Spec.Drivers, isOurs)
	if r.Runs {
		changed.Spec.Drivers = append(changed.Spec.Drivers, nodeDriver(r.Node))
	}
	_, err := api.Update(ctx, changed, metav1.UpdateOptions{})
	return err
}

func csiNode(node *corev1.Node) *storagev1.CSINode {
	return &storagev1.CSINode{
		ObjectMeta: metav1.ObjectMeta{
			Name:            node.Name,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}},
		},
		Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{nodeDriver(node)}},
	}
}

func nodeDriver(node *corev1.Node) storagev1.CSINodeDriver {
	count := int32(volumesPerNode)
	return storagev1.CSINodeDriver{
		Name:         DriverName,
		NodeID:       instanceOf(node),
		TopologyKeys: []string{corev1.LabelTopologyZone, corev1.LabelOSStable},
		Allocatable:  &storagev1.VolumeNodeResources{Count: &count},
	}
}

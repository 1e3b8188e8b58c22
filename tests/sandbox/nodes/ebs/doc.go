// Package ebs plays the EBS CSI driver and the part of a kubelet that mounts volumes.
//
// In goes what the cluster wants: claims with a node selected, attachments that the real attach-detach controller makes, pods
// that use a claim. Out come EBS volumes and attachments in the simulator, PersistentVolumes, and a status that says so:
// the provisioner and the attacher work while a pod of the controller's Deployment runs; a node's driver is registered, and
// its volumes are mounted and unmounted, while the daemonset's pod runs on that node.
//
// That last rule is what makes a drain hang in life: where the daemonset's pod goes before the others, the node reports the
// volume as in use for ever, the attach-detach controller does not let go of it, and neither does the attacher here. A volume
// of an instance that is gone is released at once.
//
// The package never deletes a pod and never takes another one's finalizer away. What is to be done is decided by functions
// from a view of the cluster to steps; only the driver's steps reach out.
package ebs

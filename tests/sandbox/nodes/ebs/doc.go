// Package ebs simulates the EBS CSI driver and the part of a kubelet that mounts volumes.
//
// Its input is the state of the cluster: claims with a selected node, attachments that the real attach-detach
// controller creates, pods that use a claim. It creates EBS volumes and attachments in the simulator,
// PersistentVolumes, and the corresponding status: the provisioner and the attacher work while a pod of the
// controller's Deployment runs; a node's driver is registered, and its volumes are mounted and unmounted, while the
// daemonset's pod runs on that node.
//
// That last rule is what makes a real drain hang: if the daemonset's pod terminates before the others, the node reports
// the volume as in use forever, the attach-detach controller does not detach it, and neither does the attacher here. A
// volume of a terminated instance is released immediately.
//
// The package never deletes a pod and never removes another component's finalizer. Pure functions from a view of the
// cluster to steps decide what to do; only the driver's steps have side effects.
package ebs

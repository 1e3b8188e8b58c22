// Package nodes makes Kubernetes Nodes of simulated EC2 instances and keeps them alive, as a kubelet and a
// cloud-controller-manager would.
//
// In go the simulator's events; out come Nodes. A launched instance registers its Node after a boot time, with the labels and
// taints that its user data asks for, not Ready yet; from there on kwok plays its kubelet: leases, heartbeats, pods that run
// and pods that end after a moment. An instance that ends takes its kubelet with it, and its Node is then deleted as a
// cloud-controller-manager would: by asking, so Karpenter's finalizer on the Node has its say. Two system nodes, a managed node
// group that Karpenter does not own, are there from the start. Volumes are the business of the package ebs below.
//
// The package never drains, cordons or force-deletes anything, and never touches a Node of an instance that it did not see
// launched.
package nodes

// Package nodes creates Kubernetes Nodes for simulated EC2 instances and keeps them alive, as a kubelet and a
// cloud-controller-manager would.
//
// Its input is the simulator's events. A launched instance registers its Node after a boot time, with the labels and
// taints in its user data, not Ready yet; from there on kwok simulates its kubelet: leases, heartbeats, pods that run
// and pods that terminate after a moment. When an instance terminates, its kubelet stops, and its Node is then deleted
// as by a cloud-controller-manager: Karpenter's finalizer on the Node applies. Two system nodes, a managed node group
// that Karpenter does not own, exist from the start. Package ebs below handles volumes.
//
// The package never drains, cordons or force-deletes anything, and never changes a Node of an instance whose launch it
// did not see.
package nodes

// Package owners determines what keeps an object as it is: Flux, Argo CD, a Helm release, Terraform, or a client by its
// field manager.
//
// Its inputs are an object's labels, annotations and managed fields; its outputs are Owners. It is the only place with
// the marks of other tools: it answers whose a NodePool is, what of Karpenter another tool has installed, and what
// would recreate what a teardown deletes. It consists of pure functions, and reads no cluster.
package owners

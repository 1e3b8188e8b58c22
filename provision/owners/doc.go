// Package owners says what keeps an object as it is: Flux, Argo CD, a Helm release, Terraform, or
// a client by its field manager.
//
// In go an object's labels, annotations and managed fields, as they were read; out come Owners. It
// is the one place with the marks of other tools: whose a NodePool is, what of Karpenter another
// tool has installed, and what would create again what a teardown deletes are all asked here. It
// is made of functions of values, and reads no cluster.
package owners

// Package applytest is an in-memory API server for applying definitions in tests.
//
// The input is the CRDs of the linked Karpenter modules. The output is a Server that applies and patches NodePools and
// EC2NodeClasses like a real one: field managers are those of apimachinery, defaults come from the CRDs, and a
// resourceVersion changes only when an object changes. It does not validate, has no watches and does not listen on a
// port.
package applytest

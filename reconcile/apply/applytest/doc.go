// Package applytest is an API server in memory with what applying definitions
// goes, for tests.
//
// In go the CRDs of the linked Karpenter modules. Out comes a Server that
// applies and patches NodePools and EC2NodeClasses as a real one does:
// field managers are those of apimachinery, defaults come from the CRDs, and a
// resourceVersion moves only when an object changes. It validates nothing, has
// no watches and listens nowhere.
package applytest

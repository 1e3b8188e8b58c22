// Package schema validates definitions as the API server would, without one.
//
// Its inputs are CRDs, its output is a Validator: the structural schema with its defaults and unknown fields, OpenAPI
// and CEL rules (transition rules too), and the set of fields that a server-side apply of an object would own. It runs
// the API server's own code from k8s.io/apiextensions-apiserver in process.
//
// CRDs are checked first: one whose patterns or defaults would take much more memory than those of any release is
// refused by name.
//
// Rules are compiled for the first object of a kind, which takes some 25 ms per kind; a Validator is safe for
// concurrent use. It does no I/O.
package schema

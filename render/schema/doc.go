// Package schema checks definitions as the API server would, without one.
//
// CRDs go in, a Validator comes out: the structural schema with its defaults and
// unknown fields, OpenAPI and CEL rules (those on transitions too), and the set
// of fields that a server-side apply of an object would own. It runs the API
// server's own code from k8s.io/apiextensions-apiserver in process.
//
// CRDs are weighed before: one whose patterns would take more memory than those of
// any release is refused by name.
//
// Rules are compiled when the first object of a kind comes along, which takes
// some 25 ms for a kind; a Validator is safe for use by many at a time. It does
// no I/O.
package schema

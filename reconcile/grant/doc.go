// Package grant decides whether the credentials in a Secret may be sent to an address for a NodeSync. A user who may
// create a NodeSync can reference any Secret of its namespace and any URL. Therefore the Secret lists, in annotations,
// the hosts and optionally the NodeSyncs that may use it.
//
// The input is a Secret's annotations, a NodeSync's name and an address; the output is nil or a *RefusedError. The
// package reads nothing, and never sees the credentials.
package grant

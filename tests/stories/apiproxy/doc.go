// Package apiproxy stands between a daemon and the API server, so that the API
// server can be away, slow or busy for the daemon alone: the cluster itself, and
// Karpenter in it, live on.
//
// A Proxy passes every request on until it is told of a Fault. It serves with the
// API server's own certificate and counts the writes that come by.
package apiproxy

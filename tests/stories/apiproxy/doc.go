// Package apiproxy is a proxy between a daemon and the API server. It makes the API server unavailable, slow or busy
// for the daemon only: the cluster itself, including Karpenter, is not affected.
//
// A Proxy forwards every request unless a Fault is set. It serves the API server's own certificate and counts the
// writes that it forwards.
package apiproxy

// Package observe sees the cluster: what lives in it, what is Ready, and which
// events are worth a pass.
//
// In go objects of the watch cache, out come plain values: plan.Live, readiness
// and predicates. It reads from watches, never lists at the API server, and
// never writes. What it keeps in memory of a NodeClaim or a CRD is cut down to
// what plumbline asks about.
package observe

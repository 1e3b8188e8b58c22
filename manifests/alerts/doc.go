// Package alerts tests manifests/monitoring with Prometheus' own library: each alert fires when it should and not
// otherwise, and the queries of the dashboard find series. It is a separate module, so that plumbline does not link
// Prometheus.
package alerts

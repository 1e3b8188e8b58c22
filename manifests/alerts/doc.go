// Package alerts tests manifests/monitoring with Prometheus' own library: each alert fires
// when it should and not otherwise, and the queries of the dashboard find series. It is a
// module of its own, so that nothing of Prometheus is linked to plumbline.
package alerts

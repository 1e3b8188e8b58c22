package main

import (
	"fmt"
	"net"

	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// metricsOptions serve the metrics. They name NodeSyncs, pools and Git hosts, so
// that by default the API server is asked who may read them (TokenReview and
// SubjectAccessReview), over HTTPS with a certificate of the process' own.
func metricsOptions(o *runOptions) metricsserver.Options {
	options := metricsserver.Options{BindAddress: o.metricsAddr}
	if o.metricsAuth {
		options.SecureServing = true
		options.FilterProvider = filters.WithAuthenticationAndAuthorization
	}
	return options
}

// checkProfilingAddr refuses an address that others can reach: a heap profile may
// hold what Secrets hold. kubectl port-forward reaches loopback.
func checkProfilingAddr(addr string) error {
	if addr == "0" {
		return nil
	}
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("--profiling-addr %q is no address: give localhost:PORT, or 0 for none", addr)
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return fmt.Errorf("--profiling-addr %s is not a loopback address: profiles may hold what Secrets hold; give localhost:PORT and use kubectl port-forward", addr)
	}
	return nil
}

// Package trust is which authorities a client trusts that speaks TLS: the system's, and what a
// Secret has beside them.
package trust

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
)

// With are the system's authorities and those of a bundle in PEM; false if there is none in it.
func With(bundle []byte) (*x509.CertPool, bool) {
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	return pool, pool.AppendCertsFromPEM(bundle)
}

// Transport goes through the proxy that the environment names (HTTPS_PROXY, HTTP_PROXY, NO_PROXY), and
// trusts the authorities of a bundle in PEM beside the system's, where it is not empty; false if there is none
// in it.
func Transport(bundle []byte) (*http.Transport, bool) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if len(bundle) > 0 {
		pool, found := With(bundle)
		if !found {
			return nil, false
		}
		config.RootCAs = pool
	}
	return &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: config}, true
}

// Package trust determines which CAs a TLS client trusts: the system's, and those of a Secret.
package trust

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
)

// With returns the system's CAs together with those of a PEM bundle; false if the bundle contains none.
func With(bundle []byte) (*x509.CertPool, bool) {
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	return pool, pool.AppendCertsFromPEM(bundle)
}

// Transport uses the proxy of the environment (HTTPS_PROXY, HTTP_PROXY, NO_PROXY). It trusts the CAs of a PEM bundle in
// addition to the system's, unless the bundle is empty; false if the bundle contains none.
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

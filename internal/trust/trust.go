// Package trust is which authorities a client trusts that speaks TLS: the system's, and what a
// Secret has beside them.
package trust

import "crypto/x509"

// With are the system's authorities and those of a bundle in PEM; false where there is none in it.
func With(bundle []byte) (*x509.CertPool, bool) {
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	return pool, pool.AppendCertsFromPEM(bundle)
}

package kube

import (
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net"
	"path/filepath"
	"time"
)

// validity is how long the certificates of a sandbox are valid; a prepared snapshot keeps its authority that long.
const validity = 10 * 365 * 24 * time.Hour

// serviceIP is the first address of ServiceCIDR: that of the Service "kubernetes".
const serviceIP = "10.100.0.1"

// makeAuthority writes a new certificate authority.
func makeAuthority(dir string) error {
	key, err := newKey()
	if err != nil {
		return err
	}
	template, err := certificate("sandbox-ca")
	if err != nil {
		return err
	}
	template.IsCA = true
	template.BasicConstraintsValid = true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return err
	}
	if err := writeKey(filepath.Join(dir, caKeyFile), key); err != nil {
		return err
	}
	return writePEM(filepath.Join(dir, caCertFile), "CERTIFICATE", der)
}

// writeServing writes the API server's certificate, signed by the authority.
func (id *identity) writeServing() error {
	key, err := newKey()
	if err != nil {
		return err
	}
	template, err := certificate("kube-apiserver")
	if err != nil {
		return err
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	template.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1), net.ParseIP(serviceIP)}
	template.DNSNames = []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"}
	der, err := x509.CreateCertificate(rand.Reader, template, id.ca, key.Public(), id.caKey)
	if err != nil {
		return err
	}
	if err := writeKey(filepath.Join(id.dir, servingKeyFile), key); err != nil {
		return err
	}
	return writePEM(filepath.Join(id.dir, servingCertFile), "CERTIFICATE", der)
}

func certificate(name string) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, err
	}
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    now.Add(-time.Hour),
		NotAfter:     now.Add(validity),
	}, nil
}

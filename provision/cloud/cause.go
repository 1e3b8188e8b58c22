package cloud

import (
	"crypto/x509"
	"errors"
	"net"
	"net/url"
	"syscall"

	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// unconnected says that a request was not answered because its endpoint was not
// reached.
func unconnected(err error) bool {
	var send *smithyhttp.RequestSendError
	var network net.Error
	return errors.As(err, &send) || errors.As(err, &network)
}

// cause names the host that was not reached, and why, in words that are the same
// each time: no local port, and no time.
func cause(err error) string {
	host := "its endpoint"
	var sent *url.Error
	if errors.As(err, &sent) {
		if target, parsed := url.Parse(sent.URL); parsed == nil && target.Host != "" {
			host = target.Host
		}
	}
	var operation *net.OpError
	if errors.As(err, &operation) && operation.Op == "proxyconnect" {
		host += " by the proxy"
	}
	return host + ": " + reason(err)
}

func reason(err error) string {
	var name *net.DNSError
	var number syscall.Errno
	var certificate x509.CertificateInvalidError
	var network net.Error
	switch {
	case errors.As(err, &name):
		return name.Err
	case errors.As(err, &number):
		return number.Error()
	case errors.As(err, &certificate) && certificate.Reason == x509.Expired:
		return "its certificate has expired or is not yet valid"
	case errors.As(err, &network) && network.Timeout():
		return "timed out"
	}
	return innermost(err).Error()
}

// innermost is what an error wraps last.
func innermost(err error) error {
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err
		}
		err = inner
	}
}

package report

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"strings"
)

// The keys of a report's Secret.
const (
	keyToken = "token"
	keyCA    = "ca.crt"
)

// Hosts makes the clients of Git hosts.
type Hosts struct{}

// Host returns the client for a provider, the kind of the host. repository is the
// URL of the repository's web page, or the one it is cloned from over http. The
// error is a *RepositoryError or a *SecretError.
func (Hosts) Host(provider, repository string, secret map[string][]byte) (Poster, error) {
	r, err := parse(repository)
	if err != nil {
		return nil, err
	}
	token := strings.TrimSpace(string(secret[keyToken]))
	if token == "" {
		return nil, &SecretError{Key: keyToken, Reason: "is missing"}
	}
	client, err := client(secret[keyCA])
	if err != nil {
		return nil, err
	}
	w := wire{client: client, token: token}
	switch provider {
	case "github":
		return &github{wire: w, repository: r}, nil
	case "gitlab":
		return &gitlab{wire: w, repository: r}, nil
	case "gitea":
		return &gitea{wire: w, repository: r}, nil
	}
	return nil, &RepositoryError{URL: r.String(), Reason: "is on a host of the kind " + provider + ", which is not known"}
}

// client trusts the system's authorities and that of the secret. A status is
// one request now and then, so no connection is kept.
func client(ca []byte) (*http.Client, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if len(ca) > 0 {
		pool, err := x509.SystemCertPool()
		if err != nil {
			pool = x509.NewCertPool()
		}
		if !pool.AppendCertsFromPEM(ca) {
			return nil, &SecretError{Key: keyCA, Reason: "holds no certificate in PEM form"}
		}
		config.RootCAs = pool
	}
	return &http.Client{
		Transport:     &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: config, DisableKeepAlives: true},
		CheckRedirect: stayHome,
	}, nil
}

// stayHome follows a redirect that stays a POST on the same host, as GitHub
// sends for a repository that was renamed, and no other: it carries the token.
func stayHome(req *http.Request, via []*http.Request) error {
	const most = 3
	first := via[0].URL
	if req.Method != http.MethodPost || req.URL.Host != first.Host || req.URL.Scheme != first.Scheme || len(via) > most {
		return http.ErrUseLastResponse
	}
	return nil
}

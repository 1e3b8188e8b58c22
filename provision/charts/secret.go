package charts

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"oras.land/oras-go/v2/registry/remote/credentials"
)

// The keys of a Secret, as Flux names them.
const (
	keyUsername = "username"
	keyPassword = "password"
	keyCA       = "ca.crt"
)

// CredentialsFromSecret reads a Secret's user and password for a host: those of
// a kubernetes.io/dockerconfigjson, or the keys username and password. An error
// is a *SecretError, which names the key.
func CredentialsFromSecret(ctx context.Context, data map[string][]byte, host string) (Credentials, error) {
	if config, ok := data[corev1.DockerConfigJsonKey]; ok {
		return fromDockerConfig(ctx, config, host)
	}
	for _, key := range []string{keyUsername, keyPassword} {
		if len(data[key]) == 0 {
			return Credentials{}, &SecretError{Key: key, Reason: "is missing: it takes username and password, or " + corev1.DockerConfigJsonKey}
		}
	}
	// A line that ends a file is no part of what is in it.
	password := strings.TrimRight(string(data[keyPassword]), "\r\n")
	return Credentials{Username: strings.TrimSpace(string(data[keyUsername])), Password: password}, nil
}

func fromDockerConfig(ctx context.Context, config []byte, host string) (Credentials, error) {
	fail := func(format string, args ...any) (Credentials, error) {
		return Credentials{}, &SecretError{Key: corev1.DockerConfigJsonKey, Reason: fmt.Sprintf(format, args...)}
	}
	store, err := credentials.NewMemoryStoreFromDockerConfig(config)
	if err != nil { // its words may be the secret's
		return fail("is not a Docker configuration in JSON")
	}
	found, err := store.Get(ctx, host)
	if err != nil {
		return fail("cannot be read for %s", host)
	}
	if found.Username == "" || found.Password == "" {
		return fail("has no user and password for %s", host)
	}
	return Credentials{Username: found.Username, Password: found.Password}, nil
}

// AuthoritiesFromSecret reads a Secret's ca.crt, a bundle in PEM form.
func AuthoritiesFromSecret(data map[string][]byte) ([]byte, error) {
	if _, err := authorities(data[keyCA]); err != nil {
		return nil, err
	}
	return data[keyCA], nil
}

// SecretError says which key of a Secret cannot be used. It never holds a value.
type SecretError struct {
	Key, Reason string
}

// Error names the key and what is wrong with it.
func (e *SecretError) Error() string { return fmt.Sprintf("the key %s %s", e.Key, e.Reason) }

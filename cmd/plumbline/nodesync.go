package main

import (
	"errors"
	"fmt"
	"net/url"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
)

// explain adds to an error of the API server what to do about it.
// errUnreachable says that no answer comes from the cluster.
var errUnreachable = errors.New("the cluster cannot be reached")

func explain(err error, doing string) error {
	var silent *url.Error
	switch {
	case errors.As(err, &silent):
		return fmt.Errorf("%s: %w (%w): check --kubeconfig, --context and the way to %s", doing, errUnreachable, silent.Err, hostOf(silent.URL))
	case apimeta.IsNoMatchError(err):
		return fmt.Errorf("%s: plumbline is not installed in this cluster (its CRD is missing): helm install plumbline manifests/chart, or kubectl apply -k manifests", doing)
	case apierrors.IsNotFound(err):
		return fmt.Errorf("%s: it does not exist; `plumbline get -A` lists all", doing)
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%s: you are not allowed to: %w", doing, err)
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("%s: the cluster does not know you (%w): log in again", doing, err)
	}
	return fmt.Errorf("%s: %w", doing, err)
}

func hostOf(address string) string {
	parsed, err := url.Parse(address)
	if err != nil {
		return address
	}
	return parsed.Host
}

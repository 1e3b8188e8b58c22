package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/rest"
)

// reviewTimeout bounds the requests to the API server for one scrape.
const reviewTimeout = 10 * time.Second

// reviewer lets the API server decide who may read the metrics. controller-runtime's filter answers 500 to a forged
// token, as if the API server had failed, and retries while it does.
type reviewer struct {
	tokens authenticationclient.TokenReviewInterface
	access authorizationclient.SubjectAccessReviewInterface
}

func newReviewer(config *rest.Config, httpClient *http.Client) (*reviewer, error) {
	config = rest.CopyConfig(config)
	config.ContentType = runtime.ContentTypeJSON
	authentication, err := authenticationclient.NewForConfigAndClient(config, httpClient)
	if err != nil {
		return nil, fmt.Errorf("review who may read metrics: %w", err)
	}
	authorization, err := authorizationclient.NewForConfigAndClient(config, httpClient)
	if err != nil {
		return nil, fmt.Errorf("review who may read metrics: %w", err)
	}
	return &reviewer{tokens: authentication.TokenReviews(), access: authorization.SubjectAccessReviews()}, nil
}

// handler passes on the requests of those who may make them. It answers 401 if the API server does not accept the token, 403
// if its user may not read the path, and 503 if the API server does not answer.
func (r *reviewer) handler(log logr.Logger, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		ctx, cancel := context.WithTimeout(request.Context(), reviewTimeout)
		defer cancel()
		status, err := r.review(ctx, request)
		if err != nil {
			log.Error(err, "cannot review who reads the metrics")
		}
		if status != http.StatusOK {
			http.Error(w, http.StatusText(status), status)
			return
		}
		next.ServeHTTP(w, request)
	})
}

// review returns the HTTP status for a request; 200 if it is allowed. The error is the API server's.
func (r *reviewer) review(ctx context.Context, request *http.Request) (int, error) {
	scheme, token, _ := strings.Cut(request.Header.Get("Authorization"), " ")
	if token = strings.TrimSpace(token); !strings.EqualFold(scheme, "Bearer") || token == "" {
		return http.StatusUnauthorized, nil
	}
	who, err := r.tokens.Create(ctx, &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}},
		metav1.CreateOptions{})
	if err != nil {
		return http.StatusServiceUnavailable, fmt.Errorf("create a TokenReview: %w", err)
	}
	if !who.Status.Authenticated {
		return http.StatusUnauthorized, nil
	}
	user, extra := who.Status.User, map[string]authorizationv1.ExtraValue{}
	for key, values := range who.Status.User.Extra {
		extra[key] = authorizationv1.ExtraValue(values)
	}
	may, err := r.access.Create(ctx, &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: user.Username, UID: user.UID, Groups: user.Groups, Extra: extra,
		NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: request.URL.Path, Verb: strings.ToLower(request.Method)},
	}}, metav1.CreateOptions{})
	switch {
	case err != nil:
		return http.StatusServiceUnavailable, fmt.Errorf("create a SubjectAccessReview: %w", err)
	case !may.Status.Allowed:
		return http.StatusForbidden, nil
	}
	return http.StatusOK, nil
}

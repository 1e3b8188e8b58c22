package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/client-go/rest"
)

// reviewer is an API server that knows two tokens, of which one may read metrics.
func reviewer(t *testing.T) *rest.Config {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var answer any
		switch r.URL.Path {
		case "/apis/authentication.k8s.io/v1/tokenreviews":
			review := &authenticationv1.TokenReview{}
			if err := json.NewDecoder(r.Body).Decode(review); err != nil {
				t.Error(err)
			}
			review.Status.Authenticated = review.Spec.Token == "prometheus" || review.Spec.Token == "stranger"
			review.Status.User.Username = review.Spec.Token
			answer = review
		case "/apis/authorization.k8s.io/v1/subjectaccessreviews":
			review := &authorizationv1.SubjectAccessReview{}
			if err := json.NewDecoder(r.Body).Decode(review); err != nil {
				t.Error(err)
			}
			asked := review.Spec.NonResourceAttributes
			review.Status.Allowed = review.Spec.User == "prometheus" && asked != nil && asked.Path == "/metrics" && asked.Verb == "get"
			answer = review
		default:
			t.Errorf("unexpected request %s", r.URL.Path)
		}
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(answer); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	return &rest.Config{Host: server.URL}
}

func TestMetricsAreServedToThoseWhoMayReadThem(t *testing.T) {
	options := metricsOptions(&runOptions{metricsAddr: ":8080", metricsAuth: true})
	if !options.SecureServing || options.FilterProvider == nil || len(options.ExtraHandlers) > 0 {
		t.Fatalf("metrics are served as %+v", options)
	}
	filter, err := options.FilterProvider(reviewer(t), http.DefaultClient)
	if err != nil {
		t.Fatal(err)
	}
	handler, err := filter(logr.Discard(), http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }))
	if err != nil {
		t.Fatal(err)
	}
	cases := map[string]struct {
		token string
		want  int
	}{
		"no token":               {"", http.StatusUnauthorized},
		"a token of nobody's":    {"forged", http.StatusInternalServerError}, // controller-runtime's word for it
		"a token without rights": {"stranger", http.StatusForbidden},
		"a reader's token":       {"prometheus", http.StatusOK},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil)
			if c.token != "" {
				request.Header.Set("Authorization", "Bearer "+c.token)
			}
			answer := httptest.NewRecorder()
			handler.ServeHTTP(answer, request)
			if answer.Code != c.want {
				t.Errorf("answered %d %s, want %d", answer.Code, answer.Body, c.want)
			}
		})
	}
}

func TestMetricsForEveryoneAreAskedForByName(t *testing.T) {
	options := metricsOptions(&runOptions{metricsAddr: "127.0.0.1:0"})
	if options.SecureServing || options.FilterProvider != nil {
		t.Errorf("without --metrics-auth metrics are served as %+v", options)
	}
}

func TestProfilesAreServedOnLoopbackOnly(t *testing.T) {
	for addr, good := range map[string]bool{
		"0": true, "localhost:6060": true, "127.0.0.1:6060": true, "[::1]:6060": true,
		":6060": false, "0.0.0.0:6060": false, "[::]:6060": false, "10.0.0.7:6060": false, "example.com:6060": false, "6060": false,
	} {
		if err := checkProfilingAddr(addr); (err == nil) != good {
			t.Errorf("--profiling-addr %s: %v", addr, err)
		}
	}
}

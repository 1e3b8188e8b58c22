package karpenter

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

func TestAProbeComplainsWhenItIsDue(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	t.Cleanup(server.Close)
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{
		ReadinessProbe: &corev1.Probe{InitialDelaySeconds: 5, PeriodSeconds: 20},
	}}}}
	began := time.Unix(0, 0)
	p := newProbe(pod, server.URL, began)
	if ready, changed := p.ask(t.Context()); ready || changed {
		t.Fatalf("ready %v, changed %v", ready, changed)
	}
	const failed = "Readiness probe failed: HTTP probe failed with statuscode: 503"
	cases := []struct {
		after time.Duration
		want  string
	}{
		{4 * time.Second, ""}, // before the initial delay has passed
		{5 * time.Second, failed},
		{24 * time.Second, ""}, // before the period has
		{25 * time.Second, failed},
	}
	for _, c := range cases {
		if got := p.complaint(began.Add(c.after)); got != c.want {
			t.Errorf("after %s: got %q, want %q", c.after, got, c.want)
		}
	}
}

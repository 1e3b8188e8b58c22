package karpenter

import (
	"context"
	"io"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
)

const (
	// probeEvery is shorter than a kubelet's period, and there is no initial
	// delay: the process says itself when it is ready.
	probeEvery   = 200 * time.Millisecond
	probeTimeout = 5 * time.Second
	// probeFailures in a row make a ready pod unready.
	probeFailures = 3
)

// probe asks whether a program is ready.
type probe struct {
	client   *http.Client
	url      string
	ready    bool
	failures int
}

func newProbe(pod *corev1.Pod, health string) *probe {
	path := "/readyz"
	if p := pod.Spec.Containers[0].ReadinessProbe; p != nil && p.HTTPGet != nil {
		path = p.HTTPGet.Path
	}
	return &probe{
		client: &http.Client{Timeout: probeTimeout, Transport: &http.Transport{DisableKeepAlives: true}},
		url:    health + path,
	}
}

// ask says whether the program is ready, and whether that is news.
func (p *probe) ask(ctx context.Context) (ready, changed bool) {
	if p.succeeds(ctx) {
		changed = !p.ready
		p.ready, p.failures = true, 0
		return true, changed
	}
	p.failures++
	if p.ready && p.failures >= probeFailures {
		p.ready = false
		return false, true
	}
	return p.ready, false
}

func (p *probe) succeeds(ctx context.Context) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url, http.NoBody)
	if err != nil {
		return false
	}
	response, err := p.client.Do(request)
	if err != nil {
		return false
	}
	defer func() { _ = response.Body.Close() }()
	_, err = io.Copy(io.Discard, response.Body)
	return err == nil && response.StatusCode >= 200 && response.StatusCode < 400
}
